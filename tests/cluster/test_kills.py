"""A sweep whose actors, node and driver are killed at random moments."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from specviz.engine import load_pair
from specviz.record.pairs import PairSpec
from specviz.store import Library
from tests.cluster.two_nodes import TwoNodes, needs_ray
from tests.engine.models import write_pair
from tests.step_costs import place_step_costs

pytestmark = [needs_ray, pytest.mark.thorough]
PROMPTS = [f"Once upon a time there were {number} dogs" for number in range(40)]
REPEATS = 2
RUNS = 2 * len(PROMPTS) * REPEATS
KILLS = ["actor", "driver", "node"] * 3 + ["actor"]


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path / "home"))
    folder = write_pair(tmp_path, num_hidden_layers=1)
    draft, target = str(folder / "draft"), str(folder / "target")
    place_step_costs(load_pair(PairSpec(draft=draft, target=target, threads=1)), "model")
    suite = tmp_path / "suite.jsonl"
    suite.write_text("\n".join(json.dumps({"prompt": each}) for each in PROMPTS))
    settings = ["--lane", "gamma=2", "--lane", "gamma=4", "--suite", str(suite), "--json"]
    models = ["--draft", draft, "--target", target, "--threads", "1", "--budget", "0.2"]
    return [*settings, *models, "--repeats", str(REPEATS), "--max-new-tokens", "16", "--ignore-eos"]


@pytest.fixture
def nodes(arguments: list[str]) -> Iterator[TwoNodes]:
    made = TwoNodes()
    yield made
    made.close()


class Driver:
    """The command in its own process, with its output in files."""

    def __init__(self, arguments: list[str], address: str, folder: Path) -> None:
        self.err, self.out = folder / "err", folder / "out"
        command = [sys.executable, "-m", "specviz", "compare", *arguments, "--on", f"ray:{address}"]
        with self.err.open("w") as err, self.out.open("w") as out:
            self.process = subprocess.Popen(command, stderr=err, stdout=out)

    def reports(self) -> int:
        return sum(line.startswith("kept ") for line in self.err.read_text().splitlines())

    def wait_for(self, reports: int) -> bool:
        """Wait for that many reported runs; return whether the command still runs."""
        deadline = time.monotonic() + 120
        while self.reports() < reports and self.process.poll() is None:
            assert time.monotonic() < deadline, self.err.read_text()
            time.sleep(0.02)
        return self.process.poll() is None


def devices() -> list[int]:
    """Return the device processes of this test."""
    found = list[int]()
    for each in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if "ray::Device" in " ".join(each.cmdline()):
                found.append(each.pid)
    return found


@pytest.mark.timeout(580)
def test_ten_random_kills_lose_and_duplicate_no_runs(
    arguments: list[str], nodes: TwoNodes, tmp_path: Path
) -> None:
    chance, library, done = random.Random(7), Library(), dict[tuple[int, int, int], str]()
    driver = Driver(arguments, nodes.address, tmp_path)
    for kind in KILLS:
        assert driver.wait_for(driver.reports() + chance.randrange(3, 11)), driver.err.read_text()
        time.sleep(chance.uniform(0.0, 0.3))
        match kind:
            case "actor":
                os.kill(chance.choice(devices()), signal.SIGKILL)
            case "node":
                nodes.replace_second()
            case _:
                driver.process.kill()
                driver.process.wait()
        (row,) = library.comparisons()
        jobs = library.comparison_jobs(row.key)
        print(f"{kind} killed with {len(jobs)} of {RUNS} runs kept", flush=True)
        assert jobs.items() >= done.items()
        done = jobs
        if kind == "driver":
            assert row.num_runs == len(jobs)
            driver = Driver(arguments, nodes.address, tmp_path)
    assert driver.process.wait(timeout=300) == 0, driver.err.read_text()
    record = json.loads(driver.out.read_text())
    assert record["complete"] is True
    (row,) = library.comparisons()
    jobs = library.comparison_jobs(row.key)
    assert row.num_runs == len(jobs) == RUNS
    assert jobs.items() >= done.items()
    assert not devices()
