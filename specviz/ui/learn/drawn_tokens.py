"""Draw many tokens by two rules.

The correct rule draws recovered tokens from the residual, the broken rule from the target.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from specviz.record.trace import Insight, Trace
from specviz.ui.learn.checks import text_of
from specviz.ui.widgets.chart_style import COLOURS, figure

BATCH = 500
_DRAWN = 8  # number of tokens in the chart


@dataclass(slots=True)
class DrawnTokens:
    """Tokens drawn at one position of a run.

    ``probs``: draft and target probabilities `[2, num_tokens]`, normalised over the listed tokens.
    ``counts``: draws per token by the correct and by the broken rule, `[2, num_tokens]`.
    """

    run: str
    texts: list[str]
    probs: NDArray[np.float64]
    counts: NDArray[np.float64]

    @property
    def draws(self) -> int:
        return int(self.counts[0].sum())

    @property
    def broken_bias(self) -> float:
        """Total variation distance between the broken rule's distribution and the target's."""
        both = self.probs.min(0)
        return float(np.abs(both - both.sum() * self.probs[1]).sum()) / 2

    def draw(self, rng: np.random.Generator) -> None:
        (draft, target), size = self.probs, len(self.texts)
        tokens = rng.choice(size, BATCH, p=draft)
        rejected = rng.random(BATCH) * draft[tokens] >= target[tokens]
        left = np.maximum(target - draft, 0.0)
        for row, probs in enumerate((left / left.sum() if left.any() else target, target)):
            emitted = np.where(rejected, rng.choice(size, BATCH, p=probs), tokens)
            self.counts[row] += np.bincount(emitted, minlength=size)


def drawn_tokens(run: str, trace: Trace) -> DrawnTokens | None:
    """Return the position where the broken rule is most biased, with no token drawn yet.

    Return None if the run recorded no probabilities.
    """
    insights = [each.insight for entry in trace.rounds for each in entry.candidates if each.insight]
    return max((_at(run, each) for each in insights), key=lambda p: p.broken_bias, default=None)


def _at(run: str, insight: Insight) -> DrawnTokens:
    tops = (insight.draft_top, insight.target_top)
    texts = {i: text for top in tops for i, text in zip(top.token_ids, top.texts, strict=True)}
    listed = [dict(zip(top.token_ids, top.probs, strict=True)) for top in tops]
    order = sorted(texts, key=lambda each: -listed[1].get(each, 0.0))
    probs = np.array([[top.get(each, 0.0) for each in order] for top in listed])
    probs /= probs.sum(1, keepdims=True)
    return DrawnTokens(run, [texts[each] for each in order], probs, np.zeros(probs.shape))


def chart(tokens: DrawnTokens) -> go.Figure:
    words = text_of("page")
    names = [text.replace("<", "‹").replace(" ", "·") for text in tokens.texts[:_DRAWN]]
    drawn = figure(x_title="", y_title=words["share"], height=300)
    shares = np.vstack((tokens.probs[1], tokens.counts / max(1, tokens.draws)))
    colours = (COLOURS.exact, COLOURS.accepted, COLOURS.rejected)
    for key, row, colour in zip(
        ("target_distribution", "residual_rule", "target_rule"), shares, colours, strict=True
    ):
        drawn.add_bar(x=names, y=row[:_DRAWN], name=words[key], marker_color=colour)
    return drawn
