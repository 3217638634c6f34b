"""Rounds of one run on the device; the host reads a round while the next round runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from specviz.engine.decoding.device_lanes import PlayedRound
from specviz.engine.decoding.judging import verdicts_of
from specviz.engine.decoding.sampling import Uniforms
from specviz.engine.decoding.speculative_run import overrule
from specviz.engine.graphed.chain import FED_FIRST, Chain
from specviz.engine.graphed.playback import Mark
from specviz.record.run_config import RunConfig
from specviz.record.trace import Prefill, RoundTimes

AHEAD = 2  # launched, uncollected rounds: one to read, one running


@dataclass(frozen=True, slots=True, eq=False)
class _Launched:
    index: int
    marks: tuple[Mark, Mark, Mark, Mark]  # begin, drafted, verified, recorded
    before: Mark | None  # end of the previous round; None if anything else ran in between
    verdicts: Callable[[], list[float]]
    insights: Callable[[], list[float]] | None


class GraphedRounds:
    """Decodes a run's rounds on the device with captured stages.

    Implements ``device_lanes.RoundLane``.
    """

    def __init__(self, chain: Chain, prompt_ids: Sequence[int], config: RunConfig) -> None:
        self._chain = chain
        self._memory, self._playback = chain.memory, chain.playback
        self._record = config.record
        self._uniforms, self._overruled = _draws(config, self._memory.state.rows)
        chain.write_tape(self._uniforms, _forced(config))
        self._launched: deque[_Launched] = deque()
        self._length = len(prompt_ids)  # of the text after the collected rounds
        self._index = 0  # of the next round to launch
        self._seen: list[int] = []  # by round: cache rows attended to
        self._last: Mark | None = None
        self.prefill = self._read(prompt_ids)

    def collect(self, room: int) -> PlayedRound:
        while len(self._launched) < AHEAD:
            self._launch()
        launched = self._launched.popleft()
        gamma = self._chain.gamma
        verdicts = verdicts_of(launched.verdicts(), gamma, room)
        records = []
        if launched.insights is not None:
            read = self._chain.recorder.read(launched.insights(), gamma)
            records = read[: len(verdicts.token_ids)]
        fed = min(FED_FIRST, self._length)
        self._length += len(verdicts.path) + 1
        return PlayedRound(
            uniforms=self._uniforms[launched.index],
            overruled=self._overruled.get(launched.index, {}),
            verdicts=verdicts,
            records=records,
            times=self._times(launched),
            catch_up=fed,
        )

    def set_position(self, length: int, index: int) -> None:
        self._launched.clear()
        self._memory.state.set_position(length, index)
        self._length, self._index, self._last = length, index, None

    def _read(self, prompt_ids: Sequence[int]) -> Prefill:
        """Prefill all prompt tokens but the last, which the first round feeds."""
        ids, playback, memory = list(prompt_ids), self._playback, self._memory
        memory.state.write(ids, 0)
        memory.state.set_position(len(ids), 0)
        read = memory.state.tokens[: len(ids) - 1]
        marks = [playback.mark()]
        for model in (memory.target, memory.draft):
            if len(ids) > 1:
                model.prefill(read, 0)
            marks.append(playback.mark())
        playback.wait()
        target, draft = playback.between(*marks[:2]), playback.between(*marks[1:])
        return Prefill(target=target, draft=draft)

    def _launch(self) -> None:
        chain, playback = self._chain, self._playback
        seen, captured = self._rows_seen(), chain.captured
        draft, verify = chain.draft(seen), chain.verify(seen)
        record = chain.record() if self._record else None
        before = self._last if chain.captured == captured else None
        began = playback.mark()
        draft()
        drafted = playback.mark()
        verify()
        verified = recorded = playback.mark()
        verdicts = playback.fetch(chain.verdicts)
        insights = None
        if record is not None:
            verified = playback.mark()
            record()
            insights = playback.fetch(chain.insights)
            recorded = playback.mark()
        marks = (began, drafted, verified, recorded)
        self._launched.append(_Launched(self._index, marks, before, verdicts, insights))
        self._last = recorded
        self._index += 1

    def _rows_seen(self) -> int:
        """Return the number of cache rows that the next round attends to.

        The number suffices for every possible outcome of the rounds that are still running. A round
        that is decoded again attends to as many rows as the first time, even if fewer rounds are
        still running now.
        """
        if self._index == len(self._seen):
            gamma = self._chain.gamma
            most = self._length + (gamma + 1) * len(self._launched)
            self._seen.append(self._memory.state.seen(most + gamma))
        return self._seen[self._index]

    def _times(self, launched: _Launched) -> RoundTimes:
        """Return the round's times, measured with the device's clock.

        The field ``other`` is the time between the previous round's end and this round's start.
        """
        began, drafted, verified, recorded = launched.marks
        between, before = self._playback.between, launched.before
        return RoundTimes(
            draft=between(began, drafted),
            verify=between(drafted, verified),
            record=between(verified, recorded),
            other=0.0 if before is None else between(before, began),
        )


def _draws(config: RunConfig, most: int) -> tuple[np.ndarray, dict[int, dict[int, float]]]:
    """Return the uniforms of all rounds, and the uniforms that the forks replaced.

    Returns:
        The uniforms `[rounds, 2 γ + 1]`, which contain the forks' values, and the replaced
        uniforms, by round and position. The number of rounds is limited by ``most``. It includes
        rounds that are launched beyond the end of the text.
    """
    drawn = Uniforms(config.seed)
    rounds = range(min(most, config.max_new_tokens + AHEAD))
    table = np.stack([drawn.of_round(index, config.gamma) for index in rounds])
    at = {fork.round for fork in config.forks if fork.round in rounds}
    return table, {
        index: overrule(table[index], [fork for fork in config.forks if fork.round == index])
        for index in at
    }


def _forced(config: RunConfig) -> list[tuple[int, int, int]]:
    rounds = range(config.max_new_tokens)
    return [
        (fork.round, fork.place, fork.instead)
        for fork in config.forks
        if fork.instead is not None and fork.round in rounds and fork.place <= config.gamma
    ]
