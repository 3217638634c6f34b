"""The machines that made the runs of a comparison, and which values may be pooled across them.

Times of different kinds of machine are never pooled. Ratios of two times in one run are pooled,
because one machine measured both. Ratios of two lanes on the same prompt and repeat are pooled if
one kind of machine made both runs. Distributed runs that do not time the target alone may share a
machine: several may run on it at once, so their times are not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from specviz.record.trace import Environment
from specviz.values import Value

if TYPE_CHECKING:
    from specviz.comparison.lane_run import LaneRun

MachineKind = tuple[str, str]  # device and CPU


class KindOfMachine(Value):
    """A kind of machine, the number of its devices, and the number of runs they made."""

    device: str
    cpu: str
    devices: int
    runs: int

    @property
    def words(self) -> str:
        beside = f" beside {self.cpu}" if self.cpu != self.device else ""
        return f"{self.devices} × {self.device or 'unknown'}{beside}"


def kind_of(environment: Environment) -> MachineKind:
    return environment.device_name, environment.cpu


def machines_of(runs: Sequence[LaneRun]) -> tuple[KindOfMachine, ...]:
    """Return the kinds of machine, in order of first appearance."""
    places: dict[MachineKind, list[str]] = {}
    for run in runs:
        where = run.trace.environment
        places.setdefault(kind_of(where), []).append(where.place)
    return tuple(
        KindOfMachine(device=device, cpu=cpu, devices=len(set(each)), runs=len(each))
        for (device, cpu), each in places.items()
    )


def kinds_of(runs: Sequence[LaneRun]) -> Callable[[LaneRun], MachineKind | None]:
    """Return a function from a run to the kind of machine that made this run.

    If every lane has runs on only one kind of machine, there is nothing to keep apart: the function
    then returns None for every run.
    """
    if not are_mixed(runs):
        return lambda _run: None
    return lambda run: kind_of(run.trace.environment)


def are_mixed(runs: Sequence[LaneRun]) -> bool:
    """Return whether any lane's runs come from several kinds of machine."""
    found: dict[int, set[MachineKind]] = {}
    for run in runs:
        found.setdefault(run.job.lane, set()).add(kind_of(run.trace.environment))
    return any(len(each) > 1 for each in found.values())


def several_at_once(runs: Sequence[LaneRun]) -> bool:
    """Return whether several runs were made at once, that is, distributed without timing."""
    return any(run.trace.environment.place and run.trace.baseline is None for run in runs)


def shared_out(runs: Sequence[LaneRun]) -> bool:
    """Return whether any of these runs was distributed among devices."""
    return any(run.trace.environment.place for run in runs)
