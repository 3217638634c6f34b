"""Acceptance alone on one node and on two, of one core each on this machine.

``python -m tests.cluster.measure_scaling [RUNS]`` prints runs a second and processor seconds a run,
of the devices and of the process that shares the runs out, for one node and for two, and their
ratios. Both are measured in turn, A B B A, some times, on devices that are warm, so that a machine
that others use slows both alike; the ratios are the medians of the turns.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from specviz.cluster.cluster_maker import ClusterMaker
from specviz.comparison.comparison_work import ComparisonWork
from specviz.comparison.plan import Lane, Plan, preset_suite
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig
from specviz.store import Library
from tests.cluster.two_nodes import TwoNodes

RUNS, TURNS = 60, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    devices: int
    runs_a_second: float
    device_seconds: float  # of the processor, a run
    sharing_seconds: float  # of this process, a run

    @property
    def seconds(self) -> float:
        return self.device_seconds + self.sharing_seconds


def plan_of(runs: int, seed: int) -> Plan:
    config = RunConfig(gamma=5, max_new_tokens=64, ignore_eos=True, seed=seed, record=False)
    items = preset_suite()
    return Plan(
        lanes=(Lane(spec=PairSpec(threads=1), config=config),),
        items=items,
        repeats=max(1, runs // len(items)),
        baseline=False,
    )


def measured(maker: ClusterMaker, plan: Plan) -> Measured:
    """The runs are kept, as those of a sweep are."""
    with tempfile.TemporaryDirectory() as folder:
        work = ComparisonWork(plan, maker, Library(Path(folder) / "runs.db"), must_keep=True)
        work.prepare()
        began, before = time.monotonic(), _spent(maker)
        count = sum(1 for _ in work.make_missing())
        seconds, after = time.monotonic() - began, _spent(maker)
    return Measured(
        devices=len(maker.devices),
        runs_a_second=count / seconds,
        device_seconds=(after[0] - before[0]) / count,
        sharing_seconds=(after[1] - before[1]) / count,
    )


@contextmanager
def one_alone(maker: ClusterMaker) -> Iterator[None]:
    """The second device has nothing to do, and none takes its place."""
    pool = maker._pool
    assert pool is not None
    members, looked = pool._members, pool._looked
    pool._members, pool._looked = members[:1], time.monotonic() + 10_000
    yield
    pool._members, pool._looked = members, looked


def _spent(maker: ClusterMaker) -> tuple[float, float]:
    devices = sum(_seconds(psutil.Process(each.pid)) for each in maker.devices)
    return devices, _seconds(psutil.Process())


def _seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def main(runs: int) -> None:
    cluster = TwoNodes()
    pairs = list[tuple[Measured, Measured]]()
    try:
        with ClusterMaker(cluster.address, timed=False, threads=1) as maker:
            measured(maker, plan_of(runs, seed=1000))
            assert len(maker.devices) == 2
            for turn in range(TURNS):
                pairs.append(_turn(maker, plan_of(runs, seed=0), alone_first=turn % 2 == 0))
                print(f"load {os.getloadavg()[0]:.1f}", *map(_words, pairs[-1]), flush=True)
    finally:
        cluster.close()
    print(
        f"throughput × {_middle([two.runs_a_second / one.runs_a_second for one, two in pairs])}, "
        "processor seconds a run "
        f"× {_middle([two.device_seconds / one.device_seconds for one, two in pairs])} of the "
        f"devices, × {_middle([two.seconds / one.seconds for one, two in pairs])} altogether"
    )


def _turn(maker: ClusterMaker, plan: Plan, *, alone_first: bool) -> tuple[Measured, Measured]:
    both = None if alone_first else measured(maker, plan)
    with one_alone(maker):
        alone = measured(maker, plan)
    return alone, both or measured(maker, plan)


def _words(found: Measured) -> str:
    return json.dumps({name: round(getattr(found, name), 4) for name in Measured.__slots__})


def _middle(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS)
