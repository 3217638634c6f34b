"""The rounds to expect along a text whose odds are known, and the speedup that they come to.

The expectation is exact along the text (``theory.along``). It counts as the engine counts: rounds
that the end cuts short are left out. Times follow from step costs at the text's mean context.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specviz.record.scores import CopiedRounds, TextScores
from specviz.record.trace import RunConfig, StepCosts, Trace
from specviz.theory.along import starts_along, walks_along

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedRounds:
    """Whole rounds along one text for one gamma.

    ``begins``: how many begin with each token. ``rows``: in how many the target checks so many
    tokens.
    """

    gamma: int
    context: float
    rounds: float
    tokens: float
    bonuses: float
    begins: Floats
    rows: dict[int, float]
    drafts: bool  # by a model

    def seconds(self, costs: StepCosts) -> float:
        checking = math.fsum(n * costs.verify(self.context, rows) for rows, n in self.rows.items())
        if not self.drafts:
            return checking
        share = self.bonuses / self.rounds
        return checking + self.rounds * costs.draft_phase(self.context, self.gamma, share)

    def seconds_alone(self, costs: StepCosts) -> float:
        """Of the target alone along the same tokens."""
        return self.tokens * costs.target_step(self.context)


def chances_along(scores: TextScores, threshold: float = 0.0) -> Floats:
    """That each token stands if a round begins with it, and if it does not: [num_tokens, 2].

    Behind a token of which the draft is less sure than ``threshold`` nothing is drafted.
    """
    later = np.array(scores.odds)
    first = np.array(scores.first_odds or scores.odds)
    if threshold:
        later[1:][np.array(scores.sureness[:-1]) < threshold] = 0.0
    return np.stack((first, later), axis=1)


def knows_rounds(costs: StepCosts | None, config: RunConfig) -> bool:
    """Whether the table says what such rounds take: chains of γ, with the steps of whatever model
    drafts. Without a table, whether one may."""
    if not (config.is_chain and config.draft_until == "count"):
        return False
    return costs is None or bool(costs.draft) or not config.draft_method.has_steps


def expected_rounds(
    odds: ArrayLike, gammas: Sequence[int], *, ends: bool, num_prompt: int
) -> list[ExpectedRounds]:
    """For each gamma; of the candidates of a model that drafts. ``odds`` as in ``theory.along``."""
    walks, starts = walks_along(odds, gammas, ends=ends), starts_along(odds, gammas)
    context = num_prompt + len(starts[0]) / 2
    return [
        ExpectedRounds(
            gamma=gamma, context=context, rounds=walk.rounds, tokens=walk.tokens,
            bonuses=walk.bonuses, begins=begun, rows={gamma + 1: walk.rounds}, drafts=True,
        )
        for gamma, walk, begun in zip(gammas, walks, starts, strict=True)
    ]  # fmt: skip


def copied_as_expected(found: CopiedRounds, *, length: int, num_prompt: int) -> ExpectedRounds:
    """Of a drafter that copies, where nothing is left to chance; ``length``: tokens of the text."""
    begins = np.zeros(length)
    begins[list(found.starts)] = 1.0
    rows: dict[int, float] = {}
    for drafted in found.drafted:
        rows[drafted + 1] = rows.get(drafted + 1, 0.0) + 1.0
    return ExpectedRounds(
        gamma=found.gamma, context=num_prompt + length / 2, rounds=float(len(found.starts)),
        tokens=float(sum(found.emitted)), bonuses=0.0, begins=begins, rows=rows, drafts=False,
    )  # fmt: skip


def reaches(costs: StepCosts, gamma: int) -> bool:
    """Whether the table says what checking so many tokens takes."""
    rows = len(costs.target)
    return gamma < rows or rows > 9


def expected_speedup(trace: Trace) -> float | None:
    """Along the words of a run, from its own odds and step costs; None without either."""
    costs, gamma = trace.step_costs, trace.config.gamma
    if not trace.odds or costs is None or not knows_rounds(costs, trace.config):
        return None
    if not costs.draft or not reaches(costs, gamma):
        return None
    (found,) = expected_rounds(
        trace.odds, (gamma,), ends=trace.finish == "eos", num_prompt=len(trace.prompt.token_ids)
    )
    if not found.rounds:
        return None
    return found.seconds_alone(costs) / found.seconds(costs)
