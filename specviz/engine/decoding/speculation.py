"""The decoding loop: draft, target pass, verdicts, rollback. An iteration yields one ``Round``.

Invariants: before a round, the target's cache holds all tokens of the text but the last; a round
makes one target pass. The host waits for the device once per round. If a round fails, its run ends.
Other runs are not affected, because every run has its own caches.

If ``config.record`` is on, rounds are completed during a later round's target pass, when the Python
interpreter is mostly idle. On a CPU, a background thread completes the rounds of about 20 ms in one
batch, because waking the thread takes longer than one record. So a round is returned only after
later rounds have been decoded. When a run is stopped or fails, the pending rounds come first.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
import torch

from specviz.engine.decoding.clock import make_clock
from specviz.engine.decoding.drafting import (
    Drafter,
    make_drafter,
    own_step_of,
    proposable_by,
    proposing,
    wanted_states,
)
from specviz.engine.decoding.endings import RoundOutput, room_for
from specviz.engine.decoding.judges import make_judge
from specviz.engine.decoding.judging import Verdicts
from specviz.engine.decoding.pipelined_run import PipelinedRun
from specviz.engine.decoding.proposal import Proposal, Tree
from specviz.engine.decoding.recording import (
    CandidateRecord,
    Deferred,
    Recorder,
    with_records,
)
from specviz.engine.decoding.round_values import candidates_of, extra_of
from specviz.engine.decoding.sampling import (
    Draws,
    Noise,
    Sampler,
    Uniforms,
)
from specviz.engine.decoding.speculative_run import (
    SpeculativeRun,
    check_forks,
    overrule,
    why_cut,
)
from specviz.engine.decoding.stopping import make_stopper
from specviz.engine.decoding.target_pass import TargetPass, TargetPassResult
from specviz.engine.decoding.verify import Rule, make_rule
from specviz.engine.model.feeds import Reading, read_alone
from specviz.engine.model.memory import memory_errors
from specviz.engine.model.pair import Pair
from specviz.engine.model.read_text import ReadText, read
from specviz.engine.model.step_capabilities import require_places
from specviz.errors import PairError
from specviz.record.conversations import PromptLike
from specviz.record.forks import Fork
from specviz.record.trace import (
    Candidate,
    DraftingCosts,
    Extra,
    Finish,
    Prefill,
    Round,
    RoundTimes,
    RunConfig,
)

_BATCH = 0.02  # seconds that a round may wait for its completion
_Ending: TypeAlias = Callable[[], list[CandidateRecord]]


class Speculation(SpeculativeRun):
    """A run driven step by step from the host; a ``PipelinedRun`` decodes on the device instead.

    ``drafter`` and ``rule`` replace the configuration's drafter and acceptance rule.
    """

    def __init__(
        self,
        pair: Pair,
        prompt: PromptLike,
        config: RunConfig,
        *,
        drafter: Drafter | None = None,
        rule: Rule | None = None,
        uniforms: Uniforms | None = None,
        costs: DraftingCosts | None = None,
    ) -> None:
        super().__init__(pair, prompt, config)
        prompt_ids = self.prompt.token_ids
        self._capacity, self._limit = room_for(pair, prompt_ids, config)
        self._capacity += config.spare_rows  # for tree nodes off the accepted path
        self._measured = config.until.stopping.measured
        self._sampler = Sampler(config)
        self._uniforms = uniforms or Uniforms(config.seed)
        self._noise = _shared_noise(pair, config)
        self._rule = rule or make_rule(config)
        judge = make_judge(config, self._sampler, rule)
        self._stopper = make_stopper(config, costs)
        self._recorder = Recorder(pair.token_table, config.temperature, in_torch=pair.lacks_kernels)
        self._clock = make_clock(pair.device)
        self._played: deque[Deferred[Round]] = deque()  # rounds not returned yet
        self._num_begun = 0  # how many of them are being completed, or need no completion
        self._seconds = 0.0  # of the latest round
        self._waiting_since = 0.0  # when the first round after those ended
        self._failure: BaseException | None = None  # raised after all finished rounds are returned
        self._hidden = dict[int, torch.Tensor]()  # the target's hidden states, by round index
        with memory_errors(pair.device):
            method = config.draft_method
            reads_states = drafter is not None or method.own or method.needs_head
            self._target = pair.target_step(self._capacity, () if reads_states else prompt_ids)
            self._drafter = drafter or make_drafter(
                pair, config, self._capacity, self._sampler, self._stopper, self._target, prompt_ids
            )
            if wanted := wanted_states(self._drafter):
                require_places(self._target.capabilities.hidden_states, wanted)
                self._target.request_hidden(wanted)
            self._proposable = proposable_by(self._drafter)
            self._pass = TargetPass(self._target, self._sampler, judge, pair.device)
            self.prefill = self._read_prompt(prompt_ids)
            self._keep_hidden(0, range(len(prompt_ids) - 1))

    @property
    def finish(self) -> Finish:
        return "stopped" if self._played else self._finish

    def read_text(self) -> ReadText | None:
        if self._failure is not None:
            return None
        return ReadText(
            token_ids=tuple(self._history[: self._target.length]),
            num_prompt=len(self.prompt.token_ids),
            num_copied=self.prefill.copied,
            target=self._target,
            draft=own_step_of(self._drafter),
        )

    def release(self) -> None:
        self._done = True
        del self._target, self._drafter, self._pass

    def go_back(self, entry: Round) -> None:
        """Undo ``entry``, a round that was returned, and all later rounds.

        ``config.record`` must be off, because a run with a record has already decoded later
        rounds.
        """
        assert not self._played
        self._go_back(entry)
        self._target.forget(self._target.length - entry.context_length + 1)
        self._drafter.settle(entry.context_length - entry.draft_catch_up)
        if self._stopper is not None:
            self._stopper.go_back(entry.index)

    def __next__(self) -> Round:
        while not self._done and not self._num_begun:
            with torch.inference_mode():
                read_alone(self.playing())
        if self._played:
            self._num_begun = max(0, self._num_begun - 1)
            entry = self._played.popleft()()
            self._num_returned += len(entry.emitted)
            return entry
        failure, self._failure = self._failure, None
        raise failure or StopIteration

    def playing(self) -> Reading[None]:
        """Decode the next round: yield each pass of a model and receive the pass's logits.

        ``next`` then returns the round, or raises the error that ended the run. This generator must
        run in torch's inference mode.
        """
        try:
            with memory_errors(self.pair.device):
                entry = yield from self._playing_round()
            if len(self._played) == self._num_begun:
                self._waiting_since = time.perf_counter()
            self._played.append(entry)
            if not self.config.record:
                self._num_begun = len(self._played)
        except GeneratorExit:
            self._done = True
            raise
        except BaseException as error:
            self._done = True  # the caches are inconsistent: never continue
            self._failure = error

    def _read_prompt(self, prompt_ids: Sequence[int]) -> Prefill:
        copied = self._target.length
        self._clock.start()
        read(self._target, prompt_ids[:-1])
        self._clock.mark()
        self._drafter.prefill(prompt_ids)
        self._clock.mark()
        target, draft = self._clock.seconds()
        if self._target.length != len(prompt_ids) - 1:
            raise PairError(
                f"The cache of {self.pair.info.target.name} does not support rolling back.",
                remedy="Use a target of another model family.",
            )
        return Prefill(target=target, draft=draft, copied=copied)

    def _playing_round(self) -> Reading[Deferred[Round]]:
        before = len(self._history)
        assert self._target.length == before - 1
        self._clock.start()
        room = self._limit - before
        depth = min(self.config.depth, room)
        # Timed, as the draw of a plain step is; otherwise speedups would be too high.
        uniforms = self._uniforms.of_round(self._index, self.config.candidates_within(depth))
        forks = [each for each in self.config.forks if each.round == self._index]
        overruled = overrule(uniforms, forks)
        tree, verdicts, records = yield from self._drafting_and_verifying(depth, uniforms, forks)
        check_forks(forks, verdicts)
        output = self._endings.judge(self._history, verdicts.accepted_ids, verdicts.extra_id, room)
        self._settle(output, before + output.num_accepted, tree, verdicts)
        if self._stopper is not None:
            self._stopper.learn(self._index, len(verdicts.path), len(output.emitted))
        make_values = partial(self._values, tree, verdicts, output, uniforms, overruled)
        values = None if self.config.record else make_values()
        self._clock.mark()

        draft, check, record, other = self._clock.seconds()
        self._seconds = draft + check + record + other
        index = self._index
        cut = why_cut(output, self.config.depth, room, self._endings.limit_reason)
        self._index += 1

        def complete() -> Round:
            began = time.perf_counter()
            candidates, extra = values or make_values()
            if records is not None:
                numbers = verdicts.tested or range(len(verdicts.token_ids))
                candidates = with_records(candidates, dict(zip(numbers, records(), strict=True)))
            recorded = record if values else record + time.perf_counter() - began
            return Round(
                index=index,
                context_length=before,
                candidates=candidates,
                extra=extra,
                emitted=output.emitted,
                cut=cut,
                draft_catch_up=tree.catch_up,
                times=RoundTimes(draft=draft, verify=check, other=other, record=recorded),
            )

        return Deferred(complete)

    def _values(
        self,
        tree: Tree,
        verdicts: Verdicts,
        output: RoundOutput,
        uniforms: np.ndarray,
        overruled: Mapping[int, float],
    ) -> tuple[tuple[Candidate, ...], Extra | None]:
        """Return the round's candidates and its last token as the trace stores them."""
        table = self.pair.token_table
        candidates = candidates_of(tree, verdicts, output, uniforms, overruled, table)
        if not self._measured:
            candidates = tuple(each for each in candidates if each.tested)
        return candidates, extra_of(tree, verdicts, output, uniforms, table, self._proposable)

    def _drafting_and_verifying(
        self, depth: int, uniforms: np.ndarray, forks: Sequence[Fork]
    ) -> Reading[tuple[Tree, Verdicts, _Ending | None]]:
        """Draft, verify, and begin the record.

        This function's tensors are freed on return, while the clock still runs. So a round's time
        includes freeing its tensors. The time of a plain step includes this, too.

        Returns:
            The candidates' tree, the verdicts, and the function that completes the record, if any.
        """
        draws = self._draws(uniforms, depth)
        hidden = self._hidden.get(self._index)
        proposal = yield from proposing(self._drafter, self._history, depth, draws, hidden)
        self._begin_records()
        self._clock.mark()
        forced = {each.place: each.instead for each in forks if each.instead is not None}
        result = yield from self._pass.checking(self._history[-1], proposal, draws, forced)
        self._clock.mark()
        records = self._records(proposal, result)
        self._clock.mark()
        return proposal.tree, result.verdicts, records

    def _begin_records(self) -> None:
        """Complete the pending rounds if one more round would make the first one wait too long.

        Call this just before a target pass. On a GPU, rounds never wait: the device has begun.
        """
        if self.pair.device.type == "cpu" and self._played and not self._num_begun:
            waited = time.perf_counter() - self._waiting_since
            if waited + self._seconds < _BATCH:
                return
            Deferred.begin(list(self._played))
        self._num_begun = len(self._played)

    def _draws(self, uniforms: np.ndarray, depth: int) -> Draws:
        drawn = torch.from_numpy(uniforms).to(self.pair.device)
        if self._noise is None:
            return Draws(drawn)
        place = len(self._history) - len(self.prompt.token_ids)
        return Draws(drawn, self._noise.rows(place, depth + 1))

    def _records(self, proposal: Proposal, result: TargetPassResult) -> _Ending | None:
        """Begin the round's record; return the function that completes it.

        Returns None if the record is off or there are no candidates.
        """
        if not self.config.record or not proposal.token_ids.shape[0]:
            return None
        remaining, tested = result.verdicts.remaining, list(result.verdicts.tested)
        if remaining is None:
            return self._recorder.begin(self._rule, proposal, result.logits, result.probs)
        rows = [proposal.in_tree[number] + 1 for number in tested]
        return self._recorder.begin(
            self._rule, proposal.part(tested), result.logits[rows], remaining
        )

    def _settle(self, output: RoundOutput, valid: int, tree: Tree, verdicts: Verdicts) -> None:
        """Append the emitted tokens; roll the caches back to the text's first ``valid`` tokens."""
        self._write(output)
        path = range(output.num_accepted) if tree.parents is None else verdicts.path
        kept = path[: output.num_accepted]
        self._keep_hidden(self._index + 1, [0, *(node + 1 for node in kept)])
        if tree.parents is None:
            self._pass.settle(valid, None)
            self._drafter.settle(valid)
        else:
            self._pass.settle(valid, kept)
            self._drafter.settle(valid, kept)

    def _keep_hidden(self, index: int, rows: Sequence[int]) -> None:
        """Store hidden states of the text's newest tokens, for the drafter in round ``index``.

        Args:
            rows: the rows of these tokens in the latest target pass.
        """
        if not self._drafter.wants_hidden or self._target.hidden is None:
            return
        if self.config.record:  # such a run never goes back: only the newest states are read
            self._hidden.clear()
        self._hidden[index] = self._target.hidden[list(rows)]


def speculate(
    pair: Pair, prompt: PromptLike, config: RunConfig, *, costs: DraftingCosts | None = None
) -> SpeculativeRun:
    """Return an iterator over the rounds of a speculative run.

    If the pair cannot decode with this configuration on the device, the host drives the run step by
    step.

    Args:
        costs: step costs, which ``draft_until=cost`` needs.
    """
    lanes, notices = pair.lanes, ()
    if lanes is not None:
        reason = lanes.unsupported_reason(config)
        if not reason:
            return PipelinedRun(pair, prompt, config, lanes)
        notices = (f"This run is driven step by step from the host: {reason}.",)
    run = Speculation(pair, prompt, config, costs=costs)
    run.notices = notices
    return run


def _shared_noise(pair: Pair, config: RunConfig) -> Noise | None:
    if config.rule != "coupled":
        return None
    return Noise(config.seed, pair.vocabulary, pair.device)
