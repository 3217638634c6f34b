"""Measure the throughput of untimed work on one and on two local nodes of one core each.

``python -m tests.cluster.measure_scaling runs|texts|passes [COUNT]``: runs for acceptance only;
generating and scoring texts; scoring passes over given texts. Prints items per second and processor
seconds per item, of the devices and of the distributing process, for one and two nodes, and the
ratios. Both are measured alternately (A B B A) on warm devices, so other load affects both equally;
the ratios are medians over the turns.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cache, partial
from itertools import cycle, islice
from pathlib import Path

import psutil

from specviz.cluster.cluster_maker import ClusterMaker
from specviz.comparison.comparison_job import ComparisonJob
from specviz.comparison.plan import Lane, Plan, preset_suite
from specviz.figures.throughput import GAMMAS
from specviz.record.pairs import PairSpec
from specviz.record.scores import SamplingParams, ScoredText
from specviz.record.trace import RunConfig
from specviz.store import Library
from specviz.tune.text_study import TextStudy
from specviz.values import Value
from tests.cluster.two_nodes import TwoNodes

COUNTS = {"runs": 60, "texts": 120, "passes": 400}
TURNS = 4
SPEC = PairSpec(threads=1)
CONFIG = RunConfig(gamma=5, max_new_tokens=64, ignore_eos=True, record=False)


class Measured(Value):
    devices: int
    a_second: float
    device_seconds: float  # processor seconds per item
    sharing_seconds: float  # of this process, per item

    @property
    def seconds(self) -> float:
        return self.device_seconds + self.sharing_seconds


def ready(kind: str, maker: ClusterMaker, count: int, folder: str) -> Iterator[object]:
    """Return the iterator to time, with all preparation done."""
    if kind == "runs":
        job = ComparisonJob(plan_of(count), maker, new_library(folder), must_keep=True)
        job.prepare()
        return job.make_missing()
    study = study_of(count)
    if kind == "passes":
        study = replace(study, written=texts_of(maker, study))
    return (each for each in maker.find(SPEC, study) if isinstance(each, ScoredText))


def plan_of(runs: int) -> Plan:
    items = preset_suite()
    return Plan(
        lanes=(Lane(spec=SPEC, config=CONFIG),),
        items=items,
        repeats=max(1, runs // len(items)),
        baseline=False,
    )


def study_of(texts: int) -> TextStudy:
    return TextStudy(
        items=tuple(islice(cycle(preset_suite()), texts)),
        samplings=(SamplingParams(temperature=CONFIG.temperature, top_k=0, top_p=1.0),),
        config=CONFIG,
        gammas=GAMMAS,
        costs=False,
    )


@cache
def texts_of(maker: ClusterMaker, study: TextStudy) -> tuple[tuple[int, ...], ...]:
    found = maker.find(SPEC, study)
    return tuple(each.token_ids for each in found if isinstance(each, ScoredText))


def new_library(folder: str) -> Library:
    """Return a library for the runs, as in a sweep."""
    return Library(Path(tempfile.mkdtemp(dir=folder)) / "runs.db")


def measured(maker: ClusterMaker, made: Iterator[object]) -> Measured:
    began, before = time.monotonic(), _spent(maker)
    count = sum(1 for _ in made)
    seconds, after = time.monotonic() - began, _spent(maker)
    return Measured(
        devices=len(maker.devices),
        a_second=count / seconds,
        device_seconds=(after[0] - before[0]) / count,
        sharing_seconds=(after[1] - before[1]) / count,
    )


@contextmanager
def one_alone(maker: ClusterMaker) -> Iterator[None]:
    """Keep the second device idle, without a replacement."""
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


def main(kind: str, count: int) -> None:
    cluster = TwoNodes()
    pairs = list[tuple[Measured, Measured]]()
    try:
        with (
            ClusterMaker(cluster.address, timed=False, threads=1) as maker,
            tempfile.TemporaryDirectory() as folder,
        ):
            make = partial(ready, kind, maker, count, folder)
            measured(maker, make())
            assert len(maker.devices) == 2
            for turn in range(TURNS):
                pairs.append(_turn(maker, make, alone_first=turn % 2 == 0))
                print(f"load {os.getloadavg()[0]:.1f}", *map(_text, pairs[-1]), flush=True)
    finally:
        cluster.close()
    print(
        f"{kind}: throughput × {_middle([two.a_second / one.a_second for one, two in pairs])}, "
        "processor seconds for each "
        f"× {_middle([two.device_seconds / one.device_seconds for one, two in pairs])} of the "
        f"devices, × {_middle([two.seconds / one.seconds for one, two in pairs])} altogether"
    )


def _turn(
    maker: ClusterMaker, make: Callable[[], Iterator[object]], *, alone_first: bool
) -> tuple[Measured, Measured]:
    both = None if alone_first else measured(maker, make())
    with one_alone(maker):
        alone = measured(maker, make())
    return alone, both or measured(maker, make())


def _text(found: Measured) -> str:
    return json.dumps({name: round(value, 4) for name, value in asdict(found).items()})


def _middle(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


if __name__ == "__main__":
    kind = sys.argv[1] if len(sys.argv) > 1 else "runs"
    main(kind, int(sys.argv[2]) if len(sys.argv) > 2 else COUNTS[kind])
