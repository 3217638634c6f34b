"""What the board of counters is sent: numbers for its drawings, and words that are written here."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from specviz.figures.server_figures import metrics_of_counters
from specviz.record.numbers import PERCENT, RATE, TOKENS, UNKNOWN
from specviz.record.server_run import Counters
from specviz.servers.counter_poller import Point, Seen
from specviz.servers.counters import Rates

_DIGITS = 4


def board_data(
    seen: Seen, *, name: str, start: int, live: bool, recent: str, began: str
) -> dict[str, Any]:
    """Points from number ``start`` on. ``recent``: what the bars are of, ``began``: their marks."""
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
    told = point.rates or Rates(seconds=0.0)
    return {
        "at": round(point.at, 2),
        "tau": _short(told.accepted_length),
        "drafted": _short(told.drafted_per_second),
        "accepted": _short(told.accepted_per_second),
        "anew": point.anew,
    }


def _alphas(seen: Seen, *, live: bool) -> list[dict[str, float | None]]:
    """By position: of late, and since the engine began; of what was saved, one of them."""
    ever = metrics_of_counters(seen.last).alpha_by_position if seen.last else ()
    late = seen.recent.alpha_by_position if seen.recent else ()
    if not live:
        return [{"recent": _short(each), "began": None} for each in late or ever]
    both = zip_longest(late, ever)
    return [{"recent": _short(one), "began": _short(all_of_it)} for one, all_of_it in both]


def _figures(seen: Seen, *, began: str) -> list[dict[str, str]]:
    """Large: of late. Beside it, small: what was counted since the engine began."""
    ever = metrics_of_counters(seen.last or Counters(at=0.0))
    share, tau = PERCENT.shown(ever.draft_acceptance_rate), TOKENS.shown(ever.tau)
    drafted, accepted = _count(ever.num_drafted), _count(ever.num_accepted)
    generated = _count(seen.last and seen.last.generated)
    late = seen.recent
    if late is None:  # there is nothing to compare with
        rows = [
            ("tau", "Tokens a round, τ", tau, ""),
            ("rate", "Draft acceptance rate", share, ""),
            ("drafted", "Drafted", drafted, ""),
            ("accepted", "Accepted", accepted, ""),
            ("generated", "Tokens", generated, ""),
        ]
    else:
        rows = [
            ("tau", "Tokens a round, τ", TOKENS.shown(late.accepted_length), tau),
            ("rate", "Draft acceptance rate", PERCENT.shown(late.draft_acceptance_rate), share),
            ("drafted", "Drafted a second", _rate(late.drafted_per_second), drafted),
            ("accepted", "Accepted a second", _rate(late.accepted_per_second), accepted),
            ("generated", "Tokens a second", _rate(late.generated_per_second), generated),
        ]
    return [
        {"id": name, "label": label, "shown": shown, "note": f"{all_of_it} {began}".strip()}
        for name, label, shown, all_of_it in rows
    ]


def _rate(value: float | None) -> str:
    return RATE.shown(value)


def _count(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}"


def _notes(seen: Seen) -> list[str]:
    notes = []
    if seen.error is not None:
        notes.append(f"{seen.error} The figures below were read before.")
    if seen.anew:
        times = "once" if seen.anew == 1 else f"{seen.anew} times"
        notes.append(f"The counters went back {times}: the engine was restarted.")
    if seen.last is not None:
        notes += seen.last.notices
        if not seen.last.drafts:
            notes.append("It has drafted nothing yet.")
    return notes


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)
