"""Long runs with real rounds: the recorded run repeated."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from specviz.record.trace import Round, Trace
from specviz.store import load_trace

FED_RATE = 32  # rounds per second
FED_REPEATS = 6

_RECORDED = Path(__file__).parent.parent.parent / "assets" / "first_trace.json"


@cache
def recorded() -> Trace:
    return load_trace(_RECORDED)


def fed_run() -> Trace:
    """Return the run that the live page is fed with."""
    return repeated(recorded(), FED_REPEATS)


def repeated(trace: Trace, times: int) -> Trace:
    return replace(
        trace,
        rounds=_renumbered(trace.rounds * times, len(trace.prompt.token_ids)),
        text=trace.text * times,
        odds=trace.odds * times,
    )


def events_of(entry: Round) -> int:
    """Return the number of the player's events in a round."""
    fading = entry.num_tested < entry.num_drafted
    return entry.num_drafted + 1 + entry.num_tested + fading + (entry.extra is not None)


def _renumbered(rounds: tuple[Round, ...], context: int) -> tuple[Round, ...]:
    laid: list[Round] = []
    for index, entry in enumerate(rounds):
        laid.append(replace(entry, index=index, context_length=context))
        context += len(entry.emitted)
    return tuple(laid)
