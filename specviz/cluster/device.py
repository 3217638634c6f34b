"""A device of the cluster: a GPU, or some cores, in a process of its own that keeps pairs loaded.

It lives on a node and is called by the pool, one call at a time. What a user can mend is returned,
not raised, so that it crosses as it is.
"""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace

from specviz.cluster.cores import Cores, machine
from specviz.errors import ConfigError, DeviceError, SpecvizError
from specviz.measure.run_makers import Block, InProcessMaker, MadeRun, RunOrder, Study
from specviz.record.pairs import PairCheck, PairSpec, Progress
from specviz.record.trace import Environment

_THREADS = "OMP_NUM_THREADS"
_PLACE = 8  # hexadecimal digits


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a device has: cores, perhaps a GPU; and how it makes runs.

    ``timed``: its runs are timed, so nothing else of ours runs on its node's processor.
    """

    cores: int
    gpu: bool
    timed: bool
    budget: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckCall:
    """The question whether a pair can continue some prompts."""

    spec: PairSpec
    prompts: tuple[str, ...]
    chat: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCall:
    """A study of a pair, or a share of one."""

    spec: PairSpec
    study: Study


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceInfo:
    """``place`` tells the devices apart; ``host`` is the machine's name, ``machine`` its start."""

    place: str
    host: str
    machine: str
    cores: tuple[int, ...]
    gpu: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """A device that has its cores, and what it says of the pairs that are known by now."""

    info: DeviceInfo
    checks: tuple[PairCheck, ...]


class Device:
    """Ray makes one in a process of its own; ``admit`` comes before all else."""

    def admit(self, need: Need, checks: Sequence[CheckCall]) -> Admitted | SpecvizError:
        try:
            self._cores = Cores(need.cores)
            os.environ[_THREADS] = str(need.cores)  # before torch is imported
            self._info = _info(self._cores, _gpu() if need.gpu else "")
            self._maker = InProcessMaker(_nobody, budget=need.budget, costs=need.timed)
            self._warm: set[tuple[object, ...]] = set()
            found = tuple(self._checked(each) for each in checks)
            return Admitted(info=self._info, checks=found)
        except SpecvizError as error:
            return error

    def check(self, call: CheckCall) -> PairCheck | SpecvizError:
        try:
            return self._checked(call)
        except SpecvizError as error:
            return error

    def make(self, block: Block) -> tuple[MadeRun, ...] | SpecvizError:
        made = list[MadeRun]()
        try:
            for run in block.runs:
                self._warm_up(run.warm_up)
                made.append(self._named(self._maker.make(run.order)))
            self._require_cores([each.trace.environment for each in made])
        except SpecvizError as error:
            return error
        return tuple(made)

    def find(self, call: FindCall) -> tuple[object, ...] | SpecvizError:
        try:
            return tuple(self._maker.find(call.spec, call.study))
        except SpecvizError as error:
            return error

    def _checked(self, call: CheckCall) -> PairCheck:
        if (call.spec.threads or 1) > len(self._cores.numbers):
            raise ConfigError(
                f"{call.spec.threads} threads do not fit on {len(self._cores.numbers)} cores.",
                remedy="Give all lanes the same --threads.",
            )
        check = self._maker.check(call.spec, call.prompts, chat=call.chat)
        assert check.present is not None
        environment = replace(check.present.environment, place=self._info.place)
        return replace(check, present=replace(check.present, environment=environment))

    def _warm_up(self, order: RunOrder) -> None:
        """Once for each lane."""
        lane = (order.label, order.spec, replace(order.config, seed=0, forks=()))
        if lane not in self._warm:
            self._maker.make(order)
            self._warm.add(lane)

    def _named(self, made: MadeRun) -> MadeRun:
        environment = replace(made.trace.environment, place=self._info.place)
        return replace(made, trace=replace(made.trace, environment=environment))

    def _require_cores(self, environments: Sequence[Environment]) -> None:
        """What was timed had these cores, and not more threads than cores."""
        cores = len(self._cores.numbers)
        most = max((each.threads for each in environments if each.device == "cpu"), default=1)
        if not self._cores.hold or most > cores:
            raise DeviceError(
                f"A device of {cores} cores on {self._info.host} ran on others, or in {most} "
                "threads.",
                remedy="Leave the affinity and the threads of its processes as they are.",
            )


def _info(cores: Cores, gpu: str) -> DeviceInfo:
    started = machine()
    what = gpu or " ".join(map(str, cores.numbers))
    digest = hashlib.sha256(f"{started} {what}".encode()).hexdigest()
    return DeviceInfo(
        place=digest[:_PLACE],
        host=socket.gethostname(),
        machine=started,
        cores=cores.numbers,
        gpu=gpu,
        pid=os.getpid(),
    )


def _gpu() -> str:
    """The GPU that Ray shows this process, by its number on the machine or its name."""
    return f"gpu {os.environ.get('CUDA_VISIBLE_DEVICES', '0')}"


def _nobody(_progress: Progress) -> None:
    pass
