"""Record the scatter of timed slices under load: ``python -m tests.measure.record_timing_noise``.

Times the embedded pair slice by slice under several kinds of noise. Stores, for the four passes of
every slice, the log of the seconds per target token or per round, minus the lane's mean over all
slices of that kind; and the environment.
"""

from __future__ import annotations

import dataclasses
import json
import math
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

from specviz.engine import Pair, load_pair, speculate
from specviz.engine.decoding.timed_replay import TimedReplay
from specviz.measure.slice_timing import SliceTimer
from specviz.record.pairs import PairSpec
from specviz.record.prompts import read_presets
from specviz.record.trace import RunConfig

FILE = Path(__file__).with_name("timing_noise.json")
SLICES = 300
CORES = os.cpu_count() or 1


def _spin(share: Callable[[float], float]) -> None:
    """Use this share of a processor, in periods of a tenth of a second."""
    began = time.monotonic()
    while True:
        busy = share(time.monotonic() - began)
        until = time.monotonic() + 0.1 * busy
        while time.monotonic() < until:
            pass
        time.sleep(max(0.0, 0.1 * (1 - busy)))


@contextmanager
def _processes(*targets: Callable[[], None]) -> Iterator[None]:
    context = multiprocessing.get_context("fork")
    started = [context.Process(target=each, daemon=True) for each in targets]
    for each in started:
        each.start()
    try:
        yield
    finally:
        for each in started:
            each.kill()
            each.join()


def shared_cores() -> Any:
    return _processes(*[lambda: _spin(lambda _: 1.0)] * CORES)


def drift() -> Any:
    """A load that comes and goes within a minute."""
    return _processes(
        *[lambda: _spin(lambda now: 0.5 - 0.5 * math.cos(2 * math.pi * now / 60))] * CORES
    )


def bursts() -> Any:
    """Every few seconds all processors are busy for a while."""

    def burst() -> None:
        chance = random.Random(3)
        while True:
            time.sleep(chance.expovariate(1 / 3))
            until = time.monotonic() + chance.uniform(0.05, 1.0)
            while time.monotonic() < until:
                pass

    return _processes(*[burst] * 2 * CORES)


def stalls() -> Any:
    """The process itself is suspended now and then, as when a laptop's lid is closed."""
    timed = os.getpid()

    def stall() -> None:
        chance = random.Random(4)
        while True:
            time.sleep(chance.expovariate(1 / 2))
            os.kill(timed, signal.SIGSTOP)
            time.sleep(chance.uniform(0.1, 1.5))
            os.kill(timed, signal.SIGCONT)

    return _processes(stall)


@contextmanager
def painting() -> Iterator[None]:
    """The dashboard plays its recorded run in a browser, again and again."""
    from playwright.sync_api import sync_playwright

    port = 8599
    command = [sys.executable, "-m", "streamlit", "run", "app.py", f"--server.port={port}"]
    with ExitStack() as stack:
        home = stack.enter_context(tempfile.TemporaryDirectory())
        environment = {**os.environ, "SPECVIZ_HOME": home, "SPECVIZ_FIRST_BODY": "none"}
        server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        stack.callback(server.wait)
        stack.callback(server.kill)
        playing = stack.enter_context(sync_playwright())
        browser = playing.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        stack.callback(browser.close)
        page = browser.new_page()
        page.add_init_script("localStorage.setItem('specviz.tour', 'done')")
        time.sleep(8)
        page.goto(f"http://127.0.0.1:{port}/")
        page.wait_for_selector("[data-testid=play]", timeout=60_000)
        page.wait_for_timeout(25_000)
        page.evaluate(
            "setInterval(() => document.querySelector('[data-testid=play]')?.click(), 4000)"
        )
        yield


@contextmanager
def no_noise() -> Iterator[None]:
    yield


KINDS: dict[str, Callable[[], Any]] = {
    "as it is": no_noise,
    "shared cores": shared_cores,
    "drift": drift,
    "bursts": bursts,
    "stalls": stalls,
    "a browser painting": painting,
}


def measure(pair: Pair) -> list[list[float]]:
    config = RunConfig(temperature=0.7, max_new_tokens=128, ignore_eos=True)
    run = speculate(pair, read_presets()[0].text, config)
    rounds = tuple(run)
    timer = SliceTimer(TimedReplay(pair, run.prompt.token_ids, config, rounds), rounds)
    rows: list[list[float]] = []
    for _ in range(SLICES):
        each = timer.next()
        timed = rounds[each.first : each.last]
        tokens = sum(len(entry.emitted) for entry in timed)
        before, after = (math.log(seconds / tokens) for seconds in each.target)
        one, other = (math.log(seconds / len(timed)) for seconds in each.speculative)
        rows.append([before, one, other, after])
    target = fmean((row[0] + row[3]) / 2 for row in rows)
    speculative = fmean((row[1] + row[2]) / 2 for row in rows)
    means = (target, speculative, speculative, target)
    return [[round(log - mean, 4) for log, mean in zip(row, means, strict=True)] for row in rows]


def main(names: list[str]) -> None:
    pair = load_pair(PairSpec(threads=1))
    kept: dict[str, Any] = {"kinds": {}}
    if FILE.exists():
        kept = json.loads(FILE.read_text())
    kept |= {"environment": dataclasses.asdict(pair.environment), "cores": CORES}
    for name in names or list(KINDS):
        with KINDS[name]():
            kept["kinds"][name] = measure(pair)
        FILE.write_text(json.dumps(kept) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
