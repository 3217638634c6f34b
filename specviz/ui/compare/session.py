"""Which comparison of the server a tab shows: its own, one that it was led to, else the newest."""

from __future__ import annotations

from typing import Literal

import streamlit as st

from specviz.comparison.comparison_work import ComparisonWork
from specviz.comparison.plan import Plan
from specviz.ui.session.work import LINK, start_comparison, the_work

WorkName = Literal["prompt", "suite"]
NAMES: tuple[WorkName, ...] = ("prompt", "suite")
_SHOWN = "comparisons shown"  # the ids of works, by name
_OWN = "comparisons started"  # the ids of works that this tab started


def take_linked() -> WorkName | None:
    """Show the comparison that the link names; its sort, to open the right tab of the page."""
    work = the_work().find(st.query_params.pop(LINK, None))
    if not isinstance(work, ComparisonWork):
        return None
    st.session_state.setdefault(_SHOWN, {})[work.name] = work.id
    return next((name for name in NAMES if name == work.name), None)


def shown_work(name: WorkName) -> ComparisonWork | None:
    queue = the_work()
    found = queue.find(st.session_state.get(_SHOWN, {}).get(name)) or queue.newest(name)
    return found if isinstance(found, ComparisonWork) else None


def own_work_going() -> ComparisonWork | None:
    """A comparison that this tab started, until it is over."""
    own: set[str] = st.session_state.get(_OWN, set())
    for work in the_work().going:
        if work.id in own and isinstance(work, ComparisonWork):
            return work
    return None


def start(name: WorkName, plan: Plan, *, fresh: bool) -> None:
    work = start_comparison(name, plan, fresh=fresh)
    st.session_state.setdefault(_SHOWN, {})[name] = work.id
    st.session_state.setdefault(_OWN, set()).add(work.id)
