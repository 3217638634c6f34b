"""Periodic redraws read the state once per drawing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest


def page() -> None:
    """The state alternates between reads, as a worker's may while a page is drawn."""
    import itertools

    import streamlit as st

    from specviz.ui.session.redraw import redraw_while_busy

    looks = itertools.cycle([st.session_state["first"], not st.session_state["first"]])
    redraw_while_busy(
        next(looks), lambda: next(looks), bool, lambda busy: st.text(f"busy: {busy}"), seconds=60
    )
    st.session_state["ends"] = st.session_state.get("ends", 0) + 1


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """Record the intervals of created fragments."""
    intervals: list[float | None] = []
    make = st.fragment

    def fragment(*, run_every: float | None) -> Callable[..., Any]:
        intervals.append(run_every)
        return make(run_every=run_every)

    monkeypatch.setattr(st, "fragment", fragment)
    return intervals


@pytest.mark.parametrize(("first", "interval"), [(True, 60), (False, None)])
def test_the_drawn_state_decides_whether_to_redraw(
    ticks: list[float | None], first: bool, interval: float | None
) -> None:
    app = AppTest.from_function(page)
    app.session_state["first"] = first
    app.run()
    assert [each.value for each in app.text] == [f"busy: {first}"]
    assert ticks == [interval]
    assert app.session_state["ends"] == 1, "the script was started over"
