"""A run as it is asked for and as it was made, and the maker that makes runs in this process.

Whoever carries out a plan hands its runs to a maker, one at a time, and waits. It does not know
whether they are made in this process or by the worker of the dashboard. A maker carries out studies
too: what is found out on a pair without being a run, such as the scores of a text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from specviz.measure import measured_run as measuring
from specviz.measure.loaded_pairs import LoadedPairs, RunMemory
from specviz.measure.slice_timing import compared_seconds
from specviz.record.pairs import PairCheck, PairSpec, ProgressCallback
from specviz.record.trace import RunConfig, Trace

if TYPE_CHECKING:
    from specviz.engine import Pair


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrder:
    """A run to be made, and what a page calls it."""

    label: str
    spec: PairSpec
    prompt: str
    config: RunConfig
    baseline: bool = False  # also time the target alone along the same words
    kind: str | None = None  # of the prompt, as the caller calls it; stored with the run
    warm_up: bool = False  # only prepares the next run, and is not kept


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeRun:
    trace: Trace
    memory_bytes: int | None
    run_id: str | None = None  # in the run library, if the maker has kept it already


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRun:
    """A run of a block; ``warm_up`` goes before the first of its kind in a process."""

    order: RunOrder
    warm_up: RunOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Runs that are compared with each other: one device makes them all, in this order."""

    runs: tuple[BlockRun, ...]

    @property
    def label(self) -> str:
        return self.runs[0].order.label


class StoppedError(Exception):
    """The run was stopped on request."""


class Study(Protocol):
    """Finds something out on a loaded pair; it crosses to another process, and so do its values."""

    @property
    def label(self) -> str:
        """What it does, for a status line."""
        ...

    def find(self, pair: Pair) -> Iterator[object]: ...


@runtime_checkable
class SharedStudy(Study, Protocol):
    """A study of things that know nothing of each other: several devices may find them."""

    def shares(self) -> tuple[Study, ...]:
        """Together they find what the study does, in this order. The first may measure times:
        while it is made, nothing else is."""
        ...


class RunMaker(Protocol):
    """Makes runs, one at a time. ``stop`` may be called from any thread, and is final."""

    @property
    def doing(self) -> str:
        """What takes the time besides the run itself, such as loading a pair, or empty."""
        ...

    def check(self, spec: PairSpec, prompts: Sequence[str], *, chat: bool) -> PairCheck:
        """Check that the pair can continue the prompts; says which weights it has now."""
        ...

    def make(self, order: RunOrder) -> MadeRun:
        """The finished run; raises StoppedError for one that was stopped."""
        ...

    def find(self, spec: PairSpec, study: Study) -> Iterator[object]:
        """What the study finds on the pair; raises StoppedError if it was stopped."""
        ...

    def stop(self) -> None: ...


@runtime_checkable
class BlockMaker(RunMaker, Protocol):
    """Makes blocks too, as many at a time as it has devices."""

    def make_blocks(self, blocks: Sequence[Block]) -> Iterator[tuple[int, tuple[MadeRun, ...]]]:
        """The place of each block and its runs, as they are finished, in any order.

        Raises StoppedError if it was stopped; blocks that are under way then are lost.
        """
        ...


class InProcessMaker:
    """Makes runs here, with pairs that stay loaded while they fit.

    ``tell`` hears of the loading and of the measuring of step costs. ``budget``: seconds for the
    timing of a run. ``costs``: whether step costs that are missing are measured after a run.
    """

    doing = ""

    def __init__(
        self, tell: ProgressCallback, *, budget: float | None = None, costs: bool = True
    ) -> None:
        self._tell = tell
        self._costs = costs
        self._budget = compared_seconds() if budget is None else budget
        self._pairs = LoadedPairs()
        self._stopped = False

    def check(self, spec: PairSpec, prompts: Sequence[str], *, chat: bool) -> PairCheck:
        from specviz.engine import check_pair

        return check_pair(spec, self._tell, present=True, prompts=prompts, chat=chat)

    def make(self, order: RunOrder) -> MadeRun:
        pair = self._pairs.load(order.spec, self._tell)
        memory = RunMemory(pair, order.config)
        run = measuring.measured_run(
            pair,
            order.prompt,
            order.config,
            baseline=order.baseline,
            kind=order.kind,
            budget=self._budget,
        )
        for _ in chain(run, run.timed()):
            if self._stopped:
                raise StoppedError
        run.complete(self._tell, costs=self._costs)
        return MadeRun(trace=run.trace(), memory_bytes=memory.measured())

    def find(self, spec: PairSpec, study: Study) -> Iterator[object]:
        for value in study.find(self._pairs.load(spec, self._tell)):
            if self._stopped:
                raise StoppedError
            yield value

    def stop(self) -> None:
        self._stopped = True
