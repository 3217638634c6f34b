"""Rounds of one run, played on the device; the host reads each while the next is under way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from specviz.engine.decoding.device_lanes import PlayedRound
from specviz.engine.decoding.judging import verdicts_of
from specviz.engine.decoding.sampling import Uniforms
from specviz.engine.decoding.speculative_run import overrule
from specviz.engine.graphed.chain import FED_FIRST, Chain, Lines
from specviz.engine.graphed.playback import Mark, Playback
from specviz.record.run_config import RunConfig
from specviz.record.trace import Prefill, RoundTimes

AHEAD = 2  # rounds that are launched and not collected: one to read, one under way


@dataclass(frozen=True, slots=True, eq=False)
class _Launched:
    index: int
    marks: tuple[Mark, Mark, Mark, Mark]  # begin, drafted, verified, recorded
    before: Mark | None  # the end of the round before, where nothing but rounds lies between
    verdicts: Callable[[], list[float]]
    insights: Callable[[], list[float]] | None


class GraphedRounds:
    """See ``device_lanes.RoundLane``."""

    def __init__(
        self,
        lines: Lines,
        chain: Chain,
        playback: Playback,
        prompt_ids: Sequence[int],
        config: RunConfig,
    ) -> None:
        self._lines = lines
        self._chain = chain
        self._playback = playback
        self._record = config.record
        self._uniforms, self._overruled = _draws(config, lines.state.rows)
        chain.write_tape(self._uniforms, _forced(config))
        self._launched: deque[_Launched] = deque()
        self._length = len(prompt_ids)  # after the rounds that were collected
        self._index = 0  # of the round that is launched next
        self._seen: list[int] = []  # rows of the cache that each round looked at
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

    def state_at(self, length: int, index: int) -> None:
        self._launched.clear()
        self._lines.state.state_at(length, index)
        self._length, self._index, self._last = length, index, None

    def _read(self, prompt_ids: Sequence[int]) -> Prefill:
        """The prompt's last token is pending."""
        ids, playback, lines = list(prompt_ids), self._playback, self._lines
        lines.state.write(ids, 0)
        lines.state.state_at(len(ids), 0)
        read = lines.state.tokens[: len(ids) - 1]
        marks = [playback.mark()]
        for model in (lines.target, lines.draft):
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
        """By the next round, wherever the rounds under way end. One that is played again looks at
        as much as it did, though less is under way."""
        if self._index == len(self._seen):
            gamma = self._chain.gamma
            most = self._length + (gamma + 1) * len(self._launched)
            self._seen.append(self._lines.state.seen(most + gamma))
        return self._seen[self._index]

    def _times(self, launched: _Launched) -> RoundTimes:
        """As the device's own clock has them: with rounds back to back no time is left out."""
        began, drafted, verified, recorded = launched.marks
        between, before = self._playback.between, launched.before
        return RoundTimes(
            draft=between(began, drafted),
            verify=between(drafted, verified),
            record=between(verified, recorded),
            other=0.0 if before is None else between(before, began),
        )


def _draws(config: RunConfig, most: int) -> tuple[np.ndarray, dict[int, dict[int, float]]]:
    """[rounds, 2 γ + 1], of as many rounds as the text can have, and those that are ahead of it, at
    most ``most``; and what the seed gave where forks put other draws, by round and place."""
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
