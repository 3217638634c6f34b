"""Block verification (Sun et al. 2024, algorithm 2) simulated on a pair of Markov chains.

Many texts are simulated in parallel, one candidate at a time. Unlike in token verification, a
verdict depends on later candidates, so all candidates of a round (its block) are drawn first, up to
the end of the text. Counts are defined as in `simulation`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specviz.theory.alias import Indices, alias_table
from specviz.theory.chains import Chains, Floats
from specviz.theory.simulation import Simulated, estimate, in_batches

_NOTHING = 1e-15


class _WrittenTexts:
    """The simulated texts so far, with counts of rejections.

    A candidate is stored when it is drawn. If it is rejected, a later token overwrites it.
    """

    def __init__(self, texts: int, horizon: int, first: Indices) -> None:
        self.tokens = np.zeros((texts, horizon + 1), np.intp)  # the prompt's last token first
        self.tokens[:, 0] = first
        self.rejections = np.zeros(texts, np.int32)
        self.rejected_at = np.zeros(horizon, np.int64)


@dataclass(slots=True, kw_only=True, eq=False)
class _Blocks:
    """The state of the current round of each unfinished text: candidates so far, and weights."""

    text: Indices
    start: Indices  # tokens of the text before the block
    place: Indices  # candidates drawn
    accepted: Indices
    weight: Floats  # the weight p_i of the last drawn candidate
    kept: Floats  # the weight p_i of the last accepted candidate

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
    """A simulator of block verification on a pair of Markov chains."""

    def __init__(self, chains: Chains) -> None:
        self._horizon, self._size = chains.horizon, chains.size
        self._start = alias_table(chains.start[None])
        # One row for each pair of step and previous token.
        self._drafts = chains.draft_kernels.reshape(-1, chains.size)
        self._targets = chains.target_kernels.reshape(-1, chains.size)
        self._draft = alias_table(self._drafts)
        drafted = self._drafts > 0.0
        ratios = np.where(drafted, self._targets / np.where(drafted, self._drafts, 1.0), 0.0)
        self._ratios = ratios.ravel()

    def run(self, texts: int, rng: np.random.Generator) -> Simulated:
        """Simulate ``texts`` texts and return the counts."""
        return in_batches(texts, lambda size: self._side_by_side(size, rng))

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
            complete = np.flatnonzero(self._draw_one(written, blocks, rng))
            if len(complete) and self._conclude(written, blocks, complete, rng):
                blocks = blocks.only(blocks.start < self._horizon)
        return Simulated(
            rejections=estimate(written.rejections),
            rejected_at=written.rejected_at,
            transitions=self._transitions(written.tokens),
        )

    def _draw_one(
        self, written: _WrittenTexts, blocks: _Blocks, rng: np.random.Generator
    ) -> NDArray[np.bool_]:
        """Draw and test one candidate in every block; return which blocks are complete now."""
        at = blocks.start + blocks.place
        row = at * self._size + written.tokens[blocks.text, at]
        token = self._draft.draw(row, rng)
        written.tokens[blocks.text, at + 1] = token
        blocks.weight *= self._ratios.take(row * self._size + token)
        np.minimum(blocks.weight, 1.0, out=blocks.weight)
        blocks.place += 1
        complete = at + 1 == self._horizon
        odds = self._odds(blocks.weight, self._row(at + 1, token))
        passed = rng.random(len(odds)) < np.where(complete, blocks.weight, odds)
        blocks.accepted = np.where(passed, blocks.place, blocks.accepted)
        blocks.kept = np.where(passed, blocks.weight, blocks.kept)
        return complete

    def _odds(self, weight: Floats, row: Indices) -> Floats:
        """Return the probability that the joint test of the candidates so far passes.

        It is h_i = Z / (Z + 1 - p) of Sun et al. 2024, with p = ``weight`` and
        Z = sum max(0, p * target - draft). The test of a complete block uses p instead.
        """
        spare = self._spare(weight, row) @ np.ones(self._size)  # faster than sum(axis=1)
        below = spare + (1.0 - weight)
        return np.where(below > 0.0, spare / np.where(below > 0.0, below, 1.0), 1.0)

    def _spare(self, weight: Floats, row: Indices) -> Floats:
        left = self._targets.take(row, axis=0)
        left *= weight[:, None]
        left -= self._drafts.take(row, axis=0)
        return np.maximum(left, 0.0, out=left)

    def _conclude(
        self, written: _WrittenTexts, blocks: _Blocks, complete: Indices, rng: np.random.Generator
    ) -> bool:
        """Emit the recovered tokens of the complete blocks, and start new blocks in their texts.

        A block in which all candidates were accepted has no recovered token. Returns whether a text
        finished.
        """
        end = blocks.start[complete] + blocks.accepted[complete]
        blocks.start[complete] = end + 1
        more = end < self._horizon  # otherwise all candidates were accepted
        self._write(written, blocks, complete[more], end[more], rng)
        blocks.place[complete] = blocks.accepted[complete] = 0
        blocks.weight[complete] = blocks.kept[complete] = 1.0
        return bool(np.any(end + 1 >= self._horizon))

    def _write(
        self,
        written: _WrittenTexts,
        blocks: _Blocks,
        which: Indices,
        end: Indices,
        rng: np.random.Generator,
    ) -> None:
        texts = blocks.text[which]
        row = self._row(end, written.tokens[texts, end])
        written.tokens[texts, end + 1] = self._recovered(blocks.kept[which], row, rng)
        written.rejections[texts] += 1
        written.rejected_at += np.bincount(end, minlength=self._horizon)

    def _recovered(self, weight: Floats, row: Indices, rng: np.random.Generator) -> Indices:
        """Draw and return the recovered tokens.

        They come from the weighted residuals, or from the target where the residual is zero.
        """
        left = self._spare(weight, row)
        empty = left.sum(axis=1) < _NOTHING
        left[empty] = self._targets[row[empty]]
        edges = left.cumsum(axis=1)
        return (edges > (rng.random(len(row)) * edges[:, -1])[:, None]).argmax(axis=1)

    def _row(self, step: Indices, before: Indices) -> Indices:
        """Return the row of the transition matrices for a step and the previous token.

        Past the end of the text, return a valid row, which is not used.
        """
        return np.minimum(step, self._horizon - 1) * self._size + before

    def _transitions(self, tokens: Indices) -> NDArray[np.int64]:
        edges = tokens[:, :-1] * self._size + tokens[:, 1:]
        edges += np.arange(self._horizon) * self._size**2
        counts = np.bincount(edges.ravel(), minlength=self._horizon * self._size**2)
        return counts.reshape(self._horizon, self._size, self._size)
