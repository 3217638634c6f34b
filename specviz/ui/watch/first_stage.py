"""The first view of Watch, before Streamlit has drawn it: the heading and the recorded run."""

from __future__ import annotations

import json
from functools import cache
from html import escape

from specviz.access.demo import is_demo
from specviz.installation import DISTRIBUTION
from specviz.player.any_run import payload_of_run
from specviz.player.player_source import first_stage_source
from specviz.ui.session.history import RECORDED, recorded_run
from specviz.ui.watch.run_player import recorded_label

TITLE = "Watch a pair think ahead"
INSTALL = f"pip install '{DISTRIBUTION}[run]'"
DEMO_WORDS = f"This is a demo: runs are recorded. To run your own: `{INSTALL}`"
RECORDING_LINK = "recording"  # query parameter of another recorded run
CAPTION = "A small model drafts a few tokens; a large model checks them all in one pass."


def _as_html(words: str) -> str:
    """Return text as HTML. The text must contain one command in backticks."""
    before, command, after = escape(words).split("`")
    return f"{before}<code>{command}</code>{after}"


@cache
def first_stage_head() -> str:
    return f"<style>{first_stage_source()[1]}</style>\n"


@cache
def first_stage_body() -> str:
    shown = recorded_run()
    run = payload_of_run(
        shown.trace,
        run_id=RECORDED,
        state="recorded",
        label=recorded_label(shown.trace),
        figures=shown.figures,
    )
    note = f'<p class="note">{_as_html(DEMO_WORDS)}</p>' if is_demo() else ""
    data = json.dumps(run).replace("<", "\\u003c")  # so that it cannot contain markup
    return (
        f'<div id="first-stage"><div>{note}<header><h1>{escape(TITLE)} <small>Guide</small></h1>'
        f'<p class="caption">{escape(CAPTION)}</p></header><main></main></div></div>\n'
        f'<script type="application/json" id="first-run">{data}</script>\n'
        f"<script>{first_stage_source()[0]}</script>\n"
    )
