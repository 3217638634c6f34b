"""The figures of one answer of a serving engine. What the engine keeps to itself is None."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from specviz.record.server_run import ServerRound, ServerTrace
from specviz.record.trace import CutReason


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerMetrics:
    """Counts are the engine's own totals where it tells them, else sums over its rounds."""

    num_tokens: int
    num_rounds: int | None
    num_drafted: int | None
    num_accepted: int | None
    draft_acceptance_rate: float | None  # accepted / drafted
    tau: float | None  # tokens a round, over whole rounds
    alpha_by_position: tuple[float | None, ...]  # accepted / tested at each position of a round
    tokens_per_second: float | None  # of decoding: after the first piece
    ttft: float | None  # seconds from the request to the first piece


def server_metrics(trace: ServerTrace) -> ServerMetrics:
    totals, told = trace.totals, told_rounds(trace)
    rounds = totals.rounds if totals.rounds is not None else len(own_rounds(trace)) or None
    drafted = totals.drafted if totals.drafted is not None else _sum(drafts_of(told))
    accepted = totals.accepted if totals.accepted is not None else _sum(accepted_of(told))
    return ServerMetrics(
        num_tokens=trace.num_tokens,
        num_rounds=rounds,
        num_drafted=drafted,
        num_accepted=accepted,
        draft_acceptance_rate=accepted / drafted if drafted and accepted is not None else None,
        tau=_tau(whole_rounds(trace)),
        alpha_by_position=_alpha_by_position(told),
        tokens_per_second=_rate(trace.rounds),
        ttft=trace.rounds[0].at if trace.rounds else None,
    )


def told_rounds(trace: ServerTrace) -> tuple[ServerRound, ...]:
    """The rounds of which the engine told how many candidates it drafted and accepted."""
    return tuple(each for each in trace.rounds if is_told(each))


def is_told(entry: ServerRound) -> bool:
    return entry.drafted is not None and entry.accepted is not None


def own_rounds(trace: ServerTrace) -> tuple[ServerRound, ...]:
    """Pieces that are rounds: not where none are told, and without tokens that came with none."""
    if trace.grounds == "none":
        return ()
    return told_rounds(trace) or trace.rounds


def cut_of(trace: ServerTrace, entry: ServerRound) -> CutReason | None:
    """Why a round gave fewer tokens than it accepted and one; None for a whole round."""
    short = entry.accepted is not None and entry.num_tokens < entry.accepted + 1
    return reason if short and (reason := _reason(trace)) else None


def whole_rounds(trace: ServerTrace) -> tuple[ServerRound, ...]:
    """The last one counts where the engine told that it was not cut short."""
    rounds = own_rounds(trace)
    if not rounds:
        return ()
    last = rounds[-1]
    is_whole = trace.grounds == "told" and last.num_tokens == (last.accepted or 0) + 1
    return rounds if is_whole else rounds[:-1]


def drafts_of(rounds: Sequence[ServerRound]) -> list[int]:
    return [each.drafted for each in rounds if each.drafted is not None]


def accepted_of(rounds: Sequence[ServerRound]) -> list[int]:
    return [each.accepted for each in rounds if each.accepted is not None]


def _reason(trace: ServerTrace) -> CutReason | None:
    found = trace.finish
    return None if found == "stopped" or found not in get_args(CutReason) else found


def _sum(counts: Sequence[int]) -> int | None:
    return sum(counts) if counts else None


def _tau(rounds: Sequence[ServerRound]) -> float | None:
    return sum(each.num_tokens for each in rounds) / len(rounds) if rounds else None


def _alpha_by_position(rounds: Sequence[ServerRound]) -> tuple[float | None, ...]:
    """A candidate is tested if it was drafted and all before it were accepted."""
    counts = list(zip(drafts_of(rounds), accepted_of(rounds), strict=True))
    places = range(max((drafted for drafted, _ in counts), default=0))
    return tuple(_alpha_at(counts, place) for place in places)


def _alpha_at(counts: Sequence[tuple[int, int]], place: int) -> float | None:
    tested = [accepted for drafted, accepted in counts if drafted > place <= accepted]
    return sum(each > place for each in tested) / len(tested) if tested else None


def _rate(rounds: Sequence[ServerRound]) -> float | None:
    seconds = rounds[-1].at - rounds[0].at if rounds else 0.0
    tokens = sum(each.num_tokens for each in rounds[1:])
    return tokens / seconds if seconds > 0 and tokens else None
