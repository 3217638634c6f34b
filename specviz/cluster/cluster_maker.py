"""Make the runs of a plan on the devices of a Ray cluster (see ``measure.run_makers``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from types import TracebackType
from typing import Any

from specviz.cluster.connection import Connection
from specviz.cluster.device import Admitted, CheckCall, DeviceInfo, Need
from specviz.cluster.pool import Call, DevicePool
from specviz.errors import ConfigError, PairError
from specviz.measure.run_makers import (
    Block,
    BlockRun,
    MadeRun,
    RunOrder,
    SharedStudy,
    Study,
)
from specviz.measure.stoppable import StoppableWork, StoppedError
from specviz.record.conversations import TypedPrompt
from specviz.record.pairs import PairCheck, PairSpec
from specviz.record.trace import Environment

_CHECKED = ("specviz", "torch", "transformers", "tokenizers", "numba")


class ClusterMaker(StoppableWork):
    """A run maker that uses the devices of a cluster. Leaving its ``with`` block ends the devices.

    Args:
        address: As returned by ``cluster_address``.
        timed: Whether times are compared. If so, no node has more than one CPU device.
        threads: Cores per device, by default 1.
        device: The ``--device`` of the pairs.
        budget: Seconds for the timing of a run.
    """

    def __init__(
        self,
        address: str = "",
        *,
        timed: bool,
        threads: int | None = None,
        device: str = "auto",
        budget: float | None = None,
    ) -> None:
        super().__init__()
        self._address, self._device = address, device
        self._need = Need(cores=threads or 1, gpu=False, timed=timed, budget=budget)
        self._connection: Connection | None = None
        self._pool: DevicePool | None = None
        self._checks: dict[CheckCall, PairCheck] = {}
        self._activity = ""

    def __enter__(self) -> ClusterMaker:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _where: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def doing(self) -> str:
        if self._pool is None:
            return "starting the cluster"
        count = len(self._pool.devices)
        where = f"on {count} device{'s' * (count != 1)} of the cluster"
        return f"{self._activity} {where}" if count else "waiting for a device of the cluster"

    @property
    def devices(self) -> tuple[DeviceInfo, ...]:
        return self._pool.devices if self._pool is not None else ()

    def check(self, spec: PairSpec, prompts: Sequence[TypedPrompt], *, chat: bool) -> PairCheck:
        """Check the pair on every device; raise if devices have different weights or versions."""
        self._refuse_device_index(spec)
        call = CheckCall(spec=spec, prompts=tuple(prompts), chat=chat)
        self._activity = "checking the pairs"
        found = self._opened().check(call)
        (host, first), *others = [(info.host, check) for info, check in found]
        for other_host, check in others:
            _require_same(check, first, f"{other_host} and {host}")
        self._checks[call] = _merged([check for _, check in found])
        return self._checks[call]

    def make(self, order: RunOrder) -> MadeRun:
        """Make a single run, after a warm-up with the run's settings."""
        run = BlockRun(order=order, warm_up=replace(order, baseline=False, warm_up=True))
        for _, (made,) in self.make_blocks([Block(runs=(run,))]):
            return made
        raise StoppedError

    def make_blocks(self, blocks: Sequence[Block]) -> Iterator[tuple[int, tuple[MadeRun, ...]]]:
        self._activity = "making runs"
        calls = [Call(method="make", arguments=(each,), label=each.label) for each in blocks]
        return self._opened().results(calls)

    def find(self, spec: PairSpec, study: Study) -> Iterator[object]:
        """Run the parts of a study (a measurement) on several devices; yield values in order."""
        if all(call.spec != spec for call in self._checks):
            self.check(spec, (), chat=False)
        first, *others = study.shares() if isinstance(study, SharedStudy) else (study,)
        self._activity = study.label
        yield from self._found(spec, [first])
        yield from self._found(spec, others)

    def close(self) -> None:
        """End all devices, and the cluster if this maker started it."""
        self.stop()
        pool, connection = self._pool, self._connection
        self._pool = self._connection = None
        if pool is not None:
            pool.close()
        if connection is not None:
            connection.close()

    def _found(self, spec: PairSpec, studies: Sequence[Study]) -> Iterator[object]:
        calls = [Call(method="find", arguments=(spec, each), label=each.label) for each in studies]
        return chain.from_iterable(_in_order(self._opened().results(calls)))

    def _opened(self) -> DevicePool:
        self._check_stop()
        if self._pool is None:
            self._connection = Connection(self._address)
            ray = self._connection.ray
            gpus = ray.cluster_resources().get("GPU", 0) > 0
            wanted = self._device.partition(":")[0]
            need = replace(self._need, gpu=gpus and wanted in ("auto", "cuda"))
            self._pool = DevicePool(ray, need, self._check_stop, self._accept)
            self._activity = "waiting for devices,"
            self._pool.begin()
        return self._pool

    def _accept(self, admitted: Admitted) -> None:
        """Raise if a new device has other weights or versions, or adds a new kind of machine."""
        for known, check in zip(self._checks.values(), admitted.checks, strict=False):
            _require_same(check, known, f"{admitted.info.host} and the others")
            kinds = {_kind(each) for each in _environments(known)}
            if not {_kind(each) for each in _environments(check)} <= kinds:
                raise PairError(
                    f"{admitted.info.host} adds a kind of machine that was not there at the start.",
                    remedy="Start again with this machine connected.",
                )

    def _refuse_device_index(self, spec: PairSpec) -> None:
        if ":" in spec.device:
            raise ConfigError(
                f"A cluster chooses its GPUs itself, but {spec.device!r} names a GPU.",
                remedy="Use --device cuda.",
            )


def _in_order(found: Iterator[tuple[int, Any]]) -> Iterator[Any]:
    """Yield the values in the order of their indices, even if they arrive in another order."""
    arrived, due = dict[int, Any](), 0
    for place, value in found:
        arrived[place] = value
        while due in arrived:
            yield arrived.pop(due)
            due += 1


def _merged(checks: Sequence[PairCheck]) -> PairCheck:
    """Merge the checks of a pair on all devices into one.

    The result is the first device's check, with the smallest free memory of all devices, and with
    the environments of other kinds of machine in ``present.others``.
    """
    first = checks[0]
    kinds = {_kind(each): each for check in reversed(checks) for each in _environments(check)}
    frees = [check.memory_free for check in checks if check.memory_free is not None]
    assert first.present is not None
    own = _kind(first.present.environment)
    others = tuple(each for kind, each in kinds.items() if kind != own)
    return replace(
        first,
        memory_free=min(frees) if len(frees) == len(checks) else None,
        present=replace(first.present, others=others),
    )


def _require_same(check: PairCheck, known: PairCheck, hosts: str) -> None:
    own, other = check.present, known.present
    assert own is not None
    assert other is not None
    versions = own.environment.versions, other.environment.versions
    for name in _CHECKED:
        if versions[0].get(name) != versions[1].get(name):
            raise PairError(
                f"{hosts} have different versions of {name}: {versions[0].get(name)} and "
                f"{versions[1].get(name)}.",
                remedy="Set up every node from the same checkout.",
            )
    for mine, theirs in (
        (own.target_sha256, other.target_sha256),
        (own.draft_sha256, other.draft_sha256),
    ):
        if None not in (mine, theirs) and mine != theirs:
            raise PairError(
                f"{hosts} have different weights under the same name.",
                remedy="Copy the same models to every node.",
            )


def _environments(check: PairCheck) -> tuple[Environment, ...]:
    assert check.present is not None
    return (check.present.environment, *check.present.others)


def _kind(environment: Environment) -> tuple[str, str, str]:
    return environment.device, environment.device_name, environment.cpu
