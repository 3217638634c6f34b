"""Acceptance alone on one node and on two, of one core each on this machine.

``python -m tests.cluster.measure_scaling [RUNS]`` prints runs a second and processor seconds a run,
of the devices and of the process that shares them out, for one node and for two, and their ratios.
The devices are warm when the clock starts.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
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

RUNS = 480


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    devices: int
    runs_a_second: float
    device_seconds: float  # of the processor, a run
    sharing_seconds: float  # of this process, a run


def plan_of(runs: int, seed: int) -> Plan:
    config = RunConfig(gamma=5, max_new_tokens=64, ignore_eos=True, seed=seed, record=False)
    items = preset_suite()
    return Plan(
        lanes=(Lane(spec=PairSpec(threads=1), config=config),),
        items=items,
        repeats=max(1, runs // len(items)),
        baseline=False,
    )


def measured(nodes: int, runs: int) -> Measured:
    cluster = TwoNodes(nodes)
    try:
        with ClusterMaker(cluster.address, timed=False, threads=1) as maker:
            _made(plan_of(30, seed=1000), maker)
            plan, began, before = plan_of(runs, seed=0), time.monotonic(), _spent(maker)
            count = _made(plan, maker)
            seconds, after = time.monotonic() - began, _spent(maker)
            return Measured(
                devices=len(maker.devices),
                runs_a_second=count / seconds,
                device_seconds=(after[0] - before[0]) / count,
                sharing_seconds=(after[1] - before[1]) / count,
            )
    finally:
        cluster.close()


def _made(plan: Plan, maker: ClusterMaker) -> int:
    with tempfile.TemporaryDirectory() as folder:
        work = ComparisonWork(plan, maker, Library(Path(folder) / "runs.db"), must_keep=True)
        work.carry_out()
        assert work.error is None, work.error
        return len(work.measured)


def _spent(maker: ClusterMaker) -> tuple[float, float]:
    devices = sum(_seconds(psutil.Process(each.pid)) for each in maker.devices)
    return devices, _seconds(psutil.Process())


def _seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def main(runs: int) -> None:
    print(f"load {os.getloadavg()[0]:.1f}", flush=True)
    one, two = measured(1, runs), measured(2, runs)
    for each in (one, two):
        print(json.dumps({name: getattr(each, name) for name in Measured.__slots__}), flush=True)
    spent = [each.device_seconds + each.sharing_seconds for each in (one, two)]
    print(
        f"throughput × {two.runs_a_second / one.runs_a_second:.2f}, processor seconds a run "
        f"× {two.device_seconds / one.device_seconds:.2f} of the devices, "
        f"× {spent[1] / spent[0]:.2f} altogether"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS)
