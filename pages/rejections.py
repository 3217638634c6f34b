"""Rejections: the exact expected number of rejections, and what reduces it."""

from functools import partial

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
from specviz.ui.widgets.page_parts import show_heading, show_letters, show_reference, show_tabs
from specviz.ui.widgets.plain_text import show_error
from specviz.ui.widgets.symbols import show_sentence

require_shell()

show_heading(
    "Rejections",
    "Each rejection costs a target pass. For two small random models, the expected number of "
    "rejections can be computed exactly.",
)
chosen = choose_setting()
try:
    show_sentence(rejections_sentence(chosen))
    show_tabs(
        "rejections_tab",
        {
            "One draft": partial(show_one_draft, chosen),
            "Several drafts": partial(show_several_drafts, chosen),
            "On the real pair": show_measured_drafts,
            "At one place": show_one_place,
            "The bound": partial(show_bound, chosen),
        },
    )
except TheoryError as problem:
    show_error(problem)
show_letters()
show_reference()
