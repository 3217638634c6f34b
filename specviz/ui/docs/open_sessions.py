"""Show the owner who is logged in, and let the owner end sessions.

The table is in the chapter "Logins and roles" of the documentation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import streamlit as st

from specviz.access.roles import Action
from specviz.access.sessions import Session
from specviz.ui.access import the_access
from specviz.ui.session.person import may, own_session, require
from specviz.ui.widgets.plain_text import as_text

_CHOSEN, _END, _ENDED = "sessions to end", "end_sessions", "sessions ended"
_LINK = "the link with the token"
_TIME = "%d %b %H:%M"


def show_open_sessions() -> None:
    """Draw the table of open sessions, if the person is an owner and there are any."""
    if not may(Action.MANAGE):
        return
    sessions = the_access().sessions.all()
    if not sessions:
        return
    st.header("Who is logged in", anchor=False)
    with st.container(key="open_sessions"):
        st.markdown("\n".join(_lines(sessions)))
    others = [each for each in sessions if each != own_session()]
    people = sorted({each.person for each in others})
    if people:
        with st.container(horizontal=True, vertical_alignment="bottom"):
            st.multiselect("End the sessions of", people, key=_CHOSEN, format_func=_words)
            st.button("End sessions", key=_END, on_click=_end)
    if (ended := st.session_state.pop(_ENDED, None)) is not None:
        st.success(
            f"Sessions ended: {as_text(str(ended))}. These people can log in again unless the "
            "settings file keeps them out."
        )


def _lines(sessions: Sequence[Session]) -> Iterator[str]:
    """Yield the lines of the table: a row for each person, the latest login first."""
    yield "| Person | Role | Sessions | Last login | Valid until |"
    yield "|---|---|---|---|---|"
    by_person: dict[str, list[Session]] = {}
    for each in reversed(sessions):
        by_person.setdefault(each.person, []).append(each)
    for person, own in by_person.items():
        known = the_access().known_person(person)
        cells = (
            _words(person) + (" (you)" if own_session() in own else ""),
            known.role.name.lower() if known is not None else "may not enter any more",
            str(len(own)),
            *map(_time, (own[0].issued, max(each.expires for each in own))),
        )
        yield f"| {' | '.join(map(as_text, cells))} |"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime(_TIME)


def _words(person: str) -> str:
    return person or _LINK


def _end() -> None:
    """End the sessions of the chosen people, except the session of this browser."""
    require(Action.MANAGE)
    access, here = the_access(), own_session()
    chosen = st.session_state.pop(_CHOSEN, [])
    found = [each for each in access.sessions.all() if each.person in chosen and each != here]
    ended = sum(access.sessions.end(each.handle) is not None for each in found)
    if chosen:
        st.session_state[_ENDED] = ended
