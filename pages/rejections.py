"""Rejections: their exact expected number, and what reduces it."""

import streamlit as st

from specviz.errors import TheoryError
from specviz.ui.shell import require_shell
from specviz.ui.theory.rejections.measured import show_measured_drafts
from specviz.ui.theory.rejections.sections import (
    choose_setting,
    rejections_sentence,
    show_bound,
    show_one_draft,
    show_one_place,
    show_several_drafts,
)
from specviz.ui.widgets.page_parts import show_heading, show_reference
from specviz.ui.widgets.plain_text import show_error

require_shell()

show_heading(
    "Rejections",
    "Each rejection costs a target pass. Their expected number can be computed exactly.",
)
chosen = choose_setting()
try:
    st.markdown(rejections_sentence(chosen))
    one, several, measured, place, bound = st.tabs(
        ["One draft", "Several drafts", "On the real pair", "At one place", "The bound"],
        key="rejections_tab",
        bind="query-params",
    )
    if one.open:
        with one:
            show_one_draft(chosen)
    if several.open:
        with several:
            show_several_drafts(chosen)
    if measured.open:
        with measured:
            show_measured_drafts()
    if place.open:
        with place:
            show_one_place()
    if bound.open:
        with bound:
            show_bound(chosen)
except TheoryError as problem:
    show_error(problem)
st.caption(
    "p is the draft and q the target, as in Yin et al. 2024; in Leviathan et al. 2023 they are "
    "swapped."
)
show_reference()
