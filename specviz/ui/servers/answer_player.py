"""The player of Watch for an answer of a serving engine, updated as rounds arrive.

Updates end when the answer is finished. The player shows the previous answer until
the first piece of the newest answer arrives.
"""

from __future__ import annotations

import streamlit as st

from specviz.player.payload import RunStatus
from specviz.player.server_payload import server_payload
from specviz.ui.session.answers import AnswerRun, Answers
from specviz.ui.session.redraw import redraw_while_busy
from specviz.ui.widgets.player import requested_rounds, show_player

_KEY = "server_player"
_TICK = 0.25  # seconds; with half of this, the browser drops updates


def show_answer(answers: Answers) -> None:
    """Draw the player and keep it up to date."""

    def read() -> AnswerRun | None:
        return answers.current

    def busy(run: AnswerRun | None) -> str:
        return run.id if run is not None and not run.finished else ""

    redraw_while_busy(read(), read, busy, lambda run: _draw(answers, run), seconds=_TICK)


def _draw(answers: Answers, newest: AnswerRun | None) -> None:
    if newest is None:
        return
    over = newest.finished  # read before the rounds: if True, the rounds are complete
    shown = answers.shown()
    if shown is None:
        st.caption(_waiting_text(over=over))
        return
    trace = shown.trace
    growing = not over and shown is newest
    start = answers.sent_rounds.next_start(shown.id, len(trace.rounds), requested_rounds(_KEY))
    status = _status(shown, newest, over=over)
    show_player(server_payload(trace, status, start=start, growing=growing), key=_KEY)


def _waiting_text(*, over: bool) -> str:
    return "The answer is empty." if over else "Waiting for the engine's answer."


def _status(shown: AnswerRun, newest: AnswerRun, *, over: bool) -> RunStatus:
    is_newest = shown is newest
    state = _state(newest, over=over)
    word = {"running": "live", "queued": "waiting"}.get(state, state)
    waiting = not is_newest and not over
    return RunStatus(
        id=shown.id,
        state=state,
        label=f"{word} · {newest.trace.info.title} · {newest.trace.info.model}",
        detail=newest.error.culprit if newest.error else "",
        remedy=newest.error.remedy if newest.error else "",
        sentence=None if is_newest else _sentence_for_previous(over=over),
        decoded=over,
        waiting=waiting,
    )


def _state(run: AnswerRun, *, over: bool) -> str:
    if run.error is not None:
        return "failed"
    trace = run.trace
    if not over:
        return "running" if trace.rounds else "queued"
    return "stopped" if trace.finish == "stopped" else "done"


def _sentence_for_previous(*, over: bool) -> str:
    if over:
        return "The answer is empty. The previous answer is below."
    return "Waiting for the first piece. The previous answer is below."
