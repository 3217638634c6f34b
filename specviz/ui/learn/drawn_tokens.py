"""Many tokens drawn by two rules: one that replaces from the leftover, one that does not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from specviz.record.trace import Insight, Trace
from specviz.ui.learn.checks import text_of
from specviz.ui.widgets.chart_style import COLOURS, figure

Floats = NDArray[np.float64]
BATCH = 500
_DRAWN = 8  # tokens that have a bar of their own


@dataclass(slots=True)
class DrawnTokens:
    """Of the laws at a place, as far as they are listed, made to add up to one."""

    run: str
    texts: list[str]
    draft: Floats
    target: Floats
    right: Floats  # how often each token came
    broken: Floats

    @property
    def draws(self) -> int:
        return int(self.right.sum())

    @property
    def broken_bias(self) -> float:
        """How far the law of the broken rule is from the target's (total variation)."""
        both = np.minimum(self.draft, self.target)
        return float(np.abs(both - both.sum() * self.target).sum()) / 2

    def draw(self, rng: np.random.Generator) -> None:
        tokens = rng.choice(len(self.draft), BATCH, p=self.draft)
        fell = rng.random(BATCH) * self.draft[tokens] >= self.target[tokens]
        left = np.maximum(self.target - self.draft, 0.0)
        laws = (left / left.sum() if left.any() else self.target, self.target)
        right, broken = (
            np.bincount(
                np.where(fell, rng.choice(len(law), BATCH, p=law), tokens), minlength=len(law)
            )
            for law in laws
        )
        self.right, self.broken = self.right + right, self.broken + broken


def drawn_tokens(run: str, trace: Trace) -> DrawnTokens | None:
    """At the place where the broken rule is off the most. None where the run has no record."""
    insights = [each.insight for entry in trace.rounds for each in entry.candidates if each.insight]
    places = [_at(run, each) for each in insights]
    return max(places, key=lambda each: each.broken_bias, default=None)


def _at(run: str, insight: Insight) -> DrawnTokens:
    tops = (insight.draft_top, insight.target_top)
    texts = {i: text for top in tops for i, text in zip(top.token_ids, top.texts, strict=True)}
    laws = [dict(zip(top.token_ids, top.probs, strict=True)) for top in tops]
    order = sorted(texts, key=lambda each: -laws[1].get(each, 0.0))
    draft, target = (np.array([law.get(each, 0.0) for each in order]) for law in laws)
    zeros = np.zeros(len(order))
    return DrawnTokens(run, [texts[each] for each in order], draft / draft.sum(),
                       target / target.sum(), zeros, zeros.copy())  # fmt: skip


def chart(tokens: DrawnTokens) -> go.Figure:
    words, names = text_of("page"), [f"{text}\u2060" for text in tokens.texts[:_DRAWN]]
    drawn = figure(x_title="", y_title=words["share"], height=300)
    for key, values, colour in (
        ("law", tokens.target, COLOURS.exact),
        ("leftover_rule", tokens.right / max(1, tokens.draws), COLOURS.accepted),
        ("target_rule", tokens.broken / max(1, tokens.draws), COLOURS.rejected),
    ):
        drawn.add_bar(x=names, y=values[:_DRAWN], name=words[key], marker_color=colour)
    return drawn
