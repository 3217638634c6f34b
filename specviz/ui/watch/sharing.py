"""Downloads of the shown run, and a link to the settings."""

from __future__ import annotations

from urllib.parse import quote, urlencode, urlsplit, urlunsplit

import streamlit as st

from specviz.player.payload import RunLink
from specviz.player.replay import replay_html
from specviz.record.bodies import NO_BODY
from specviz.record.pairs import spec_of
from specviz.record.trace import Trace
from specviz.ui.access import reachable_by_others
from specviz.ui.session.history import RECORDED, History, ShownRun
from specviz.ui.session.moments import MOMENT
from specviz.ui.session.run_saving import is_worth_saving, the_run_saver
from specviz.ui.session.tabs import TAB_LINK
from specviz.ui.widgets.pair_boxes import (
    BODY_BOXES,
    PAIR_BOXES,
    TARGET_BODY,
    bodies_are_chosen,
    shown_pair,
)
from specviz.ui.widgets.run_controls import linked_settings, unsupported_settings
from specviz.ui.widgets.run_files import offer_run_files

# Query parameters that are not settings of a run.
_LEFT_OUT = {"prompt", "tour", "present", "more", "pair_panel", "run", TAB_LINK, *MOMENT}


def show_downloads(history: History) -> None:
    """Draw download buttons for the shown run, disabled while a run is in progress.

    The player determines where in the run a downloaded replay opens.
    """
    answer = history.opened_answer
    if answer is not None:
        offer_run_files(
            answer.trace, answer.id, key="download",
            replay=lambda: replay_html(
                answer.trace, name=answer.name, moment=history.moment_of(answer.id)
            ),
            shown_at=history.moment_of(answer.id),
        )  # fmt: skip
        return
    shown, run = history.shown(), history.current

    def replay() -> str:
        return replay_html(
            shown.trace, shown.figures, shown.own_speedup, name=shown.name or "",
            forked=shown.forked, moment=history.moment_of(shown.id),
        )  # fmt: skip

    growing = shown.growing or not (run is None or run.finished)
    shown_at = (shown.own_speedup, shown.forked, history.moment_of(shown.id))
    offer_run_files(
        shown.trace, shown.id, replay, key="download", shown_at=shown_at, disabled=growing
    )


def show_share(prompt: str) -> None:
    """Draw the Share menu. The link contains every setting, but the prompt only on request."""
    with st.popover("Share", key="share"):
        st.caption("This link opens the page with the same settings. It does not load a model.")
        with_prompt = st.toggle("Include the prompt", key="share_prompt")
        st.code(_link(prompt if with_prompt else None), language=None, wrap_lines=True)


def link_of(shown: ShownRun, history: History) -> RunLink | None:
    """Return the data from which the player makes a link to the run; None for the recorded run."""
    if shown.id == RECORDED:
        return None
    own = next((each for each in history.runs if each.id == shown.id), None)
    kept = shown.name is not None or own is None or (own.finished and is_worth_saving(own))
    return RunLink(
        kept=kept and the_run_saver().failure is None,
        settings=_settings_of(shown.trace),
        local=is_local(),
        heard=history.handled.get("moment"),
    )


def is_local() -> bool:
    """Return whether only this machine can reach the server."""
    return not reachable_by_others()


def _settings_of(trace: Trace) -> str | None:
    """Return the query that sets the controls to the run's settings.

    Return None if the controls do not support these settings, or if they name other models.
    """
    pair, made = shown_pair(), spec_of(trace.pair)
    if unsupported_settings(trace.config) or pair is None or pair.models != made.models:
        return None
    bodies = (trace.pair.target, trace.pair.draft)
    named = [model.body.name if model and model.body else NO_BODY for model in bodies]
    values = {
        **{name: each for name, each in st.query_params.items() if name in PAIR_BOXES},
        "shared_vocabulary": str(made.shared_vocabulary).lower(),
        "other_target": str(made.other_target).lower(),
        "target_weights": made.target_weights,
        "draft_weights": made.draft_weights,
        **dict(zip(BODY_BOXES, named, strict=True)),
        **linked_settings(trace.config),
        "prompt": trace.prompt.text,
    }
    return urlencode(values, quote_via=quote)


def _link(prompt: str | None) -> str:
    parts = urlsplit(str(st.context.url or ""))
    settings = [
        f"{quote(name)}={quote(value)}"
        for name, value in st.query_params.items()
        if name not in _LEFT_OUT
    ]
    if not bodies_are_chosen():  # otherwise the linked page would offer a default body
        settings.append(f"{TARGET_BODY}={NO_BODY}")
    if prompt is not None:
        settings.append(f"prompt={quote(prompt)}")
    path = parts.path or "/"
    return urlunsplit((parts.scheme, parts.netloc, path, "&".join(settings), ""))
