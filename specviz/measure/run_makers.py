"""Run orders, finished runs, and the maker that makes runs in this process.

Plans pass run orders to a maker and wait for the runs. A plan does not know whether the maker
works in this process, in the dashboard's worker or on a cluster. Makers also carry out studies:
measurements on a pair that are not runs, such as scoring a text.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from specviz.measure import measured_run as measuring
from specviz.measure.loaded_pairs import LoadedPairs, RunMemory
from specviz.measure.slice_timing import compared_seconds
from specviz.measure.stoppable import Activity, StoppableWork, StoppedError  # noqa: F401
from specviz.record.conversations import TypedPrompt
from specviz.record.pairs import PairCheck, PairSpec, ProgressCallback
from specviz.record.trace import RunConfig, Trace
from specviz.values import Value

if TYPE_CHECKING:
    from specviz.engine import Pair


class RunOrder(Value):
    """A run to make; ``label`` names it on pages."""

    label: str
    spec: PairSpec
    prompt: TypedPrompt
    config: RunConfig
    baseline: bool = False  # also time the target alone along the same text
    kind: str | None = None  # the prompt's kind, stored with the run
    warm_up: bool = False  # discarded; only warms up for the next run


class MadeRun(Value):
    """A finished run."""

    trace: Trace
    memory_bytes: int | None
    run_id: str | None = None  # id in the run library, if the maker stored it already


class BlockRun(Value):
    """A run of a block, and the warm-up: a run that is made before it and then discarded.

    A process makes the warm-up only before its first run with this ``lane``.
    """

    order: RunOrder
    warm_up: RunOrder

    @property
    def lane(self) -> tuple[object, ...]:
        """Return a key: the warm-up's label, pair and settings, without seed and forks.

        Runs with equal keys share one warm-up.
        """
        return self.warm_up.label, self.warm_up.spec, replace(self.warm_up.config, seed=0, forks=())


class Block(Value):
    """Runs that are compared with each other; one device makes them all, in this order."""

    runs: tuple[BlockRun, ...]

    @property
    def label(self) -> str:
        return self.runs[0].order.label


class Study(Protocol):
    """A measurement on a loaded pair. The study and its values must be picklable."""

    @property
    def label(self) -> str:
        """Return the activity for a status line."""
        ...

    def find(self, pair: Pair) -> Iterator[object]: ...


@runtime_checkable
class SharedStudy(Study, Protocol):
    """A study with independent parts, which several devices can share."""

    def shares(self) -> tuple[Study, ...]:
        """Return the parts of this study as studies.

        The values of all parts, one part after the other, are the values of this study.
        The first part runs alone, because it may measure times.
        """
        ...


@runtime_checkable
class SavingStudy(Study, Protocol):
    """A study that saves its progress when it is stopped.

    To stop it, wait for the next value of ``find``, then close the generator.
    """

    @property
    def saves(self) -> bool: ...

    def find(self, pair: Pair) -> Generator[object]: ...


class RunMaker(Activity, Protocol):
    """Makes runs one at a time; ``doing`` names work other than a run, such as loading a pair."""

    def check(self, spec: PairSpec, prompts: Sequence[TypedPrompt], *, chat: bool) -> PairCheck:
        """Check that the pair can continue the prompts; return facts about the pair.

        The result also states which of the pair's weights are present.
        """
        ...

    def make(self, order: RunOrder) -> MadeRun:
        """Make the run; raises StoppedError if the maker is stopped."""
        ...

    def find(self, spec: PairSpec, study: Study) -> Iterator[object]:
        """Yield the values of the study; raises StoppedError if the maker is stopped."""
        ...


@runtime_checkable
class BlockMaker(RunMaker, Protocol):
    """A maker that also makes blocks: groups of runs that one device makes in order.

    Each of its devices makes one block at a time.
    """

    def make_blocks(self, blocks: Sequence[Block]) -> Iterator[tuple[int, tuple[MadeRun, ...]]]:
        """Make the blocks; yield a block's index and its finished runs, in any order.

        Raises StoppedError if the maker is stopped; unfinished blocks are lost.
        """
        ...


def in_turn(
    make: Callable[[RunOrder], MadeRun], blocks: Sequence[Block], warm: set[object]
) -> Iterator[tuple[int, tuple[MadeRun, ...]]]:
    """Make the runs of the blocks in order; yield each run with its block's index.

    Args:
        make: Makes one run.
        blocks: The blocks to make.
        warm: ``BlockRun.lane`` of the warm-ups that were already made; updated in place.
    """
    for place, block in enumerate(blocks):
        for run in block.runs:
            if run.lane not in warm:
                make(run.warm_up)
                warm.add(run.lane)
            yield place, (make(run.order),)


class InProcessMaker(StoppableWork):
    """Makes runs in this process, with a cache of loaded pairs.

    Args:
        on_progress: Receives the progress of loading and of measuring step costs.
        budget: Seconds for the timing of a run.
        costs: Whether to measure missing step costs after a run.
    """

    doing = ""

    def __init__(
        self, on_progress: ProgressCallback, *, budget: float | None = None, costs: bool = True
    ) -> None:
        super().__init__()
        self._on_progress = on_progress
        self._costs = costs
        self._budget = compared_seconds() if budget is None else budget
        self._pairs = LoadedPairs()

    def check(self, spec: PairSpec, prompts: Sequence[TypedPrompt], *, chat: bool) -> PairCheck:
        from specviz.engine import check_pair

        return check_pair(spec, self._on_progress, present=True, prompts=prompts, chat=chat)

    def make(self, order: RunOrder) -> MadeRun:
        pair = self._pairs.load(order.spec, self._on_progress)
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
            self._check_stop()
        run.complete(self._on_progress, costs=self._costs)
        return MadeRun(trace=run.trace(), memory_bytes=memory.measured())

    def find(self, spec: PairSpec, study: Study) -> Iterator[object]:
        for value in study.find(self._pairs.load(spec, self._on_progress)):
            self._check_stop()
            yield value
