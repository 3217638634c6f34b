"""``compare`` killed at any moment: no reported run is lost or repeated."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import torch

from specviz.engine import load_pair
from specviz.record.pairs import PairSpec
from specviz.store import Library
from tests.engine.models import write_pair
from tests.killing import KilledCommand, PlaceInPlan, check_new_runs, forget_runs
from tests.step_costs import place_step_costs

KILLS = (2, pytest.param(30, marks=pytest.mark.thorough))
LANES = ["--lane", "gamma=2", "--lane", "drafter=prompt-lookup"]
PROMPTS, REPEATS = ("Once upon a time there was a dog.", "def add(a, b):"), 4
RUNS = 2 * len(PROMPTS) * REPEATS


@pytest.fixture
def command(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KilledCommand:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    folder, threads = write_pair(tmp_path, num_hidden_layers=1), torch.get_num_threads()
    draft, target = str(folder / "draft"), str(folder / "target")
    place_step_costs(
        load_pair(PairSpec(draft=draft, target=target, threads=1)), "model", "prompt-lookup"
    )
    torch.set_num_threads(threads)
    suite = tmp_path / "suite.jsonl"
    suite.write_text("\n".join(json.dumps({"prompt": each}) for each in PROMPTS))
    asked = [*LANES, "--suite", str(suite), "--repeats", str(REPEATS), "--restart", "--json"]
    models = ["--draft", draft, "--target", target, "--threads", "1"]
    words = ["compare", *asked, *models, "--max-new-tokens", "8", "--ignore-eos"]
    return KilledCommand("specviz.cli:main", words=words, folder=tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("most", KILLS)
def test_continues_after_a_kill_at_any_moment_even_with_restart(
    command: KilledCommand, most: int
) -> None:
    chance, library = random.Random(3), Library()
    kills = 0
    done: dict[PlaceInPlan, str] = {}
    while kills < most or not done:
        if 3 * len(done) > 2 * RUNS:  # the kills came late: start over with an empty library
            forget_runs(library)
            done = {}
        kills += 1
        command.kill_once(chance, most=4, pause=0.3)
        found = library.comparisons()
        jobs = library.comparison_jobs(found[0].key) if found else {}
        check_new_runs(library, command, done, jobs)
        assert all(row.num_runs == len(jobs) for row in found)  # none was made twice
        done = jobs
    print(f"{kills} kills, {len(done)} of {RUNS} runs kept")
    assert 0 < len(done) < RUNS
    assert command.start().wait() == 0
    assert f"{len(done)} of {RUNS} runs are stored" in command.error_lines()[0]
    assert len(command.reports()) == RUNS - len(done)
    record = json.loads(command.out.read_text())
    assert record["complete"] is True
    assert record["runs"] == {"kept": len(done), "measured": RUNS - len(done)}
    (row,) = library.comparisons()
    jobs = library.comparison_jobs(row.key)
    assert row.num_runs == len(jobs) == RUNS
    assert jobs.items() >= done.items()
