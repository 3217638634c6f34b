"""A warning for the owner if an edit made the settings file invalid. The edit has no effect."""

from __future__ import annotations

import streamlit as st

from specviz.access.roles import Action
from specviz.access.settings import the_settings_file
from specviz.ui.session.person import the_person
from specviz.ui.widgets.plain_text import as_text


def show_settings_notice() -> None:
    """Draw a warning for the owner; for everybody else, draw nothing."""
    notice = the_settings_file().notice
    if notice and the_person().may(Action.MANAGE):
        st.warning(as_text(notice))
