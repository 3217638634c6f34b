"""The rounds to expect along a text whose odds are known, and the speedup that they come to.

The expectation is exact along the text (``theory.along``). It counts as the engine counts: rounds
that the end cuts short are left out. Times follow from step costs at the text's mean context.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specviz.record.scores import CopiedRounds
from specviz.record.trace import StepCosts, Trace
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


def expected_rounds(
    odds: Sequence[float], gammas: Sequence[int], *, ends: bool, num_prompt: int
) -> list[ExpectedRounds]:
    """For each gamma; of a draft model's candidates."""
    walks, starts = walks_along(odds, gammas, ends=ends), starts_along(odds, gammas)
    context = num_prompt + len(odds) / 2
    return [
        ExpectedRounds(
            gamma=gamma, context=context, rounds=walk.rounds, tokens=walk.tokens,
            bonuses=walk.bonuses, begins=begun, rows={gamma + 1: walk.rounds}, drafts=True,
        )
        for gamma, walk, begun in zip(gammas, walks, starts, strict=True)
    ]  # fmt: skip


def copied_as_expected(found: CopiedRounds, *, length: int, num_prompt: int) -> ExpectedRounds:
    """Of prompt lookup, where nothing is left to chance; ``length``: tokens of the text."""
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
    if not trace.odds or costs is None or not costs.draft or not reaches(costs, gamma):
        return None
    (found,) = expected_rounds(
        trace.odds, (gamma,), ends=trace.finish == "eos", num_prompt=len(trace.prompt.token_ids)
    )
    if not found.rounds:
        return None
    return found.seconds_alone(costs) / found.seconds(costs)
