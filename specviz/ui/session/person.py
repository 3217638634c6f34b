"""The person whose script runs, and what that person may do.

Each call reads the session of the script's connection and the present settings, so that the end of
a session and a change of a role take effect at once. Threads of the server (the thread of the
background jobs, for example) act for the owner. The person who starts such work is checked at
that time.
"""

from __future__ import annotations

from typing import NoReturn

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from specviz.access.demo import is_demo
from specviz.access.roles import EVERYBODY, OPEN_OWNER, Action, Person
from specviz.access.sessions import Session
from specviz.errors import AccessError
from specviz.ui.access import SESSION_HEADER, reachable_by_others, the_access
from specviz.ui.access.answers import LOGOUT_FIELD

_LOG_IN = '<a href="" target="_self">Log in again</a>'  # the same address, without Streamlit


def the_person() -> Person:
    """Return the person of the current script; if the session is over, stop the script."""
    if is_demo():
        return EVERYBODY
    if not reachable_by_others() or get_script_run_ctx(suppress_warning=True) is None:
        return OPEN_OWNER
    mark, access = _mark(), the_access()
    if mark == access.open_mark:  # a connection that needs no session
        return OPEN_OWNER
    person = access.person_of(access.sessions.find(mark))
    return person if person is not None else _stop()


def may(action: Action) -> bool:
    return the_person().may(action)


def refusal(action: Action) -> AccessError | None:
    """Return the error if the current person may not do ``action``, else None."""
    person = the_person()
    if person.may(action):
        return None
    role = person.role.name.lower()
    return AccessError(
        f"The role {role} may not do this: {action}.",
        remedy="Ask an owner of this dashboard.",
    )


def require(action: Action) -> None:
    """Raise AccessError if the current person may not do ``action``."""
    if error := refusal(action):
        raise error


def own_session() -> Session | None:
    """Return the session of the current script; None on an open dashboard."""
    if not reachable_by_others() or get_script_run_ctx(suppress_warning=True) is None:
        return None
    return the_access().sessions.find(_mark())


def log_out_link(session: Session) -> str:
    """Return the link that ends a session, relative to the dashboard."""
    return f"./?{LOGOUT_FIELD}={session.leaving}"


def _mark() -> str | None:
    """Return the session header that the gate added to the current script's connection."""
    return st.context.headers.get(SESSION_HEADER)


def _stop() -> NoReturn:
    st.error("Your session is over.")
    st.html(_LOG_IN)
    st.stop()
    raise AccessError("The session is over.", remedy="Log in again.")  # outside of a script
