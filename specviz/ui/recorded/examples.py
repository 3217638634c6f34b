"""The recorded results of the pages that measure: Compare, Tune, Train, Lossless and Servers."""

from __future__ import annotations

from functools import partial

from specviz.ui.compare.example import show_example as show_comparison
from specviz.ui.lossless.sections import show_recorded_audits, show_test, show_zoo
from specviz.ui.servers.example import show_example as show_server_answer
from specviz.ui.servers.load.section import show_recorded_load
from specviz.ui.train.sections import show_example as show_training
from specviz.ui.tune.drafts_section import show_candidates
from specviz.ui.tune.engines_section import show_engines
from specviz.ui.tune.example import show_example as show_tuning
from specviz.ui.tune.surface_section import show_surface
from specviz.ui.tune.text_section import show_text
from specviz.ui.widgets.page_parts import page_head, show_heading, show_tabs


def show_compare() -> None:
    with page_head():
        show_heading(
            "Compare lanes",
            "Two to four lanes run the same prompt in turn. A lane is a pair with its settings.",
        )
    show_tabs(
        "compare_tab",
        {
            "One prompt": partial(show_comparison, "prompt"),
            "By kind": partial(show_comparison, "suite"),
        },
    )


def show_tune() -> None:
    with page_head():
        show_heading(
            "Best γ, draft and method",
            "The target generates text, and both models score it. The scores give each token's "
            "acceptance probability and the expected speedup for each γ (candidates per round).",
        )
    answer = show_tuning()
    show_tabs(
        "tune_tab",
        {
            "Every γ": partial(show_surface, answer, given=False),
            "Which draft?": partial(show_candidates, answer),
            "Along the text": partial(show_text, answer),
            "Your engine": partial(show_engines, answer),
        },
    )


def show_train() -> None:
    with page_head():
        show_heading(
            "Train a draft",
            "The target writes texts, and a draft learns to predict their tokens.",
        )
    show_training()


def show_lossless() -> None:
    with page_head():
        show_heading(
            "Losslessness audit",
            "Speculative decoding must emit tokens with exactly the target's distribution. An "
            "audit tests this on real models, token by token.",
        )
    show_recorded_audits()
    show_test()
    show_zoo((), None, busy=False, drafted=True)


def show_servers() -> None:
    with page_head():
        show_heading("Servers", "Watch the rounds of a serving engine, or measure it under load.")
    show_tabs("servers_tab", {"One answer": show_server_answer, "Under load": show_recorded_load})
