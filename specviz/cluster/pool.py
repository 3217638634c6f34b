"""The devices of a cluster, and the distribution of calls among them.

A call goes to one device. If the device's process or node dies, the call is retried a few times on
another device, and the device is replaced once a node has free resources. Nodes may join later.
Devices are Ray actors of this process, so Ray ends them with the process, even if it is killed.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from specviz.cluster.device import Admitted, CheckCall, Device, DeviceInfo, Need
from specviz.errors import DeviceError, SpecvizError
from specviz.record.pairs import PairCheck, memory_margin
from specviz.values import Value

_TICK = 0.1  # seconds between checks for a stop
_LOOK = 0.5  # seconds between scans of the nodes
_QUEUED = 2  # calls per device, including the running one
_MOST_DEATHS = 3  # deaths after which a call fails, or a node is no longer used
_PATIENCE = 60.0  # seconds to wait without any device; twice that at the start
_LATER = 5.0  # seconds to wait for more devices after the first


@dataclass(slots=True, eq=False)
class Member:
    """A device and its calls; ``info`` is None until the device is ready (admitted)."""

    handle: Any
    node: str
    host: str
    info: DeviceInfo | None = None
    places: list[int] = field(default_factory=list)  # indices of its calls; the first is running


class Call(Value):
    """A call of the device method ``method``; ``label`` describes it in messages."""

    method: str
    arguments: tuple[Any, ...]
    label: str = ""


class DevicePool:
    """The devices of a cluster, and the calls queued for each device.

    ``check_stop`` raises an error if the work must stop. ``accept`` raises an error if a device
    must not be used.
    """

    def __init__(
        self,
        ray: Any,
        need: Need,
        check_stop: Callable[[], None],
        accept: Callable[[Admitted], object],
    ) -> None:
        self._ray, self._need = ray, need
        self._check_stop, self._accept = check_stop, accept
        self._members: list[Member] = []
        self._joining: dict[Any, Member] = {}
        self._checks: list[CheckCall] = []
        self._most_of_node: dict[str, int] = {}  # most devices by node, default 1
        self._failures: Counter[str] = Counter()
        self._last_error = ""
        self._looked = -_LOOK
        self._alone_since: float | None = None

    @property
    def devices(self) -> tuple[DeviceInfo, ...]:
        return tuple(each.info for each in self._members if each.info is not None)

    def begin(self) -> None:
        """Wait for the first device, then at most ``_LATER`` seconds for more devices."""
        began = time.monotonic()
        first: float | None = None
        while True:
            self._check_stop()
            self._fill(most=None)
            self._wait({})
            now = time.monotonic()
            first = first or (now if self.devices else None)
            if self.devices and (not self._joining or now > (first or now) + _LATER):
                return
            if not self._joining and not self.devices:
                self._require_prospects()
            if now > began + 2 * _PATIENCE and not self.devices:
                raise self._no_device()

    def check(self, call: CheckCall) -> tuple[tuple[DeviceInfo, PairCheck], ...]:
        """Check a pair on every device; a device that joins later also checks the pair."""
        pending = {
            each.handle.check.remote(call): each for each in self._members if each.info is not None
        }
        found: list[tuple[DeviceInfo, PairCheck]] = []
        while pending:
            for ref in self._wait(pending):
                member = pending.pop(ref)
                check = self._value(ref, member)
                if check is not None and member.info is not None:
                    found.append((member.info, check))
                    self._allow(member.node, check)
        if not found:
            raise self._no_device()
        self._checks.append(call)
        return tuple(found)

    def results(self, calls: Sequence[Call]) -> Iterator[tuple[int, Any]]:
        """Yield the index and value of each finished call; if a call failed, raise its error."""
        waiting, busy = deque(range(len(calls))), dict[Any, tuple[Member, int]]()
        deaths = Counter[int]()
        try:
            while waiting or busy:
                self._check_stop()
                self._fill(most=len(waiting) + len(busy))
                self._hand_out(calls, waiting, busy)
                if not busy and not self._joining and not self.devices:
                    self._require_prospects()
                for ref in self._wait(busy):
                    member, place = busy.pop(ref)
                    value = self._value(ref, member)
                    if value is None:
                        waiting.appendleft(place)
                        deaths.update(member.places[:1])
                        self._check_deaths(calls, member, deaths)
                        member.places.clear()
                        continue
                    member.places.remove(place)
                    yield place, value
        finally:
            for member, _ in busy.values():  # abandoned calls end with their process
                self._end(member)

    def close(self) -> None:
        """End all devices."""
        for member in tuple(self._members):
            self._end(member)
        self._joining.clear()

    # Devices

    def _fill(self, most: int | None) -> None:
        """Request as many devices as each node can have (``_room``), at most ``most`` in total."""
        if time.monotonic() < self._looked + _LOOK:
            return
        self._looked = time.monotonic()
        for node in self._ray.nodes():
            name = node["NodeID"]
            if not node["Alive"] or self._failures[name] >= _MOST_DEATHS:
                continue
            have = sum(each.node == name for each in self._members)
            for _ in range(self._room(node) - have):
                if most is not None and len(self._members) >= most:
                    return
                self._ask_for(name, node["NodeManagerHostname"])

    def _room(self, node: dict[str, Any]) -> int:
        """Return how many devices the node can have, given its CPUs, GPUs and memory."""
        has, need = node["Resources"], self._need
        fit = int(has.get("CPU", 0)) // need.cores
        if need.gpu:
            return min(fit, int(has.get("GPU", 0)))
        return min(fit, self._most_of_node.get(node["NodeID"], 1))

    def _allow(self, node: str, check: PairCheck) -> None:
        """Limit the node's CPU devices to the number that fits into its memory.

        If runs are timed, the limit stays at one device. GPU devices have no such limit.
        """
        if self._need.timed or self._need.gpu:
            return
        free, each = check.memory_free, memory_of(check)
        self._most_of_node[node] = 1 if free is None else 1 + max(0, free // each - 1)

    def _ask_for(self, node: str, host: str) -> None:
        util = self._ray.util.scheduling_strategies
        options = {
            "num_cpus": self._need.cores,
            "num_gpus": int(self._need.gpu),
            "max_restarts": 0,
            "max_task_retries": 0,
            "scheduling_strategy": util.NodeAffinitySchedulingStrategy(node, soft=False),
        }
        handle = self._ray.remote(Device).options(**options).remote()
        member = Member(handle=handle, node=node, host=host)
        self._members.append(member)
        self._joining[handle.admit.remote(self._need, tuple(self._checks))] = member

    def _join(self, ref: Any) -> None:
        member = self._joining.pop(ref)
        try:
            admitted = self._value(ref, member)
            if admitted is None:
                self._failures[member.node] += 1
                return
            self._require_own_cores(admitted.info)
            self._accept(admitted)
        except SpecvizError as error:
            self._end(member)
            if not self.devices or not self._checks:
                raise
            self._last_error = str(error)  # the other devices continue
            self._failures[member.node] = _MOST_DEATHS
            return
        member.info, self._alone_since = admitted.info, None
        self._failures[member.node] = 0

    def _require_own_cores(self, info: DeviceInfo) -> None:
        for other in self.devices:
            shared = set(other.cores) & set(info.cores)
            if other.machine == info.machine and shared:
                raise DeviceError(
                    f"Two devices on {info.host} share the core {min(shared)}.",
                    remedy="Give each node of a machine its own cores, for example with taskset.",
                )

    def _end(self, member: Member) -> None:
        self._members = [each for each in self._members if each is not member]
        self._joining = {ref: each for ref, each in self._joining.items() if each is not member}
        if self._ray.is_initialized():
            self._ray.kill(member.handle, no_restart=True)

    # Calls

    def _hand_out(
        self, calls: Sequence[Call], waiting: deque[int], busy: dict[Any, tuple[Member, int]]
    ) -> None:
        """Queue ``_QUEUED`` calls for each device, so that devices never wait for this process."""
        for depth in range(_QUEUED):
            for member in self._members:
                if waiting and member.info is not None and len(member.places) <= depth:
                    place = waiting.popleft()
                    call = calls[place]
                    ref = getattr(member.handle, call.method).remote(*call.arguments)
                    busy[ref] = member, place
                    member.places.append(place)

    def _wait(self, pending: dict[Any, Any]) -> list[Any]:
        """Wait briefly; return the finished calls in ``pending``, and admit ready devices."""
        self._check_stop()
        refs = [*pending, *self._joining]
        if not refs:
            time.sleep(_TICK)
            return []
        self._ray.wait(refs, num_returns=1, timeout=_TICK)
        ready, _ = self._ray.wait(refs, num_returns=len(refs), timeout=0)
        for ref in [each for each in ready if each in self._joining]:
            self._join(ref)
        return [each for each in ready if each in pending]

    def _value(self, ref: Any, member: Member) -> Any:
        """Return a finished call's value, or None if its device died; raise the call's error."""
        errors = self._ray.exceptions
        try:
            value = self._ray.get(ref)
        except errors.RayTaskError as error:
            raise SpecvizError(
                f"A device on {member.host} failed: {_last_line(error)}",
                remedy="See the log of its process on that node.",
            ) from error
        except errors.RayError as error:
            self._last_error = f"{member.host}: {_last_line(error)}"
            self._end(member)
            return None
        if isinstance(value, SpecvizError):
            raise value
        return value

    def _check_deaths(self, calls: Sequence[Call], member: Member, deaths: Counter[int]) -> None:
        for place in member.places[:1]:
            if deaths[place] < _MOST_DEATHS:
                continue
            raise DeviceError(
                f"{deaths[place]} devices died while making {calls[place].label!r}, the last "
                f"on {member.host}: {self._last_error}",
                remedy="The memory was probably too small: use smaller models or larger nodes.",
            )

    def _require_prospects(self) -> None:
        """Raise DeviceError if no device can join, or if none joins for ``_PATIENCE`` seconds."""
        nodes = [each for each in self._ray.nodes() if each["Alive"]]
        if self._alone_since is None:
            self._alone_since = time.monotonic()
        fit = any(self._room(each) for each in nodes)
        tried = all(self._failures[each["NodeID"]] >= _MOST_DEATHS for each in nodes)
        hopeless = not self._checks and (not fit or tried)
        if hopeless or time.monotonic() > self._alone_since + _PATIENCE:
            raise self._no_device()

    def _no_device(self) -> DeviceError:
        gpu = " and a GPU" if self._need.gpu else ""
        last = f" Last error: {self._last_error}" if self._last_error else ""
        return DeviceError(
            f"No node of the cluster has room for a device of {self._need.cores} "
            f"core{'s' * (self._need.cores > 1)}{gpu}.{last}",
            remedy="Start a larger node, or use fewer threads.",
        )


def memory_of(check: PairCheck) -> int:
    """Return the bytes of memory that a device needs to run the pair."""
    return memory_margin(check.memory_needed)


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
