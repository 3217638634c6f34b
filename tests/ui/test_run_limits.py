"""Limits of students' runs, at the worker that the pages use. No process is started."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specviz.access.roles import OPEN_OWNER, Person, Role
from specviz.access.setting_values import Limits
from specviz.access.settings import SETTINGS
from specviz.errors import LimitError
from specviz.record.conversations import Conversation, Message
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig
from specviz.ui.session import run_limits
from specviz.ui.session import worker as worker_module
from specviz.ui.session.run_limits import RunLimits, config_refusal, drafted_per_round
from specviz.ui.session.worker import PageWorker
from specviz.worker.parent.client import Run
from tests.access.clock import Clock

ADA, BOB = (Person(key=f"{name}@uni.example", role=Role.STUDENT) for name in ("ada", "bob"))
CONFIG, SPEC = RunConfig(gamma=4, max_new_tokens=50), PairSpec()
SETTINGS_TEXT = """
[limits]
tokens = 100
gamma = 8
candidates = 20
runs_per_minute = 3
runs_at_once = 2
prompt_characters = 50
"""


class Waiting(PageWorker):
    """A worker whose process never starts, so all runs wait."""

    def start(self) -> None:
        pass


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clock:
    path = tmp_path / "settings.toml"
    path.write_text(SETTINGS_TEXT)
    monkeypatch.setenv(SETTINGS, str(path))
    clock = Clock(1000.0)
    limits = RunLimits(clock)
    monkeypatch.setattr(worker_module, "the_run_limits", lambda: limits)
    return clock


@pytest.fixture
def worker(clock: Clock) -> Iterator[Waiting]:
    made = Waiting()
    yield made
    made.close()


def become(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (run_limits, worker_module):
        monkeypatch.setattr(module, "the_person", lambda: person)


@pytest.fixture
def student(monkeypatch: pytest.MonkeyPatch) -> Person:
    become(ADA, monkeypatch)
    return ADA


def submitted(worker: Waiting, tab: str = "tab", **changes: Any) -> Run:
    prompt = changes.pop("prompt", "Once")
    return worker.submit(tab, SPEC, prompt, replace(CONFIG, **changes))


def refusal(run: Run) -> str:
    assert run.state == "failed"
    assert isinstance(run.error, LimitError)
    assert "\n" not in str(run.error)
    return str(run.error)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"max_new_tokens": 101}, "101 new tokens; at most 100"),
        ({"gamma": 9}, "9 candidates in a row (γ); at most 8"),
        ({"gamma": 8, "num_drafts": 3}, "24 candidates per round; at most 20"),
        ({"branching": (2, 2, 2, 2)}, "30 candidates per round; at most 20"),
        ({"branching": (1,) * 9}, "9 candidates in a row (γ); at most 8"),
        ({"dynamic_tree": (4, 21)}, "21 candidates per round; at most 20"),
        ({"prompt": "x" * 51}, "51 characters; at most 50"),
    ],
)
def test_a_run_beyond_a_limit_is_refused(
    student: Person, worker: Waiting, changes: dict[str, Any], words: str
) -> None:
    assert words in refusal(submitted(worker, **changes))
    assert not worker.busy


def test_runs_at_the_limits_are_accepted(student: Person, worker: Waiting) -> None:
    run = submitted(worker, max_new_tokens=100, gamma=8, prompt="x" * 50)
    assert run.state != "failed"
    assert config_refusal(RunConfig(gamma=5, num_drafts=4), Limits(gamma=8, candidates=20)) is None


def test_a_conversation_is_measured_as_a_whole(student: Person, worker: Waiting) -> None:
    before = (Message(role="user", content="x" * 30), Message(role="assistant", content="y" * 15))
    prompt = Conversation(before=before, text="z" * 6)
    assert "51 characters" in refusal(submitted(worker, prompt=prompt))
    check = worker.check(SPEC, [prompt])
    assert check.done
    assert "51 characters" in str(check.error)


def test_runs_per_minute(student: Person, worker: Waiting, clock: Clock) -> None:
    for _ in range(3):
        assert submitted(worker).state != "failed"
        clock.time += 10
    assert "The next run is possible in 30 s." in refusal(submitted(worker))
    clock.time += 29.5
    assert "possible in 1 s." in refusal(submitted(worker, tab="another tab"))
    clock.time += 0.5
    assert submitted(worker).state != "failed"
    assert "possible in 10 s." in refusal(submitted(worker))


def test_refused_runs_do_not_count_and_stop_nothing(student: Person, worker: Waiting) -> None:
    going = submitted(worker)
    for _ in range(9):
        refusal(submitted(worker, max_new_tokens=101))
    assert not going.finished
    assert submitted(worker).state != "failed"
    assert going.state == "stopped"


def test_runs_at_once_over_all_tabs(student: Person, worker: Waiting) -> None:
    first = submitted(worker, "one")
    submitted(worker, "two")
    assert "2 of your runs are waiting or running" in refusal(submitted(worker, "three"))
    assert submitted(worker, "two").state != "failed"  # it stops the earlier run of its tab
    first.stop()
    assert "within a minute" in refusal(submitted(worker, "three"))  # three have started


def test_a_stopped_run_makes_room(student: Person, worker: Waiting) -> None:
    first = submitted(worker, "one")
    submitted(worker, "two")
    first.stop()
    assert submitted(worker, "three").state != "failed"


def test_persons_are_counted_apart(worker: Waiting, monkeypatch: pytest.MonkeyPatch) -> None:
    become(ADA, monkeypatch)
    for _ in range(3):
        submitted(worker)
    refusal(submitted(worker))
    become(BOB, monkeypatch)
    assert submitted(worker, "tab of Bob").state != "failed"


def test_many_tabs_at_once_do_not_pass_together(student: Person, worker: Waiting) -> None:
    with ThreadPoolExecutor(16) as executor:
        runs = list(executor.map(lambda tab: submitted(worker, f"tab {tab}"), range(16)))
    assert sum(run.state != "failed" for run in runs) == 2


def test_the_owner_has_no_limits(worker: Waiting, monkeypatch: pytest.MonkeyPatch) -> None:
    for owner in (OPEN_OWNER, Person(key="eve@uni.example", role=Role.OWNER)):
        become(owner, monkeypatch)
        for number in range(8):
            run = submitted(
                worker, f"{owner.key} {number}", max_new_tokens=900, gamma=60, prompt="x" * 900
            )
            assert run.state != "failed"


def test_limits_change_with_the_file(student: Person, worker: Waiting, tmp_path: Path) -> None:
    refusal(submitted(worker, max_new_tokens=101))
    (tmp_path / "settings.toml").write_text("[limits]\ntokens = 101")
    assert submitted(worker, max_new_tokens=101).state != "failed"


def test_a_persons_runs_take_turns_with_others(
    worker: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    become(ADA, monkeypatch)
    mine = [submitted(worker, tab) for tab in ("one", "two")]
    become(BOB, monkeypatch)
    other = submitted(worker, "tab of Bob")
    assert (mine[0].place, other.place, mine[1].place) == (0, 1, 2)


def test_the_runs_of_a_person_who_left_are_forgotten(
    student: Person, worker: Waiting, clock: Clock
) -> None:
    limits = worker_module.the_run_limits()
    run = submitted(worker)
    run.stop()
    del run
    clock.time += 61
    with limits.turn("tab", "x", CONFIG):
        pass
    assert len(limits._accounts) <= 1


@pytest.mark.parametrize(
    ("config", "drafted"),
    [
        (RunConfig(gamma=5), 5),
        (RunConfig(gamma=5, num_drafts=3), 15),
        (RunConfig(branching=(3, 2)), 9),
        (RunConfig(gamma=6, dynamic_tree=(4, 30)), 30),
    ],
)
def test_candidates_per_round(config: RunConfig, drafted: int) -> None:
    assert drafted_per_round(config) == drafted
