"""One position of a run, and a simulation that draws many tokens at this position by two rules.

The correct rule draws recovered tokens from the residual. The broken rule draws them from the
target's distribution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from specviz.record.token_text import token_label
from specviz.record.trace import Insight, Trace
from specviz.ui.learn.checks import text_of
from specviz.ui.widgets.chart_style import COLOURS, figure

BATCH = 500
MOST_DRAWS = 20_000
_LISTED = 5  # tokens shown at a position, at most
_VISIBLE = 0.05  # least probability of a bar that can be read


@dataclass(frozen=True, slots=True)
class Position:
    """The likeliest tokens at one position of a run, including the drafted token.

    ``draft`` and ``target`` are probabilities, normalised over these tokens. ``guess`` is the index
    of the drafted token. ``entry`` is the index of the round.
    """

    entry: int
    guess: int
    texts: tuple[str, ...]
    draft: NDArray[np.float64]  # [num_tokens]
    target: NDArray[np.float64]  # [num_tokens]

    @property
    def broken_bias(self) -> float:
        """Total variation distance between the broken rule's distribution and the target's."""
        both = np.minimum(self.draft, self.target)
        return float(np.abs(both - both.sum() * self.target).sum()) / 2

    @property
    def is_varied(self) -> bool:
        """Whether at least four of the five listed tokens have a bar high enough to be read."""
        return int((np.maximum(self.draft, self.target) >= _VISIBLE).sum()) >= _LISTED - 1


@dataclass(slots=True)
class DrawnTokens:
    """How often each token was drawn by the correct and by the broken rule.

    ``probs``: draft and target probabilities `[2, num_tokens]`. ``counts``: how often the correct
    and the broken rule emitted each token, `[2, num_tokens]`.
    """

    texts: Sequence[str]
    probs: NDArray[np.float64]
    counts: NDArray[np.float64]

    @property
    def draws(self) -> int:
        return int(self.counts[0].sum())

    def draw(self, rng: np.random.Generator) -> None:
        (draft, target), size = self.probs, len(self.texts)
        tokens = rng.choice(size, BATCH, p=draft)
        rejected = rng.random(BATCH) * draft[tokens] >= target[tokens]
        left = np.maximum(target - draft, 0.0)
        for row, probs in enumerate((left / left.sum() if left.any() else target, target)):
            emitted = np.where(rejected, rng.choice(size, BATCH, p=probs), tokens)
            self.counts[row] += np.bincount(emitted, minlength=size)


def none_drawn(
    texts: Sequence[str], draft: Sequence[float], target: Sequence[float]
) -> DrawnTokens:
    """Return the simulation for two distributions, with no tokens drawn yet."""
    probs = np.array([draft, target])
    return DrawnTokens(texts, probs, np.zeros(probs.shape))


def position_of(trace: Trace) -> Position | None:
    """Return the tested position at which the broken rule deviates most from the target.

    Positions with few visible bars (``is_varied`` is False) are used only if there are no others.

    The result is None if no tested candidate has recorded probabilities.
    """
    found = [
        _position(entry.index, each.token_id, each.insight)
        for entry in trace.rounds
        for each in entry.candidates
        if each.insight and each.tested and each.token_id in each.insight.draft_top.token_ids
    ]
    return max(found, key=lambda each: (each.is_varied, each.broken_bias), default=None)


def _position(entry: int, guess: int, insight: Insight) -> Position:
    tops = (insight.draft_top, insight.target_top)
    texts = {i: text for top in tops for i, text in zip(top.token_ids, top.texts, strict=True)}
    draft, target = (dict(zip(top.token_ids, top.probs, strict=True)) for top in tops)

    def likeliest(each: int) -> tuple[bool, float]:
        return each == guess, max(draft.get(each, 0.0), target.get(each, 0.0))

    listed = sorted(texts, key=likeliest, reverse=True)[:_LISTED]
    order = sorted(listed, key=lambda each: -target.get(each, 0.0))
    probs = np.array([[known.get(each, 0.0) for each in order] for known in (draft, target)])
    probs /= probs.sum(1, keepdims=True)
    return Position(entry, order.index(guess), tuple(texts[each] for each in order), *probs)


def chart(tokens: DrawnTokens) -> go.Figure:
    words = text_of("page")
    names = [token_label(text).replace("<", "‹") for text in tokens.texts]
    drawn = figure(x_title="", y_title=words["share"], height=260)
    shares = np.vstack((tokens.probs[1], tokens.counts / max(1, tokens.draws)))
    colours = (COLOURS.exact, COLOURS.accepted, COLOURS.rejected)
    for key, row, colour in zip(
        ("target_distribution", "residual_rule", "target_rule"), shares, colours, strict=True
    ):
        drawn.add_bar(x=names, y=row, name=words[key], marker_color=colour)
    return drawn
