"""An answer of another engine on Watch, opened from the library: the player and downloads."""

from __future__ import annotations

from specviz.player.payload import RunLink, RunStatus
from specviz.player.server_payload import server_payload
from specviz.ui.session.history import History, ShownAnswer
from specviz.ui.session.moments import linked_moment
from specviz.ui.watch.player_events import handle_moment
from specviz.ui.widgets.answer_files import offer_answer_files
from specviz.ui.widgets.player import show_player


def show_answer(shown: ShownAnswer, history: History, key: str, *, local: bool) -> None:
    handle_moment(history, key, shown.id)
    link = RunLink(kept=True, settings=None, local=local, heard=history.handled.get("moment"))
    data = server_payload(shown.trace, _status(shown), link=link, moment=linked_moment())
    show_player(data, key=key)


def _status(shown: ShownAnswer) -> RunStatus:
    trace = shown.trace
    when = trace.created.replace("T", " ")[:16]
    return RunStatus(
        id=shown.id,
        state="stopped" if trace.finish == "stopped" else "done",
        label=f"kept · {trace.info.title}",
        detail=f"{shown.name} · {when}" if shown.name else when,
    )


def show_answer_files(shown: ShownAnswer, history: History) -> None:
    """Draw the download buttons. The replay opens at the moment the player requested last."""
    offer_answer_files(
        shown.trace, shown.id, key="download", moment=lambda: history.moment_of(shown.id)
    )
