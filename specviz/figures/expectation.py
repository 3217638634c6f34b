"""Expected rounds and speedup along a text, from the acceptance probability of each token.

The expectation over all draws is exact (``theory.along``). As in ``metrics``, rounds that the end
of the text cuts are left out. Times follow from step costs at the text's mean context.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specviz.figures.step_times import covers_gamma
from specviz.record.scores import CopiedRounds, TextScores
from specviz.record.trace import RunConfig, StepCosts, Trace
from specviz.theory.along import starts_along, walks_along
from specviz.values import Value

Floats = NDArray[np.float64]


class ExpectedRounds(Value):
    """Expected rounds along one text for one gamma.

    Rounds that the end of the text cuts are left out.

    ``begins``: for each token, the expected number of rounds that begin there. ``rows``: for each
    number of tokens that the target verifies in a round, the expected number of such rounds.
    """

    gamma: int
    context: float
    rounds: float
    tokens: float
    bonuses: float
    begins: Floats
    rows: dict[int, float]
    drafts: bool  # whether a model drafts; otherwise drafting counts as free

    def seconds(self, costs: StepCosts) -> float:
        verifying = math.fsum(
            count * costs.verify(self.context, rows) for rows, count in self.rows.items()
        )
        overhead = math.fsum(
            count * costs.overhead_of(rows - 1) for rows, count in self.rows.items()
        )
        if not self.drafts:
            return verifying + overhead
        drafting = costs.draft_phase(self.context, self.gamma, self.bonuses / self.rounds)
        return verifying + overhead + self.rounds * drafting

    def seconds_alone(self, costs: StepCosts) -> float:
        """Return the seconds that the target alone takes for the tokens of these rounds."""
        return self.tokens * costs.target_step(self.context)


def acceptance_along(scores: TextScores, threshold: float = 0.0) -> Floats:
    """Return the acceptance probability of each token, as a first and as a later candidate.

    Args:
        threshold: Drafting stops after a token with a draft probability below this.

    Returns:
        Array `[num_tokens, 2]`: as the first candidate of a round, and as a later one.
    """
    later = np.array(scores.odds)
    first = np.array(scores.first_odds or scores.odds)
    if threshold:
        later[1:][np.array(scores.sureness[:-1]) < threshold] = 0.0
    return np.stack((first, later), axis=1)


def covers_rounds(costs: StepCosts | None, config: RunConfig) -> bool:
    """Return whether the cost of rounds with these settings follows from the step costs.

    Every round must draft γ candidates, one after another. If a model drafts, the step costs must
    include draft steps. If ``costs`` is None, return whether there can be step costs from which
    the cost follows.
    """
    if not (config.is_chain and config.draft_until == "count"):
        return False
    return costs is None or bool(costs.draft) or not config.draft_method.has_steps


def expected_rounds(
    odds: ArrayLike, gammas: Sequence[int], *, ends: bool, num_prompt: int
) -> list[ExpectedRounds]:
    """Return, for each gamma, the rounds that are expected with a draft model.

    Args:
        odds: The acceptance probability at every token, as in ``theory.along``.
    """
    walks, starts = walks_along(odds, gammas, ends=ends), starts_along(odds, gammas)
    context = num_prompt + len(starts[0]) / 2
    return [
        ExpectedRounds(
            gamma=gamma, context=context, rounds=walk.rounds, tokens=walk.tokens,
            bonuses=walk.bonuses, begins=begun, rows={gamma + 1: walk.rounds}, drafts=True,
        )
        for gamma, walk, begun in zip(gammas, walks, starts, strict=True)
    ]  # fmt: skip


def rounds_of_copies(found: CopiedRounds, *, length: int, num_prompt: int) -> ExpectedRounds:
    """Return the rounds of prompt or suffix lookup along a text.

    Nothing is random in these rounds: lookup copies its candidates from the text.

    Args:
        length: Number of tokens in the text.
    """
    begins = np.zeros(length)
    begins[list(found.starts)] = 1.0
    rows: dict[int, float] = {}
    for drafted in found.drafted:
        rows[drafted + 1] = rows.get(drafted + 1, 0.0) + 1.0
    return ExpectedRounds(
        gamma=found.gamma, context=num_prompt + length / 2, rounds=float(len(found.starts)),
        tokens=float(sum(found.emitted)), bonuses=0.0, begins=begins, rows=rows, drafts=False,
    )  # fmt: skip


def expected_speedup(trace: Trace) -> float | None:
    """Return the speedup expected along a run's text, from its odds and step costs.

    The result is None if it cannot be computed. It is also None if the step costs come from this
    run, because a comparison with the run would then test nothing.
    """
    costs, gamma = trace.step_costs, trace.config.gamma
    if costs is None or costs.of_this_run:
        return None
    if not trace.odds or not covers_rounds(costs, trace.config):
        return None
    if not costs.draft or not covers_gamma(costs, gamma):
        return None
    (found,) = expected_rounds(
        trace.odds, (gamma,), ends=trace.finish == "eos", num_prompt=len(trace.prompt.token_ids)
    )
    if not found.rounds:
        return None
    return found.seconds_alone(costs) / found.seconds(costs)
