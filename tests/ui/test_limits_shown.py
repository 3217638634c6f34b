"""What people see of the limits: the tables, the notices, and the quota on Runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from specviz.access.roles import Person, Role
from specviz.access.settings import SETTINGS
from specviz.servers.outgoing import the_outgoing
from specviz.store import Library
from specviz.store.saving import save_run
from specviz.ui.docs import limits_in_force
from specviz.ui.session import library_quota, settings_notice
from specviz.ui.session.library_quota import keep_quota, quota_notice
from specviz.ui.session.run_saving import the_library
from tests.traces import full_trace
from tests.ui.paging import page_of

FULL = """
[people]
"ada@uni.example" = "owner"
"*@uni.example" = "student"

[limits]
tokens = 77

[models]
folders = ["/srv/secret-models"]

[servers]
addresses = ["10.0.0.5:8000"]

[library]
quota = "2 GB"
"""
MODULES = (limits_in_force, settings_notice, library_quota)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "settings.toml"
    path.write_text(FULL)
    monkeypatch.setenv(SETTINGS, str(path))
    return path


def become(role: Role, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in MODULES:
        monkeypatch.setattr(module, "the_person", lambda: Person(key="a@b", role=role))


def text_of(app: AppTest) -> str:
    shown = [*app.markdown, *app.warning, *app.header, *app.caption]
    return "\n".join(each.value for each in shown).replace("\\", "").replace("\u2060", "")


def test_the_owner_sees_everything(file: Path) -> None:
    text = text_of(page_of("docs", chapter="limits"))
    assert f"Read from {file}." in text
    for each in ("ada@uni.example", "| New tokens of a run | 77 |", "/srv/secret-models",
                 "10.0.0.5:8000", "| Size | 2 GB |", "no access"):  # fmt: skip
        assert each in text


@pytest.mark.usefixtures("own_home")
def test_without_a_file_the_owner_sees_the_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SETTINGS, raising=False)
    text = text_of(page_of("docs", chapter="limits"))
    assert "There is no settings file" in text
    assert f"{tmp_path / 'home' / 'specviz.toml'}" in text
    assert "any folder" in text


@pytest.mark.parametrize("role", [Role.VIEWER, Role.STUDENT])
def test_others_see_only_their_own_limits(
    file: Path, monkeypatch: pytest.MonkeyPatch, role: Role
) -> None:
    become(role, monkeypatch)
    page_of("docs")
    file.write_text(f"{FULL}\nwrong = 1")
    text = text_of(page_of("docs", chapter="limits"))
    assert "Your limits" in text
    assert ("| New tokens of a run | 77 |" in text) == (role == Role.STUDENT)
    for each in (str(file), "ada@uni.example", "secret-models", "10.0.0.5:8000", "wrong"):
        assert each not in text


def test_the_owner_sees_why_an_edit_is_not_in_force(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page_of("docs")
    file.write_text("[limits]\ntokens = 'many'")
    app = page_of("docs")
    (warning,) = app.warning
    assert "tokens is 'many'" in warning.value.replace("\\", "")
    become(Role.STUDENT, monkeypatch)
    assert not page_of("docs").warning


def test_the_pages_guard_requests_to_servers(file: Path) -> None:
    page_of("docs")
    rules = the_outgoing().now()
    assert rules is not None
    assert rules.only_listed
    app = page_of("servers", server="http://10.0.0.6:8000")
    (error,) = app.error
    assert "has not listed" in error.value
    assert not app.checkbox


# The quota on Runs


@pytest.fixture
def library(own_home: None, file: Path) -> Library:
    library = the_library()
    for number in range(3):
        save_run(library, full_trace(), run_id=f"run{number}")
    return library


def set_quota(file: Path, quota: int) -> None:
    file.write_text(f"[library]\nquota = {quota}")


def shrink(monkeypatch: pytest.MonkeyPatch, deleted: int, used: int = 0) -> None:
    """Report that runs were deleted: a real library of 1 MB would take long to make."""
    from specviz.store.quota import Trimmed

    found = iter([Trimmed(deleted=deleted, used=used)])
    monkeypatch.setattr(
        library_quota, "trim_library",
        lambda *_args, **_more: next(found, Trimmed(deleted=0, used=used)),
    )  # fmt: skip


def test_runs_says_how_many_runs_were_deleted(
    library: Library, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_quota(file, 1_000_000)
    shrink(monkeypatch, 12)
    app = page_of("runs")
    assert "12 runs were deleted, the oldest first" in text_of(app)
    assert "1 MB" in text_of(app)
    app.button(key="runs_quota_dismiss").click().run()
    assert "were deleted" not in text_of(app)
    assert quota_notice(library).deleted == 0
    assert "were deleted" not in text_of(page_of("runs"))


def test_a_student_dismisses_only_for_their_own_tab(
    library: Library, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_quota(file, 1_000_000)
    shrink(monkeypatch, 1)
    become(Role.STUDENT, monkeypatch)
    app = page_of("runs")
    assert "1 run was deleted" in text_of(app)
    app.button(key="runs_quota_dismiss").click().run()
    assert "was deleted" not in text_of(app)
    assert "1 run was deleted" in text_of(page_of("runs"))


def test_the_owner_learns_that_nothing_may_be_deleted(
    library: Library, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_quota(file, 1_000_000)
    shrink(monkeypatch, 0, used=2_000_000)
    assert "need more than the quota of 1 MB" in text_of(page_of("runs"))
    become(Role.VIEWER, monkeypatch)
    assert "quota" not in text_of(page_of("runs"))


def test_without_a_quota_nothing_happens(library: Library, file: Path) -> None:
    file.write_text("")
    keep_quota(library)
    assert library.count() == 3
    assert "deleted" not in text_of(page_of("runs"))
