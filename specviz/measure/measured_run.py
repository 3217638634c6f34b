"""A run with its step costs, its forecast and the timing of the target alone.

The forecast is made before the run, from stored step costs; a run that begins without them has no
forecast. Step costs are measured before the run only on request, or if the run needs them to decide
when to stop drafting. After the run, the target alone and a replay of the run are timed in slices
along the run's text. The speedup comes from these slices, not from the time of the displayed run.
The slices also add to the step costs of later runs. A run that began without step costs uses the
step costs from its own slices. At the end, each token's acceptance probability is computed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from specviz.figures.agreement import agreement_of_costs
from specviz.figures.step_times import covers_run
from specviz.figures.stopping_reach import drafting_costs
from specviz.measure.answered_turns import with_answers
from specviz.measure.forecast import forecast, stored_profile
from specviz.measure.machine_watch import RecentLoad
from specviz.measure.slice_timing import timed_slices, timing_seconds
from specviz.measure.step_costs import costs_of_this_run, step_costs, stored_costs
from specviz.record.conversations import Conversation, PromptLike
from specviz.record.pairs import ProgressCallback
from specviz.record.prompts import kind_of
from specviz.record.trace import (
    Baseline,
    DraftingCosts,
    Forecast,
    Prompt,
    Round,
    RunConfig,
    StepCosts,
    Trace,
)

if TYPE_CHECKING:
    from specviz.engine import Pair, SpeculativeRun
    from specviz.engine.model.read_text import ReadText

_load = RecentLoad()  # of the machine, before a run


class MeasuredRun(Iterator[Round]):
    """A run in progress: iterate over its rounds, then over ``timed()``, then call ``complete()``.

    ``trace()`` may be called at any time.
    """

    def __init__(
        self,
        pair: Pair,
        prompt: PromptLike,
        config: RunConfig,
        *,
        baseline: bool,
        kind: str | None,
        fresh_costs: bool,
        budget: float | None,
        on_progress: ProgressCallback | None,
    ) -> None:
        from specviz.engine import speculate
        from specviz.engine.decoding.endings import room_for
        from specviz.engine.model.chat import encode_prompt

        self._pair = pair
        self._config = config
        # The oracle uses information that no engine has, so its times mean nothing.
        self._wants_baseline = baseline and config.until.stopping.measured
        self._budget = timing_seconds() if budget is None else budget
        last = prompt.text if isinstance(prompt, Conversation) else prompt
        self._kind = kind_of(last) if isinstance(last, str) else None
        if isinstance(prompt, Conversation):
            prompt = with_answers(pair, prompt, config)
        # Before measuring anything, reject a prompt that cannot be continued.
        prompt_ids = encode_prompt(pair, prompt, chat=config.chat)
        room_for(pair, prompt_ids, config)
        self._costs: StepCosts | None = (
            step_costs(pair, config, fresh=True, on_progress=on_progress)
            if fresh_costs
            else stored_costs(pair, config)
        )
        self._measured = self._costs if fresh_costs else None
        self._drafting_costs = self._costs_to_decide_by(len(prompt_ids), on_progress)
        self._run: SpeculativeRun = speculate(pair, prompt, config, costs=self._drafting_costs)
        self._rounds: list[Round] = []
        self._timing: Baseline | None = None
        self._odds: tuple[float, ...] = ()
        self._read: ReadText | None = None
        self._agreement: tuple[str, ...] = ()
        self.prompt: Prompt = dataclasses.replace(self._run.prompt, kind=kind or self._kind)
        self.forecast: Forecast | None = self._forecast()

    @property
    def lacks_kernels(self) -> bool:
        return self._pair.lacks_kernels

    def __iter__(self) -> MeasuredRun:
        return self

    def __next__(self) -> Round:
        entry = next(self._run)
        self._rounds.append(entry)
        return entry

    def stop(self) -> None:
        """Stop after the current round; the target alone is then not timed."""
        self._wants_baseline = False
        self._run.stop()

    def timed(self) -> Iterator[Baseline]:
        """Time the target alone and the run again; yield the timing after every part of the text.

        Yields nothing for a stopped run. A caller that stops early keeps the timing so far.
        """
        if not self._wants_baseline or self._run.finish == "stopped" or not self._rounds:
            return
        run = self._run
        self._read = run.read_text()
        run.release()
        for timing in timed_slices(
            self._pair,
            run.prompt.token_ids,
            self._config,
            self._rounds,
            budget=self._budget,
            costs=self._drafting_costs,
        ):
            self._timing = timing
            yield timing

    def keep_caches(self) -> None:
        """Keep the KV caches for a later chat run whose prompt continues this text."""
        if not self._config.chat or self._run.finish == "stopped":
            return
        self._pair.last_read = self._read or self._run.read_text() or self._pair.last_read

    def complete(self, on_progress: ProgressCallback | None = None, *, costs: bool = True) -> None:
        """Compute the acceptance probabilities along the text, and store the run's step costs.

        Do nothing if the run was stopped. If there are no step costs and ``costs`` is set, measure
        step costs. If step costs were measured just before the run, a notice compares them with the
        step costs timed in the run.
        """
        if self._run.finish == "stopped":
            return
        if not self._odds and self._rounds:
            self._odds = self._scored()
        own = costs_of_this_run(self._pair, self._config, self._timing, self._rounds)
        if self._measured is not None and own is not None:
            self._agreement = agreement_of_costs(self.trace(), self._measured, own)
        if not covers_run(self._costs, self._config):
            self._costs = own or self._costs
        if self._costs is None and costs:
            self._costs = step_costs(self._pair, self._config, on_progress=on_progress)

    def _scored(self) -> tuple[float, ...]:
        """Return the odds (acceptance probability) at each token.

        The result is empty without a draft model, for forks, trees and several drafts, and under
        rules other than lossless.
        """
        config = self._config
        exact = config.by_odds and not config.forks
        if not (exact and config.draft_method.needs_draft):
            return ()
        from specviz.engine.decoding.scoring import score_text

        text = [token for entry in self._rounds for token in entry.emitted]
        (scores,) = score_text(self._pair, self._run.prompt.token_ids, text, [config])
        return scores.odds

    def trace(self) -> Trace:
        """Return the trace so far."""
        return Trace(
            config=self._config,
            pair=self._pair.info,
            environment=self._pair.environment,
            prompt=self.prompt,
            prefill=self._run.prefill,
            rounds=tuple(self._rounds),
            text=self._run.text,
            finish=self._run.finish,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            step_costs=self._costs,
            forecast=self.forecast,
            baseline=self._timing,
            notices=(*self._pair.notices, *self._run.notices, *self._agreement),
            pieces=self._pieces(),
            odds=self._odds,
            drafting_costs=self._drafting_costs,
        )

    def _costs_to_decide_by(
        self, prompt_length: int, on_progress: ProgressCallback | None
    ) -> DraftingCosts | None:
        """Return the step costs by which the run decides when to stop drafting.

        The costs apply to the middle of the text. The result is None if the run does not decide by
        cost, or if no cost was measured.
        """
        config = self._config
        if config.until.stopping.name != "cost":
            return None
        if self._costs is None or not self._costs.table:
            self._costs = step_costs(self._pair, config, on_progress=on_progress)
        if self._costs is None or not self._costs.draft:
            return None
        return drafting_costs(self._costs, prompt_length + config.max_new_tokens / 2, config.gamma)

    def _pieces(self) -> dict[str, str]:
        """Return the bytes of each used token that contains only a part of some character.

        Before the first round, all tokens of the vocabulary count as used.
        """
        table = self._pair.token_table
        if not self._rounds:
            return table.split(range(len(table.texts)))
        return table.split(used_ids(self.prompt, self._rounds))

    def _forecast(self) -> Forecast | None:
        profile = stored_profile(self._pair, self._config, self._kind) if self._kind else None
        length = len(self.prompt.token_ids)
        load = _load.others()
        return forecast(profile, self._costs, self._config, self.prompt.text, length, load=load)


def used_ids(prompt: Prompt, rounds: Sequence[Round]) -> set[int]:
    """Return the ids of all tokens that occur in a trace."""
    ids = set(prompt.token_ids)
    for entry in rounds:
        ids.update(each.token_id for each in entry.candidates)
        ids.update([entry.extra.token_id] if entry.extra else [])
        for seen in (each.insight for each in entry.candidates if each.insight):
            for tops in (seen.draft_top, seen.target_top, seen.residual_top):
                ids.update(tops.token_ids)
    return ids


def measured_run(
    pair: Pair,
    prompt: PromptLike,
    config: RunConfig,
    *,
    baseline: bool = True,
    kind: str | None = None,
    fresh_costs: bool = False,
    budget: float | None = None,
    on_progress: ProgressCallback | None = None,
) -> MeasuredRun:
    """Start a measured run.

    Args:
        kind: The kind of prompt, as the user names it. Forecasts ignore this name: they need the
            prompt to be a preset, and use the preset's kind.
        fresh_costs: Measure step costs now, even if some are stored.
        budget: Seconds for timing the target alone and the run; ``timing_seconds()`` if None.
        on_progress: Receives the progress of measuring step costs.
    """
    return MeasuredRun(
        pair,
        prompt,
        config,
        baseline=baseline,
        kind=kind,
        fresh_costs=fresh_costs,
        budget=budget,
        on_progress=on_progress,
    )


def finish(run: MeasuredRun, on_progress: ProgressCallback | None = None) -> Trace:
    """Run to the end, time the run, measure missing step costs, and return the trace."""
    for _ in run:
        pass
    for _ in run.timed():
        pass
    run.complete(on_progress)
    return run.trace()
