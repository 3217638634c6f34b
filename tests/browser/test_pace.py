"""Decoding speed does not suffer from an open page."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from specviz.engine import load_pair
from specviz.record.pairs import PairSpec
from specviz.record.prompts import read_presets
from specviz.record.trace import Trace
from specviz.store import load_trace, trace_from_json
from tests.browser.conftest import ROOT, Server, wait_for_pair
from tests.browser.reading import download_trace, run_to_its_end
from tests.step_costs import place_step_costs

pytestmark = pytest.mark.alone

PACE_RATIO = 0.85
MOST_PAIRS = 5  # of runs; one pair is enough if nothing disturbs it
LENGTH = 250


def tokens_per_second(trace: Trace) -> float:
    """Return the run's rate by its own clock."""
    whole = [entry for entry in trace.rounds if entry.whole]
    tokens = sum(len(entry.emitted) for entry in whole)
    return tokens / sum(entry.times.decode + entry.times.record for entry in whole)


def on_the_command_line(out: Path) -> Trace:
    command = [
        sys.executable, "-m", "specviz", "run", read_presets()[0].text, "--temperature=0",
        f"--max-new-tokens={LENGTH}", "--ignore-eos", "--no-baseline", "--json", f"--out={out}",
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "SPECVIZ_HOME": str(out.parent)}
    subprocess.run(
        command, cwd=ROOT, env=environment, check=True, timeout=120, stdout=subprocess.DEVNULL
    )
    return load_trace(out)


@pytest.mark.thorough
def test_a_watched_run_is_as_fast_as_the_command_line(
    server: Server, open_page: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path))
    place_step_costs(load_pair(PairSpec(name="tinystories", threads=1)))
    page = open_page(f"{server.url}/?length={LENGTH}&ignore_eos=true&temperature=0.0&live=false")
    wait_for_pair(page)
    run_to_its_end(page)  # warms up the page; each command is a separate process
    alone, watched, ratio = [], [], 0.0
    while ratio <= PACE_RATIO / 2 and len(alone) < MOST_PAIRS:
        there = on_the_command_line(tmp_path / "trace.json")
        run_to_its_end(page)
        here = trace_from_json(download_trace(page))
        assert here.token_ids == there.token_ids
        assert here.environment.threads == there.environment.threads
        alone.append(tokens_per_second(there))
        watched.append(tokens_per_second(here))
        ratio = median(watched) / median(alone)
    print(
        f"tokens/s with a page watching: {median(watched):.0f} against {median(alone):.0f}, "
        f"ratio {ratio:.2f} (bound {PACE_RATIO})"
    )
    assert ratio > PACE_RATIO / 2
