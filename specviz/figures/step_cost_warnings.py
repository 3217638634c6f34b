"""Why a table of step costs may not be trusted, in plain words."""

from __future__ import annotations

from specviz.record.numbers import PERCENT
from specviz.record.trace import StepCosts


def step_cost_warning(costs: StepCosts | None) -> str | None:
    """Sentences; None if nothing speaks against the table."""
    if costs is None:
        return None
    said = [*_noise(costs), *_shortage(costs)]
    return " ".join(said) or None


def _noise(costs: StepCosts) -> list[str]:
    if not costs.noisy:
        return []
    drift = PERCENT.shown(costs.drift)
    return [f"Step costs were measured on a busy machine: the same steps drifted by {drift}."]


def _shortage(costs: StepCosts) -> list[str]:
    said: list[str] = []
    if costs.sparse:
        few = "one first step" if not costs.samples else _counted(costs.samples, "sample")
        said.append(f"The time for step costs ran out: some rest on {few}.")
    if costs.interpolated:
        numbers = ", ".join(map(str, costs.interpolated))
        said.append(f"Verifying {numbers} tokens was not timed: it lies between its neighbours.")
    return said


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' * (number != 1)}"
