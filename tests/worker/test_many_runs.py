"""Three hundred runs of all kinds in one worker process: neither it nor its parent grows.

A leak per run is small compared with what a process keeps: allocators keep their largest size, and
new settings allocate tables. So the first runs are left out. With ``-s`` the sizes are printed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from specviz.engine.model.pair import Pair
from specviz.measure.step_costs import costs_key
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig
from specviz.store import save_value
from specviz.values import Value
from specviz.worker.parent.client import Worker
from tests.traces import make_costs
from tests.worker.waiting import finish

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("real_start"),  # a forked process shares memory at first
    pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="there is no /proc"),
]

RUNS = 300
EARLY, LATE = slice(50, 100), slice(250, 300)
# Bytes from the one to the other. Measured: 5 MiB for the worker, which then stays the same to the
# 640th run, and under 1 MiB for its parent. One record of a run that stays, of 43 KiB, is 8 more.
MOST_GROWTH = 12 * 2**20
PROMPTS = ("Once upon a time", "Tom had a big red ball and", "The list: 1. an apple, 2. a")


class Size(Value):
    """Return the memory of one process."""

    resident: int
    threads: int
    files: int

    @staticmethod
    def of(pid: int) -> Size:
        process = Path(f"/proc/{pid}")
        pages = int((process / "statm").read_text().split()[1])
        return Size(
            resident=pages * os.sysconf("SC_PAGE_SIZE"),
            threads=len(os.listdir(process / "task")),
            files=len(os.listdir(process / "fd")),
        )


def settings() -> Iterator[RunConfig]:
    """Yield varied settings endlessly, the same sequence every time."""
    chance = random.Random(0)
    while True:
        yield RunConfig(
            gamma=chance.choice((1, 2, 4, 5, 8, 16)),
            temperature=chance.choice((0.0, 0.3, 0.7, 1.0)),
            top_k=chance.choice((0, 0, 5, 50)),
            top_p=chance.choice((1.0, 1.0, 0.9)),
            max_new_tokens=chance.choice((8, 16, 24)),
            seed=chance.randrange(1000),
            drafter=chance.choice(("model", "model", "prompt-lookup")),
            rule=chance.choice(("lossless", "lossless", "over-accept")),
            epsilon=0.0,
            record=chance.random() < 0.8,
            ignore_eos=chance.random() < 0.5,
        )


def test_three_hundred_runs_do_not_grow_either_process(
    new_worker: Worker, spec: PairSpec, pair: Pair
) -> None:
    sizes: list[tuple[Size, Size]] = []
    for number, config in zip(range(RUNS), settings(), strict=False):
        save_value("step-costs", costs_key(pair, config), make_costs())
        prompt = PROMPTS[number % len(PROMPTS)]
        run = new_worker.submit("a", spec, prompt, config, baseline=number % 3 == 0)
        assert finish(run).state == "done", (config, run.error)
        assert new_worker.pid is not None
        sizes.append((Size.of(new_worker.pid), Size.of(os.getpid())))
    for name, of_process in zip(("worker", "parent"), zip(*sizes, strict=True), strict=True):
        print(name, *(of_process[at - 1] for at in (1, 50, 100, 200, 300)), sep="\n  ")
        assert_flat(of_process, name)


def assert_flat(sizes: tuple[Size, ...], name: str) -> None:
    early, late = sizes[EARLY], sizes[LATE]
    growth = median(each.resident for each in late) - median(each.resident for each in early)
    assert growth < MOST_GROWTH, f"the {name} grew by {growth / 2**20:.1f} MiB"
    for what in ("threads", "files"):
        counts = [median(getattr(each, what) for each in part) for part in (early, late)]
        assert counts[0] == counts[1], (name, what, counts)
