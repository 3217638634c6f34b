"""A run whose rounds are decoded on the device.

While the host reads a round, the device decodes the next round. The device does not know where a
text ends, so it may decode a round beyond the end. The host drops this round.
"""

from __future__ import annotations

from specviz.engine.decoding.device_lanes import DeviceLanes
from specviz.engine.decoding.endings import room_for
from specviz.engine.decoding.proposal import Tree
from specviz.engine.decoding.recording import with_records
from specviz.engine.decoding.round_values import candidates_of, extra_of
from specviz.engine.decoding.speculative_run import SpeculativeRun, check_forks, why_cut
from specviz.engine.model.memory import memory_errors
from specviz.engine.model.pair import Pair
from specviz.record.conversations import PromptLike
from specviz.record.trace import Round, RunConfig


class PipelinedRun(SpeculativeRun):
    """A speculative run that decodes on the device; ``lanes`` must support its configuration."""

    def __init__(
        self, pair: Pair, prompt: PromptLike, config: RunConfig, lanes: DeviceLanes
    ) -> None:
        super().__init__(pair, prompt, config)
        prompt_ids = self.prompt.token_ids
        capacity, self._limit = room_for(pair, prompt_ids, config)
        with memory_errors(pair.device):
            self._lane = lanes.rounds(prompt_ids, config, capacity)
        self.prefill = self._lane.prefill

    def release(self) -> None:
        self._done = True
        del self._lane

    def go_back(self, entry: Round) -> None:
        self._go_back(entry)
        self._lane.set_position(entry.context_length, entry.index)

    def __next__(self) -> Round:
        if self._done:
            raise StopIteration
        self._done = True  # if the round fails, the caches are inconsistent: never continue
        before = len(self._history)
        room = self._limit - before
        with memory_errors(self.pair.device):
            played = self._lane.collect(room)
        self._done = False
        forks = [each for each in self.config.forks if each.round == self._index]
        verdicts = played.verdicts
        check_forks(forks, verdicts)
        output = self._endings.judge(self._history, verdicts.accepted_ids, verdicts.extra_id, room)
        tree = Tree(len(verdicts.token_ids), played.catch_up, None)
        table = self.pair.token_table
        candidates = candidates_of(tree, verdicts, output, played.uniforms, played.overruled, table)
        if played.records:
            candidates = with_records(
                candidates, dict(zip(range(len(candidates)), played.records, strict=True))
            )
        entry = Round(
            index=self._index,
            context_length=before,
            candidates=candidates,
            extra=extra_of(tree, verdicts, output, played.uniforms, table),
            emitted=output.emitted,
            cut=why_cut(output, self.config.gamma, room, self._endings.limit_reason),
            draft_catch_up=played.catch_up,
            times=played.times,
        )
        self._write(output)
        self._num_returned = len(self._history)
        self._index += 1
        return entry
