"""The person of a script: read from the gate's header at every call."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from specviz.access.roles import OPEN_OWNER, Role
from specviz.ui.access import Access, state
from specviz.ui.session import person
from specviz.ui.session.person import the_person

SAM = "sam@uni.example"


class Connection:
    """The connection of a script: its mark, and the access that knows it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.roles = {SAM: Role.STUDENT}
        self.access = Access(token="a" * 20, chosen=True, role_of=self.roles.get)
        self.mark: str | None = None
        monkeypatch.setattr(state, "the_access", lambda: self.access)
        monkeypatch.setattr(person, "the_access", lambda: self.access)
        monkeypatch.setattr(person, "_mark", lambda: self.mark)

    def log_in(self, who: str, seconds: float = 1000) -> None:
        self.access.sessions.open(who, seconds=seconds)
        self.mark = self.access.sessions.all()[-1].handle


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Connection:
    return Connection(monkeypatch)


def script() -> None:
    import streamlit as st

    from specviz.ui.session.person import the_person

    someone = the_person()
    st.text(f"{someone.key or 'nobody'} {someone.role.name}")


def said() -> str:
    """Return what a script says about its person."""
    app = AppTest.from_function(script, default_timeout=30).run()
    assert not app.exception
    return " ".join(each.value for each in [*app.text, *app.error])


def test_a_session_names_the_person(connection: Connection) -> None:
    connection.log_in(SAM)
    assert said() == f"{SAM} STUDENT"


def test_the_token_names_the_owner(connection: Connection) -> None:
    connection.log_in("")
    assert said() == "nobody OWNER"


def test_a_connection_that_needs_no_session(connection: Connection) -> None:
    connection.mark = connection.access.open_mark
    assert said() == "nobody OWNER"


def end(connection: Connection) -> None:
    connection.access.sessions.end_all_of(SAM)


def remove(connection: Connection) -> None:
    del connection.roles[SAM]


def expire(connection: Connection) -> None:
    connection.access.sessions = type(connection.access.sessions)(lambda: 9e9)


@pytest.mark.parametrize("change", [end, remove, expire])
def test_a_session_that_is_over_stops_the_script(
    connection: Connection, change: Callable[[Connection], None]
) -> None:
    connection.log_in(SAM)
    change(connection)
    assert said() == "Your session is over."


@pytest.mark.parametrize("mark", [None, "", "x", "a" * 64, "open"])
def test_a_connection_without_the_gates_mark_stops_the_script(
    connection: Connection, mark: str | None
) -> None:
    connection.mark = mark
    assert said() == "Your session is over."


def test_a_role_is_read_at_every_call(connection: Connection) -> None:
    connection.log_in(SAM)
    for role in (Role.OWNER, Role.VIEWER):
        connection.roles[SAM] = role
        assert said() == f"{SAM} {role.name}"


def test_the_servers_own_threads_act_for_the_owner(connection: Connection) -> None:
    assert the_person() is OPEN_OWNER


def test_an_open_dashboard_has_one_owner() -> None:
    assert said() == "nobody OWNER"
