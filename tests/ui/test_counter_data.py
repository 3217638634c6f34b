"""The data of the counter board: large numbers, bars, points and notes."""

from __future__ import annotations

from typing import Any

from specviz.errors import ServerError
from specviz.record.server_run import Counters
from specviz.servers.counter_poller import CounterHistory, history_of
from specviz.servers.counters import rates
from specviz.ui.servers.counter_data import board_data

BEFORE = Counters(at=0.0, drafts=100, drafted=400, accepted=200, accepted_at=(90, 60, 50))
AFTER = Counters(at=10.0, drafts=110, drafted=440, accepted=230, accepted_at=(100, 70, 60, 0))


def board(seen: CounterHistory, *, start: int = 0, live: bool = True) -> dict[str, Any]:
    return board_data(seen, name="it", start=start, live=live, recent="of late", began="in all")


def shown(data: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {each["id"]: (each["shown"], each["note"]) for each in data["figures"]}


def test_figures_are_recent_and_notes_are_totals() -> None:
    data = board(history_of((BEFORE, AFTER)))
    assert shown(data) == {
        "tau": ("4.00", "3.09 in all"),
        "rate": ("75.0 %", "52.3 % in all"),
        "drafted": ("4.0", "440 in all"),
        "accepted": ("3.0", "230 in all"),
        "generated": ("–", "– in all"),
    }
    assert data["alphas"][0] == {"recent": 1.0, "began": 0.9091}
    assert data["alphas"][3] == {"recent": 0.0, "began": 0.0}
    assert data["points"]["items"][1]["tau"] == 4.0


def test_one_reading_has_totals_and_no_rates() -> None:
    data = board(history_of((AFTER,)), live=False)
    assert shown(data)["tau"] == ("3.09", "in all")
    assert shown(data)["drafted"] == ("440", "in all")
    assert data["alphas"][0] == {"recent": 0.9091, "began": None}


def test_sends_points_from_the_requested_one() -> None:
    seen = CounterHistory(first=5, points=history_of((BEFORE, AFTER)).points, last=AFTER)
    assert board(seen, start=6)["points"] == {
        "first": 5, "from": 6, "total": 7,
        "items": [{"at": 10.0, "tau": 4.0, "drafted": 4.0, "accepted": 3.0, "anew": False}],
    }  # fmt: skip
    assert len(board(seen, start=0)["points"]["items"]) == 2  # older points are dropped


def test_notes_report_errors_and_restarts() -> None:
    failure = ServerError("It cannot be reached.", remedy="Start it.")
    seen = CounterHistory(last=Counters(at=0.0, drafts=0.0), restarts=2, error=failure)
    assert board(seen)["notes"] == [
        "It cannot be reached. Start it. The figures below are from the last successful reading.",
        "The counters were reset 2 times: the engine was restarted.",
        "The engine has drafted nothing yet.",
    ]
    assert rates(AFTER, BEFORE) is None
