"""On which machines the runs of a comparison were made, and what may be put together of them.

Times of different kinds of machine are not put together. Ratios within a run are, and so are those
of two lanes on the same prompt and repeat, if both were made on one kind of machine. Runs without
the target alone that were shared out were made several at a time: they have no times to compare.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specviz.record.trace import Environment

if TYPE_CHECKING:
    from specviz.comparison.lane_run import LaneRun

MachineKind = tuple[str, str]  # the device, and the processor beside it


@dataclass(frozen=True, slots=True, kw_only=True)
class KindOfMachine:
    """``devices`` of this kind made ``runs`` of the comparison."""

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
    """The kinds of machine, in the order in which they first come."""
    places: dict[MachineKind, list[str]] = {}
    for run in runs:
        where = run.trace.environment
        places.setdefault(kind_of(where), []).append(where.place)
    return tuple(
        KindOfMachine(device=device, cpu=cpu, devices=len(set(each)), runs=len(each))
        for (device, cpu), each in places.items()
    )


def kinds_of(runs: Sequence[LaneRun]) -> Callable[[LaneRun], MachineKind | None]:
    """The kind of machine of each run, where that is more than how the lanes differ."""
    if not are_mixed(runs):
        return lambda _run: None
    return lambda run: kind_of(run.trace.environment)


def are_mixed(runs: Sequence[LaneRun]) -> bool:
    """Whether the runs of one lane come from several kinds of machine."""
    found: dict[int, set[MachineKind]] = {}
    for run in runs:
        found.setdefault(run.job.lane, set()).add(kind_of(run.trace.environment))
    return any(len(each) > 1 for each in found.values())


def several_at_once(runs: Sequence[LaneRun]) -> bool:
    """Whether some of these runs were shared out, and nothing was timed."""
    return any(run.trace.environment.place and run.trace.baseline is None for run in runs)


def shared_out(runs: Sequence[LaneRun]) -> bool:
    return any(run.trace.environment.place for run in runs)
