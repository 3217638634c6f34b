"""Step costs at one context length and one gamma, with their errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from specviz.figures.arithmetic import known_ratio
from specviz.figures.process_spread import error_of_load
from specviz.record.run_config import RunConfig
from specviz.record.step_costs import StepCosts
from specviz.record.trace import Round
from specviz.values import Value


class StepTimes(Value):
    """The seconds of a draft step, a target step and a verification for one gamma."""

    gamma: int | None = None
    draft: float | None = None
    target: float | None = None
    verification: float | None = None
    overhead: float = 0.0  # of a round, outside both models
    # Half-widths of the 95 % intervals, relative to the times; None if the table has none.
    draft_error: float | None = None
    target_error: float | None = None
    verification_error: float | None = None
    overhead_error: float = 0.0

    @property
    def c_error(self) -> float | None:
        return None if self.draft is None else joint_error(self.draft_error, self.target_error)

    @property
    def v_error(self) -> float | None:
        return joint_error(self.verification_error, self.target_error)

    @property
    def round_cost_error(self) -> float | None:
        """The relative half-width of the 95 % interval of ``round_cost``."""
        if self.gamma is None or self.draft is None or self.verification is None:
            return None
        if self.draft_error is None or self.verification_error is None:
            return None
        drafting, verifying = self.gamma * self.draft, self.verification
        parts = (
            drafting * self.draft_error,
            verifying * self.verification_error,
            self.overhead * self.overhead_error,
        )
        total = drafting + verifying + self.overhead
        return joint_error(math.hypot(*parts) / total, self.target_error)

    @property
    def c(self) -> float | None:
        return known_ratio(self.draft, self.target)

    @property
    def v(self) -> float | None:
        return known_ratio(self.verification, self.target)

    @property
    def overhead_cost(self) -> float:
        """The overhead of a round in target steps."""
        return known_ratio(self.overhead, self.target) or 0.0

    @property
    def round_cost(self) -> float | None:
        """Drafting, verification and overhead of a round, in target steps."""
        if self.gamma is None or self.c is None or self.v is None:
            return None
        return self.gamma * self.c + self.v + self.overhead_cost


def mean_fed_more(rounds: Sequence[Round]) -> float:
    """Return the mean number of tokens that the first draft step of a round was fed, minus 1."""
    return fmean(max(0, entry.draft_catch_up - 1) for entry in rounds)


def step_times(
    costs: StepCosts, context: float, gamma: int, *, drafts: bool, fed_more: float = 0.0
) -> StepTimes:
    """Return the step times of a round that drafts gamma candidates one after another.

    Args:
        drafts: Whether a model proposes the gamma candidates. Without a model, drafting is free.
        fed_more: As in `mean_fed_more`.
    """
    draft = 0.0 if not drafts else None
    if drafts and costs.draft:
        more = fed_more if len(costs.draft) > 1 else 0.0
        draft = costs.draft_phase(context, gamma, more) / gamma
    return StepTimes(
        gamma=gamma,
        draft=draft,
        target=costs.target_step(context),
        verification=costs.verify(context, gamma + 1) if covers_gamma(costs, gamma) else None,
        overhead=costs.overhead_of(gamma),
        overhead_error=costs.overhead_error,
        draft_error=_draft_error(costs, drafts),
        target_error=_target_error(costs, 1),
        verification_error=_target_error(costs, gamma + 1),
    )


def varied_step_times(
    costs: StepCosts, context: float, counts: Sequence[int], *, drafts: bool, fed_more: float = 0.0
) -> StepTimes:
    """Return the mean step times over rounds with different numbers of candidates.

    The cost of a verification is not linear in the number of candidates, so this cost is averaged
    over the rounds. ``gamma`` of the result is the rounded mean of ``counts``.
    """
    gamma = math.floor(fmean(counts) + 0.5)
    made = step_times(costs, context, gamma, drafts=drafts and gamma > 0, fed_more=fed_more)
    if made.verification is None or not covers_gamma(costs, max(counts)):
        return made
    return replace(
        made, overhead=fmean(costs.overhead_of(n) for n in counts),
        verification=fmean(costs.verify(context, n + 1) for n in counts),
        verification_error=max(
            (error for n in set(counts) if (error := _target_error(costs, n + 1)) is not None),
            default=None,
        ),
    )  # fmt: skip


def shape_times(costs: StepCosts, context: float, config: RunConfig) -> StepTimes:
    """Return the step times of a round with a tree or several drafts, as configured.

    If the table does not cover such rounds, only the target step is known. ``gamma`` of the result
    is the depth of the tree. A draft step drafts all candidates at one depth.
    """
    shape = costs.shape
    if shape is None or not _covers_shape(costs, config):
        return StepTimes(target=costs.target_step(context))
    drafting, verification = costs.shape_phases(context)
    return StepTimes(
        gamma=len(shape.shape),
        draft=drafting / len(shape.shape),
        target=costs.target_step(context),
        verification=verification,
        overhead=costs.overhead_of(config.most_candidates),
        overhead_error=costs.overhead_error,
        draft_error=shape.draft_error,
        target_error=_target_error(costs, 1),
        verification_error=shape.verify_error,
    )


def covers_gamma(costs: StepCosts, gamma: int) -> bool:
    """Return whether the table covers the verification of gamma + 1 tokens."""
    rows = len(costs.target)
    return gamma < rows or (rows > 9 and costs.table)  # extrapolation needs rows above the 9th


def covers_run(costs: StepCosts | None, config: RunConfig) -> bool:
    """Return whether step costs are known for the whole rounds of a run with these settings."""
    if costs is None:
        return False
    if not config.is_chain:
        return _covers_shape(costs, config)
    gamma = config.gamma if config.fixed_length else 1
    return covers_gamma(costs, gamma) and (bool(costs.draft) or not config.draft_method.has_steps)


def _covers_shape(costs: StepCosts, config: RunConfig) -> bool:
    shape = costs.shape
    known = None if shape is None else (shape.shape, shape.dynamic)
    return known == (config.shape, config.dynamic_tree)


def _draft_error(costs: StepCosts, drafts: bool) -> float | None:
    """Return the error of the first or the later draft steps, whichever is larger.

    The result is 0 if no model drafts, and None if the errors are unknown.
    """
    if not drafts:
        return 0.0
    return max(costs.draft_errors[0], costs.draft_errors[-1]) if costs.draft_errors else None


def _target_error(costs: StepCosts, tokens: int) -> float | None:
    """Return the error of a pass over ``tokens`` tokens; None if the errors are unknown.

    For more tokens than the table covers, the result is the error of its last row.
    """
    errors = costs.target_errors
    return errors[min(tokens, len(errors)) - 1] if errors else None


def under_load(steps: StepTimes, before: float | None, now: float | None) -> StepTimes:
    """Return the step times, with larger errors if the machine's load has changed.

    Args:
        before: How much of the processors other processes used when costs were measured (share).
        now: How much of the processors other processes use when these step times apply (share).
    """
    return replace(steps, target_error=joint_error(steps.target_error, error_of_load(before, now)))


def joint_error(*errors: float | None) -> float | None:
    """Return the error of a product or quotient of independent values; None if one is unknown."""
    known = [each for each in errors if each is not None]
    return math.hypot(*known) if len(known) == len(errors) else None
