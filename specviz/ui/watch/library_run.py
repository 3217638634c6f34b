"""Open a run from the library on Watch, at the link ``/?run=ID``.

A line above the player says that the run is from the library. If the controls name the run's
models, the sliders show the run's simulated sizes.
"""

from __future__ import annotations

import streamlit as st

from specviz.errors import SpecvizError
from specviz.record.pairs import PairSpec, spec_of
from specviz.record.server_run import ServerTrace
from specviz.record.trace import Trace
from specviz.store import Library
from specviz.ui.session.history import History, ShownAnswer
from specviz.ui.session.moments import forget_linked_moment
from specviz.ui.session.page_library import sees_others
from specviz.ui.session.run_saving import the_library
from specviz.ui.watch.run_without_body import speedup_without_body_kept
from specviz.ui.widgets.pair_boxes import (
    bodies_are_chosen,
    forget_bodies,
    set_bodies,
    shown_pair,
)
from specviz.ui.widgets.plain_text import as_text
from specviz.ui.widgets.run_controls import apply_settings, unsupported_settings
from specviz.values import Value

RUN_LINK = "run"
_SEEN = "opened run"  # the id last read from the link, so that each run is loaded once
_BEFORE = "sizes before the opened run"


class _Before(Value):
    """The simulated sizes before a run was opened, and the pair right after the run was opened."""

    sizes: tuple[str, str] | None  # None if none were chosen yet
    opened: PairSpec | None


def open_linked_run(history: History) -> SpecvizError | None:
    """Open the run that the link names, and return the error if it cannot be opened.

    If the link names no run, show the session's own runs again. A run that the person may no longer
    see is closed. Call this before the controls are drawn.
    """
    wanted = st.query_params.get(RUN_LINK)
    if wanted == st.session_state.get(_SEEN):
        return None if wanted is None or sees_others() else _close_if_hidden(wanted, history)
    st.session_state[_SEEN] = wanted
    _close(history)
    if wanted is None:
        return None
    try:
        library = the_library()
        trace, name = library.open_any(wanted), library.row(wanted).name
        if isinstance(trace, ServerTrace):
            history.opened_answer = ShownAnswer(id=wanted, trace=trace, name=name)
            return None
        own = speedup_without_body_kept(library, trace) if trace.pair.has_bodies else None
        history.open(wanted, name, trace, own, _forked(library, trace))
        _show_sizes(trace)
    except SpecvizError as error:
        return error
    return None


def _close_if_hidden(run_id: str, history: History) -> SpecvizError | None:
    if history.opened is None and history.opened_answer is None:
        return None
    try:
        the_library().row(run_id)
    except SpecvizError as error:
        _close(history)
        return error
    return None


def _forked(library: Library, trace: Trace) -> Trace | None:
    """Return the run from which the run of ``trace`` was forked.

    The result is None if the original run is not in the library or has another prompt.
    """
    of = trace.config.forks[-1].of if trace.config.forks else None
    try:
        other = library.open(of) if of else None
    except SpecvizError:
        return None
    return other if other and other.prompt == trace.prompt else None


def show_library_run(history: History) -> None:
    """Draw a line about the opened run, with a button to close it.

    If no run is open, remove the parameter ``run`` from the link.
    """
    shown = history.opened
    if shown is None and history.opened_answer is None:
        st.session_state.pop(_BEFORE, None)
        if st.query_params.get(RUN_LINK) is not None:
            st.session_state[_SEEN] = None
            del st.query_params[RUN_LINK]
            forget_linked_moment()
        return
    with st.container(horizontal=True, vertical_alignment="center", key="opened"):
        st.caption("This run is from the library. Press Run to start a new run.")
        if shown is not None:
            _offer_settings(shown.trace)
        st.page_link("pages/runs.py", label="All runs")
        st.button("Close", key="close_opened", type="tertiary", on_click=_close, args=(history,))


def _offer_settings(trace: Trace) -> None:
    unsupported = unsupported_settings(trace.config)
    reason = f"The controls do not support this run's {as_text(', '.join(unsupported))}."
    st.button(
        "Use this run's prompt and settings", key="use_opened", type="tertiary",
        disabled=bool(unsupported),
        on_click=apply_settings, args=(trace.prompt.text, trace.config),
        help=reason if unsupported
        else "Sets the controls to this run's settings. The pair does not change.",
    )  # fmt: skip


def _show_sizes(trace: Trace) -> None:
    shown, spec = shown_pair(), spec_of(trace.pair)
    if shown is not None and shown.models == spec.models:
        sizes = (shown.target_body, shown.draft_body) if bodies_are_chosen() else None
        set_bodies(spec.target_body, spec.draft_body)
        st.session_state[_BEFORE] = _Before(sizes=sizes, opened=shown_pair())


def _close(history: History) -> None:
    """Close the opened run. Unless the pair has changed, restore the earlier simulated sizes."""
    history.close()
    before: _Before | None = st.session_state.pop(_BEFORE, None)
    if before is None or before.opened != shown_pair():
        return
    if before.sizes is None:
        forget_bodies()
    else:
        set_bodies(*before.sizes)
