"""Warnings about a table of step costs."""

from __future__ import annotations

from specviz.record.numbers import PERCENT, counted
from specviz.record.step_costs import NOISE_LIMIT, StepCosts


def step_cost_warning(costs: StepCosts | None) -> str | None:
    """Return sentences about what makes the table unreliable; None if it is reliable."""
    if costs is None:
        return None
    return " ".join([*_noise(costs), *_shortage(costs)]) or None


def _noise(costs: StepCosts) -> list[str]:
    if not costs.noisy:
        return []
    measured = "Step costs were measured on a busy machine"
    if costs.drift > NOISE_LIMIT:
        return [f"{measured}: the time of the same steps drifted by {PERCENT.shown(costs.drift)}."]
    share = PERCENT.shown(costs.others or 0.0)
    return [f"{measured}: other processes used {share} of the processors' time."]


def _shortage(costs: StepCosts) -> list[str]:
    sentences: list[str] = []
    if costs.sparse:
        few = "a single step" if not costs.samples else counted(costs.samples, "sample")
        sentences.append(f"Some step costs come from {few} only.")
    if costs.interpolated and costs.table:
        numbers = ", ".join(map(str, costs.interpolated))
        sentences.append(f"Verifying {numbers} tokens was not timed but interpolated.")
    return sentences
