"""A device of the cluster: a process that has a GPU or some cores, and keeps pairs loaded.

The pool calls methods of the device. They run on the device's node, one at a time, and return a
``SpecvizError`` instead of raising it, because Ray would wrap a raised exception.
"""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Sequence
from dataclasses import replace

from specviz.cluster.cores import Cores, machine
from specviz.errors import ConfigError, DeviceError, SpecvizError
from specviz.measure.run_makers import Block, InProcessMaker, MadeRun, Study, in_turn
from specviz.record.conversations import TypedPrompt
from specviz.record.pairs import PairCheck, PairSpec, Progress
from specviz.record.trace import Environment
from specviz.values import Value

_THREADS = "OMP_NUM_THREADS"
_PLACE = 8  # hexadecimal digits of a device's id


class Need(Value):
    """The resources that a device needs, and how the device makes runs.

    If ``timed``, times are compared, so no node has more than one CPU device.
    """

    cores: int
    gpu: bool
    timed: bool
    budget: float | None = None


class CheckCall(Value):
    """Arguments of ``Device.check``: a pair, and prompts that it must be able to continue."""

    spec: PairSpec
    prompts: tuple[TypedPrompt, ...]
    chat: bool


class DeviceInfo(Value):
    """A device: ``place`` is its unique id, ``host`` the host name, ``machine`` the boot id."""

    place: str
    host: str
    machine: str
    cores: tuple[int, ...]
    pid: int


class Admitted(Value):
    """A device that is ready for calls.

    ``checks`` has the device's result for every pair that was checked before the device joined.
    """

    info: DeviceInfo
    checks: tuple[PairCheck, ...]


class Device:
    """The Ray actor that makes runs; ``admit`` must be called first."""

    def admit(self, need: Need, checks: Sequence[CheckCall]) -> Admitted | SpecvizError:
        try:
            self._cores = Cores(need.cores)
            os.environ[_THREADS] = str(need.cores)  # before torch is imported
            self._info = _info(self._cores, _gpu() if need.gpu else "")
            self._maker = InProcessMaker(_ignore_progress, budget=need.budget, costs=need.timed)
            self._warm: set[object] = set()
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
        try:
            found = in_turn(self._maker.make, [block], self._warm)
            made = tuple(self._named(each) for _, runs in found for each in runs)
            self._require_cores([each.trace.environment for each in made])
        except SpecvizError as error:
            return error
        return made

    def find(self, spec: PairSpec, study: Study) -> tuple[object, ...] | SpecvizError:
        try:
            return tuple(self._maker.find(spec, study))
        except SpecvizError as error:
            return error

    def _checked(self, call: CheckCall) -> PairCheck:
        if (call.spec.threads or 1) > len(self._cores.numbers):
            raise ConfigError(
                f"{call.spec.threads} threads do not fit {len(self._cores.numbers)} cores.",
                remedy="Use the same --threads for all lanes.",
            )
        check = self._maker.check(call.spec, call.prompts, chat=call.chat)
        assert check.present is not None
        environment = replace(check.present.environment, place=self._info.place)
        return replace(check, present=replace(check.present, environment=environment))

    def _named(self, made: MadeRun) -> MadeRun:
        environment = replace(made.trace.environment, place=self._info.place)
        return replace(made, trace=replace(made.trace, environment=environment))

    def _require_cores(self, environments: Sequence[Environment]) -> None:
        """Raise DeviceError if a run used other cores than this device's, or too many threads."""
        cores = len(self._cores.numbers)
        most = max((each.threads for each in environments if each.device == "cpu"), default=1)
        if not self._cores.hold or most > cores:
            raise DeviceError(
                f"A device of {cores} cores on {self._info.host} ran on other cores, or with "
                f"{most} threads.",
                remedy="Do not change the CPU affinity or the threads of its processes.",
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
        pid=os.getpid(),
    )


def _gpu() -> str:
    """Return a name for the GPU that Ray assigned to this process, such as ``gpu 0``."""
    return f"gpu {os.environ.get('CUDA_VISIBLE_DEVICES', '0')}"


def _ignore_progress(_progress: Progress) -> None:
    pass
