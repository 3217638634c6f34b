"""Block verification (Sun et al. 2024, algorithm 2) simulated on a pair of Markov chains.

Many texts side by side, a candidate at a time. Unlike token by token, a verdict looks at later
candidates, so all of them are drawn. Counts as in ``simulation``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from specviz.errors import TheoryError
from specviz.theory.alias import Indices, alias_table
from specviz.theory.chains import Chains, Floats
from specviz.theory.simulation import Simulated, estimate

_LANES = 16_384
_NOTHING = 1e-15


class _WrittenTexts:
    """The texts as far as they are written, and what is counted on the way.

    Candidates are written down as they are drawn; those not accepted are overwritten.
    """

    def __init__(self, texts: int, horizon: int, first: Indices) -> None:
        self.words = np.zeros((texts, horizon + 1), np.intp)  # the prompt's last token first
        self.words[:, 0] = first
        self.rejections = np.zeros(texts, np.int32)
        self.rounds = np.zeros(texts, np.int32)
        self.rejected_at = np.zeros(horizon, np.int64)
        self.whole_rounds = self.whole_tokens = 0


@dataclass(slots=True, kw_only=True, eq=False)
class _Blocks:
    """The block that each unfinished text is at."""

    text: Indices
    start: Indices  # tokens of the text before it
    place: Indices  # candidates drawn
    accepted: Indices
    weight: Floats  # p of the last drawn
    kept: Floats  # p of the last accepted

    def only(self, which: NDArray[np.bool_]) -> _Blocks:
        return _Blocks(
            text=self.text[which],
            start=self.start[which],
            place=self.place[which],
            accepted=self.accepted[which],
            weight=self.weight[which],
            kept=self.kept[which],
        )


class BlockSimulator:
    """Block verification of ``gamma`` candidates a round; None drafts to the end of the text."""

    def __init__(self, chains: Chains, gamma: int | None = None) -> None:
        if gamma is not None and gamma < 1:
            raise TheoryError(f"γ is {gamma}.", remedy="Draft at least 1 token.")
        self._horizon, self._size = chains.horizon, chains.size
        self._gamma = min(gamma or chains.horizon, chains.horizon)
        self._start = alias_table(chains.start[None])
        # One row for each step and token before.
        self._drafts = chains.draft_kernels.reshape(-1, chains.size)
        self._targets = chains.target_kernels.reshape(-1, chains.size)
        self._draft = alias_table(self._drafts)
        drafted = self._drafts > 0.0
        ratios = np.where(drafted, self._targets / np.where(drafted, self._drafts, 1.0), 0.0)
        self._ratios = ratios.ravel()

    def run(self, texts: int, rng: np.random.Generator) -> Simulated:
        """Simulate this many texts."""
        if texts < 1:
            raise TheoryError(f"{texts} texts cannot be simulated.", remedy="Choose 1 or more.")
        sizes = [min(_LANES, texts - done) for done in range(0, texts, _LANES)]
        return reduce(add, (self._side_by_side(size, rng) for size in sizes))

    def _side_by_side(self, texts: int, rng: np.random.Generator) -> Simulated:
        first = self._start.draw(np.zeros(texts, np.intp), rng)
        written = _WrittenTexts(texts, self._horizon, first)
        blocks = _Blocks(
            text=np.arange(texts),
            start=np.zeros(texts, np.intp),
            place=np.zeros(texts, np.intp),
            accepted=np.zeros(texts, np.intp),
            weight=np.ones(texts),
            kept=np.ones(texts),
        )
        while len(blocks.text):
            judged = np.flatnonzero(self._draw_one(written, blocks, rng))
            if len(judged) and self._conclude(written, blocks, judged, rng):
                blocks = blocks.only(blocks.start < self._horizon)
        return Simulated(
            rejections=estimate(written.rejections),
            rounds=estimate(written.rounds),
            whole_rounds=written.whole_rounds,
            whole_tokens=written.whole_tokens,
            rejected_at=written.rejected_at,
            transitions=self._transitions(written.words),
        )

    def _draw_one(
        self, written: _WrittenTexts, blocks: _Blocks, rng: np.random.Generator
    ) -> NDArray[np.bool_]:
        """A candidate more in every block, weighed and judged; which blocks are complete."""
        at = blocks.start + blocks.place
        row = at * self._size + written.words[blocks.text, at]
        token = self._draft.draw(row, rng)
        written.words[blocks.text, at + 1] = token
        blocks.weight *= self._ratios.take(row * self._size + token)
        np.minimum(blocks.weight, 1.0, out=blocks.weight)
        blocks.place += 1
        complete = (blocks.place == self._gamma) | (at + 1 == self._horizon)
        odds = self._odds(blocks.weight, self._row(at + 1, token))
        passed = rng.random(len(odds)) < np.where(complete, blocks.weight, odds)
        blocks.accepted = np.where(passed, blocks.place, blocks.accepted)
        blocks.kept = np.where(passed, blocks.weight, blocks.kept)
        return complete

    def _odds(self, weight: Floats, row: Indices) -> Floats:
        """h = Z / (Z + 1 - p), Z what p times the next target law has over the draft's."""
        spare = self._spare(weight, row) @ np.ones(self._size)  # faster than sum(axis=1)
        below = spare + (1.0 - weight)
        return np.where(below > 0.0, spare / np.where(below > 0.0, below, 1.0), 1.0)

    def _spare(self, weight: Floats, row: Indices) -> Floats:
        left = self._targets.take(row, axis=0)
        left *= weight[:, None]
        left -= self._drafts.take(row, axis=0)
        return np.maximum(left, 0.0, out=left)

    def _conclude(
        self, written: _WrittenTexts, blocks: _Blocks, judged: Indices, rng: np.random.Generator
    ) -> bool:
        """The extra token of complete blocks, and the next block; whether a text is finished."""
        end = blocks.start[judged] + blocks.accepted[judged]
        full = blocks.accepted[judged] == blocks.place[judged]
        written.rounds[blocks.text[judged]] += 1
        blocks.start[judged] = end + 1
        more = end < self._horizon  # else the end of the text cuts the round
        self._write(written, blocks, judged[more], end[more], full[more], rng)
        blocks.place[judged] = blocks.accepted[judged] = 0
        blocks.weight[judged] = blocks.kept[judged] = 1.0
        return bool(np.any(end + 1 >= self._horizon))

    def _write(
        self,
        written: _WrittenTexts,
        blocks: _Blocks,
        which: Indices,
        end: Indices,
        full: NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> None:
        texts = blocks.text[which]
        row = self._row(end, written.words[texts, end])
        written.words[texts, end + 1] = self._extra(blocks.kept[which], full, row, rng)
        written.rejections[texts] += ~full
        written.rejected_at += np.bincount(end[~full], minlength=self._horizon)
        written.whole_rounds += len(texts)
        written.whole_tokens += int(blocks.accepted[which].sum()) + len(texts)

    def _extra(
        self, weight: Floats, full: NDArray[np.bool_], row: Indices, rng: np.random.Generator
    ) -> Indices:
        """The bonus from the target, or what is left of it after the last accepted candidate."""
        left = self._spare(weight, row)
        whole = full | (left.sum(axis=1) < _NOTHING)
        left[whole] = self._targets[row[whole]]
        edges = left.cumsum(axis=1)
        return (edges > (rng.random(len(row)) * edges[:, -1])[:, None]).argmax(axis=1)

    def _row(self, step: Indices, before: Indices) -> Indices:
        """Past the end any row will do: nothing is decided by it."""
        return np.minimum(step, self._horizon - 1) * self._size + before

    def _transitions(self, words: Indices) -> NDArray[np.int64]:
        edges = words[:, :-1] * self._size + words[:, 1:]
        edges += np.arange(self._horizon) * self._size**2
        counts = np.bincount(edges.ravel(), minlength=self._horizon * self._size**2)
        return counts.reshape(self._horizon, self._size, self._size)
