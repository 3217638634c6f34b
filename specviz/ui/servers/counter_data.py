"""The numbers and texts on the board that draws an engine's counters."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from specviz.figures.server_figures import metrics_of_counters
from specviz.record.numbers import PERCENT, RATE, TOKENS, UNKNOWN
from specviz.record.server_run import Counters
from specviz.servers.counter_poller import CounterHistory, Point
from specviz.servers.counters import Rates

_DIGITS = 4


def board_data(
    seen: CounterHistory, *, name: str, start: int, live: bool, recent: str, began: str
) -> dict[str, Any]:
    """Return the board's data, with points from index ``start`` on.

    Args:
        live: Whether the counters are read from a running engine, not from a file.
        recent: Label of the recent values, which are drawn as bars.
        began: Label of the values since the engine's start, which are drawn as marks.
    """
    start = max(start, seen.first)
    return {
        "id": name,
        "live": live,
        "points": {
            "first": seen.first,
            "from": start,
            "items": [_point(each) for each in seen.points[start - seen.first :]],
            "total": seen.total,
        },
        "alphas": _alphas(seen, live=live),
        "legend": {"recent": recent, "began": began},
        "figures": _figures(seen, began=began),
        "notes": _notes(seen),
    }


def _point(point: Point) -> dict[str, Any]:
    rates = point.rates or Rates(seconds=0.0)
    return {
        "at": round(point.at, 2),
        "tau": _short(rates.accepted_length),
        "drafted": _short(rates.drafted_per_second),
        "accepted": _short(rates.accepted_per_second),
        "anew": point.restarted,
    }


def _alphas(seen: CounterHistory, *, live: bool) -> list[dict[str, float | None]]:
    """Return α by position, for the last minute and for the time since the engine's start.

    The keys are "recent" and "began". For a file, "began" is None, and "recent" is the only α.
    """
    ever = metrics_of_counters(seen.last).alpha_by_position if seen.last else ()
    late = seen.recent.alpha_by_position if seen.recent else ()
    if not live:
        return [{"recent": _short(each), "began": None} for each in late or ever]
    both = zip_longest(late, ever)
    return [{"recent": _short(recent), "began": _short(total)} for recent, total in both]


def _figures(seen: CounterHistory, *, began: str) -> list[dict[str, str]]:
    """Return the numbers on the board: recent values, with values since engine start as notes.

    Until there are recent values, the board shows the values since the start instead.
    """
    ever = metrics_of_counters(seen.last or Counters(at=0.0))
    share, tau = PERCENT.shown(ever.draft_acceptance_rate), TOKENS.shown(ever.tau)
    drafted, accepted = _count(ever.num_drafted), _count(ever.num_accepted)
    generated = _count(seen.last and seen.last.generated)
    late = seen.recent
    if late is None:  # no recent values yet: a rate needs two readings
        rows = [
            ("tau", "Tokens per round, τ", tau, ""),
            ("rate", "Draft acceptance rate", share, ""),
            ("drafted", "Drafted", drafted, ""),
            ("accepted", "Accepted", accepted, ""),
            ("generated", "Tokens", generated, ""),
        ]
    else:
        rows = [
            ("tau", "Tokens per round, τ", TOKENS.shown(late.accepted_length), tau),
            ("rate", "Draft acceptance rate", PERCENT.shown(late.draft_acceptance_rate), share),
            ("drafted", "Drafted per second", _rate(late.drafted_per_second), drafted),
            ("accepted", "Accepted per second", _rate(late.accepted_per_second), accepted),
            ("generated", "Tokens per second", _rate(late.generated_per_second), generated),
        ]
    return [
        {"id": name, "label": label, "shown": shown, "note": f"{total} {began}".strip()}
        for name, label, shown, total in rows
    ]


def _rate(value: float | None) -> str:
    return RATE.shown(value)


def _count(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}"


def _notes(seen: CounterHistory) -> list[str]:
    notes = []
    if seen.error is not None:
        notes.append(f"{seen.error} The figures below are from the last successful reading.")
    if seen.restarts:
        times = "once" if seen.restarts == 1 else f"{seen.restarts} times"
        notes.append(f"The counters were reset {times}: the engine was restarted.")
    if seen.last is not None:
        notes += seen.last.notices
        if not seen.last.drafts:
            notes.append("The engine has drafted nothing yet.")
    return notes


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)
