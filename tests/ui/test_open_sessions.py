"""An owner sees who is logged in, and ends sessions; other people see nothing of this."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from specviz.access.roles import Role
from specviz.access.sessions import Session
from specviz.ui.access.state import Access
from specviz.ui.docs import open_sessions
from specviz.ui.session import person as current
from tests.ui.paging import page_of, sound

ROLES = {"ada@uni.example": Role.OWNER, "ben@uni.example": Role.STUDENT}


@pytest.fixture
def access(monkeypatch: pytest.MonkeyPatch) -> Access:
    access = Access(token="t" * 40, role_of=ROLES.get)
    monkeypatch.setattr(open_sessions, "the_access", lambda: access)
    return access


def log_in(access: Access, person: str) -> Session:
    session = access.sessions.of_cookie(access.sessions.open(person, seconds=3600))
    assert session is not None
    return session


def become(session: Session, role: Role, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_sessions, "own_session", lambda: session)
    known = current.Person(key=session.person, role=role)
    monkeypatch.setattr(current, "the_person", lambda: known)


def rows(app: AppTest) -> list[list[str]]:
    tables = [each.value for each in app.markdown if each.value.startswith("| Person")]
    lines = tables[0].splitlines()[2:] if tables else []
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_an_owner_ends_the_sessions_of_others_but_not_the_own_one(
    access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, second = log_in(access, "ada@uni.example"), log_in(access, "ada@uni.example")
    ben, gone = (
        [log_in(access, "ben@uni.example") for _ in range(2)],
        log_in(access, "eve@x.example"),
    )
    link = log_in(access, "")
    become(own, Role.OWNER, monkeypatch)
    app = page_of("docs", chapter="access")
    found = {row[0].replace("\\", "").replace("\u2060", ""): row[1:3] for row in rows(app)}
    assert found == {
        "the link with the token": ["owner", "1"], "eve@x.example": ["may not enter any more", "1"],
        "ben@uni.example": ["student", "2"], "ada@uni.example (you)": ["owner", "2"],
    }  # fmt: skip
    app.multiselect(key="sessions to end").set_value(["ada@uni.example", "ben@uni.example"])
    sound(app.button(key="end_sessions").click().run())
    assert [each.value for each in app.success if "ended: 3" in each.value]
    assert access.sessions.all() == (own, gone, link)
    assert second not in access.sessions.all()
    assert not {*ben} & {*access.sessions.all()}


def test_a_press_without_a_choice_ends_nothing(
    access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, other = log_in(access, "ada@uni.example"), log_in(access, "ben@uni.example")
    become(own, Role.OWNER, monkeypatch)
    app = page_of("docs", chapter="access")
    sound(app.button(key="end_sessions").click().run())
    assert access.sessions.all() == (own, other)
    assert not app.success


@pytest.mark.parametrize("role", [Role.VIEWER, Role.STUDENT])
def test_other_people_see_no_sessions(
    role: Role, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    become(log_in(access, "ben@uni.example"), role, monkeypatch)
    app = page_of("docs", chapter="access")
    assert rows(app) == []
    assert not app.multiselect
    assert not [each for each in app.button if each.key == "end_sessions"]


def test_an_open_dashboard_has_no_table(access: Access) -> None:
    assert rows(page_of("docs", chapter="access")) == []
