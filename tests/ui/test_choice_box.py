"""A choice made while the page replaces its control is kept, and no report counts as a choice."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Selectbox

from tests.ui.paging import sound


def draw() -> None:
    """Draw a control; the labels and the default can change at any time."""
    import streamlit as st

    from specviz.ui.widgets.choice_box import choice_box

    kept = st.session_state
    kept.setdefault("taken", [])
    words = kept.get("words", "known")
    labels = {each: f"{each} · {words}" for each in ("small", "other", "none")}
    value = kept["taken"][-1] if kept["taken"] else kept.get("default", "small")
    choice_box("draft", "Draft", labels, value, kept["taken"].append)


def opened() -> AppTest:
    return sound(AppTest.from_function(draw, default_timeout=60).run())


def shown(app: AppTest) -> Selectbox:
    (box,) = app.selectbox
    return box


def report(app: AppTest, *older: Selectbox) -> AppTest:
    """Run the page as for a message of a browser that still has older controls."""
    states = app._tree.get_widget_states()
    states.widgets.extend(each._widget_state for each in older)
    return sound(app._run(states))


def test_a_choice_in_a_control_that_was_just_replaced_is_kept() -> None:
    app = opened()
    first = shown(app)
    app.session_state["words"] = "compared"
    sound(app.run())
    second = shown(app)
    assert second.key != first.key
    report(app, first.set_value("none"))  # chosen before the browser had the second control
    assert shown(app).value == "none"
    report(app, second.set_value("small"))  # sent before the browser had the third
    assert app.session_state["taken"] == ["none"]
    assert shown(app).value == "none"
    assert shown(app).options[-1] == "none · compared"


def test_the_report_of_a_replaced_control_is_no_choice() -> None:
    app = opened()
    first = shown(app)
    app.session_state["default"] = "other"
    sound(app.run())
    report(app, first.set_value("small"))
    assert app.session_state["taken"] == []
    assert shown(app).value == "other"


def test_a_control_remains_while_only_the_user_changes_it() -> None:
    app = opened()
    key = shown(app).key
    for value in ("none", "small", "none"):
        sound(shown(app).set_value(value).run())
        assert (shown(app).key, shown(app).value) == (key, value)
    assert app.session_state["taken"] == ["none", "small", "none"]
