"""Values stored between runs: round trips, damaged files, and the data folder."""

from __future__ import annotations

import json
import math
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from threading import Thread

import pytest

from specviz import store
from specviz.record.trace import StepCosts
from specviz.store.kept_values import forget_values
from specviz.values import Value
from tests.traces import make_costs


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


class Profile(Value):
    rates: tuple[float, ...]
    note: str | None = None


def _only_file(home: Path) -> Path:
    (path,) = home.rglob("*.json")
    return path


def test_a_saved_value_is_loaded(home: Path) -> None:
    assert store.load_value("step-costs", "toy cpu", StepCosts) is None
    assert store.save_value("step-costs", "toy cpu", make_costs())
    assert store.load_value("step-costs", "toy cpu", StepCosts) == make_costs()
    assert _only_file(home).parent == home / "step-costs"
    again = make_costs(draft=0.002)
    assert store.save_value("step-costs", "toy cpu", again)
    assert store.load_value("step-costs", "toy cpu", StepCosts) == again


def test_values_are_stored_by_kind_and_key(home: Path) -> None:
    first, second = Profile(rates=(0.1, 1 / 3)), Profile(rates=(), note="\U0001f642")
    store.save_value("profile", "one", first)
    store.save_value("profile", "\ud800 two", second)
    assert store.load_value("profile", "one", Profile) == first
    assert store.load_value("profile", "\ud800 two", Profile) == second
    assert store.load_value("profiles", "one", Profile) is None
    assert store.load_value("profile", "one", StepCosts) is None


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff", b"[" * 200_000, b'{"schema": 1}', b"NaN", b"1" * 5000],
    ids=["empty", "half", "list", "bytes", "deep", "bare", "NaN", "long number"],
)
def test_a_damaged_value_counts_as_missing(home: Path, content: bytes) -> None:
    store.save_value("profile", "one", Profile(rates=(0.5,)))
    _only_file(home).write_bytes(content)
    assert store.load_value("profile", "one", Profile) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("schema", 2), ("key", "another"), ("kind", "other"), ("value", {"rates": ["x"]}),
        ("value", {"rates": [math.nan]}), ("value", {"rates": [], "note": "\ud800"}),
    ],
)  # fmt: skip
def test_a_value_with_another_header_counts_as_missing(
    home: Path, name: str, value: object
) -> None:
    store.save_value("profile", "one", Profile(rates=(0.5,)))
    record = json.loads(_only_file(home).read_text())
    assert record["key"] == "one"
    _only_file(home).write_text(json.dumps(record | {name: value}))
    assert store.load_value("profile", "one", Profile) is None


def test_saving_to_an_unwritable_folder_returns_false(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path / "file"))
    assert store.save_value("profile", "one", Profile(rates=())) is False
    assert store.load_value("profile", "one", Profile) is None


def test_a_failed_save_leaves_no_temporary_file(home: Path) -> None:
    store.save_value("profile", "one", Profile(rates=()))
    path = _only_file(home)
    path.unlink()
    path.mkdir()
    assert store.save_value("profile", "one", Profile(rates=())) is False
    assert os.listdir(path.parent) == [path.name]


def _save_many(numbers: tuple[int, int]) -> int:
    profiles = [Profile(rates=(float(number),) * 2000) for number in range(*numbers)]
    unread = 0
    for profile in profiles:
        store.save_value("profile", "shared", profile)
        unread += store.load_value("profile", "shared", Profile) is None
    return unread


def test_two_processes_never_read_a_partial_value(home: Path) -> None:
    with ProcessPoolExecutor(2) as pool:
        assert sum(pool.map(_save_many, [(0, 40), (100, 140)])) == 0
    last = store.load_value("profile", "shared", Profile)
    assert last is not None
    assert last.rates[0] in (39, 139)
    assert len(list(home.rglob("*"))) == 2  # the folder and the file


def test_a_change_waits_for_the_change_before_it(home: Path) -> None:
    def add(number: float) -> None:
        store.change_value("profile", "one", Profile, lambda old: _with(old, number))

    second = Thread(target=add, args=(2.0,))

    def add_slowly(old: Profile | None) -> Profile:
        second.start()
        second.join(0.2)  # without the lock, the second change is stored now and then lost
        return _with(old, 1.0)

    assert store.change_value("profile", "one", Profile, add_slowly)
    second.join()
    assert store.load_value("profile", "one", Profile) == Profile(rates=(1.0, 2.0))


def test_a_change_in_progress_does_not_survive_forgetting(home: Path) -> None:
    assert store.save_value("profile", "one", Profile(rates=(1.0,)))
    forgetting = Thread(target=forget_values, args=("profile",))

    def add_slowly(old: Profile | None) -> Profile:
        forgetting.start()
        forgetting.join(0.2)  # without the lock, the old rate is stored again afterwards
        return _with(old, 2.0)

    assert store.change_value("profile", "one", Profile, add_slowly)
    forgetting.join()
    assert store.load_value("profile", "one", Profile) is None


def _with(old: Profile | None, number: float) -> Profile:
    return Profile(rates=(*(old.rates if old else ()), number))


@pytest.mark.skipif(sys.platform != "linux", reason="other platforms have their own data folder")
@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"SPECVIZ_HOME": "/own", "XDG_DATA_HOME": "/data"}, "/own"),
        ({"XDG_DATA_HOME": "/data"}, "/data/specviz"),
        ({"XDG_DATA_HOME": ""}, "/me/.local/share/specviz"),
        ({}, "/me/.local/share/specviz"),
    ],
)
def test_the_default_data_folder(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str
) -> None:
    """Existing libraries are there: another default folder would lose them."""
    for name in ("SPECVIZ_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"HOME": "/me"} | variables).items():
        monkeypatch.setenv(name, value)
    assert store.data_folder() == Path(expected)
