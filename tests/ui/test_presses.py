"""A button press survives the script run that received it."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest


def _page() -> None:
    import streamlit as st

    from specviz.ui.session.presses import press_button, take_press

    if st.session_state.get("go") and "ended" not in st.session_state:
        st.session_state["ended"] = True
        st.rerun()  # as a fragment's timer may do at the same time
    taken = take_press("go")
    st.text(f"taken {taken}, of this script {st.session_state.get('go', False)}")
    press_button("Go", key="go")


def test_a_press_survives_a_script_that_ends_before_handling_it() -> None:
    page = AppTest.from_function(_page).run()
    page.button(key="go").click().run()
    assert "ended" in page.session_state
    assert page.text[0].value == "taken True, of this script False"
    assert page.run().text[0].value == "taken False, of this script False"
