"""Show another engine's answer, opened from the library, in the player of Watch."""

from __future__ import annotations

from specviz.player.payload import RunLink, RunStatus
from specviz.player.server_payload import server_payload
from specviz.record.server_run import AnyTrace
from specviz.ui.session.history import History, ShownAnswer
from specviz.ui.session.moments import linked_moment
from specviz.ui.watch.player_events import handle_moment
from specviz.ui.widgets.player import show_player


def show_answer(shown: ShownAnswer, history: History, key: str, *, local: bool) -> None:
    handle_moment(history, key, shown.id)
    link = RunLink(kept=True, settings=None, local=local, heard=history.handled.get("moment"))
    status = kept_status(shown.trace, shown.id, shown.name, shown.trace.info.title)
    data = server_payload(shown.trace, status, link=link, moment=linked_moment())
    show_player(data, key=key)


def kept_status(trace: AnyTrace, run_id: str, name: str, made_with: str) -> RunStatus:
    """Return the status that the player shows for a saved run.

    ``made_with``: the engine or the pair that made the run.
    """
    when = trace.created.replace("T", " ")[:16]
    return RunStatus(
        id=run_id,
        state="stopped" if trace.finish == "stopped" else "done",
        label=f"kept · {made_with}",
        detail=f"{name} · {when}" if name else when,
    )
