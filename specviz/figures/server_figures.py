"""Compute the figures of a serving engine's answers. Unreported values are None."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean
from typing import ClassVar, get_args

from specviz.figures.arithmetic import known_ratio, milliseconds
from specviz.figures.metrics import Metrics, metrics
from specviz.record.server_run import (
    AnyTrace,
    Counters,
    ServerRound,
    ServerTrace,
    alpha_by_position,
    dispatch,
)
from specviz.record.trace import CutReason
from specviz.values import Value


class ServerMetrics(Value):
    """The figures of one or more answers of a serving engine.

    A count is the total that the engine reports. If the engine reports no total, the count is the
    sum over the rounds.
    """

    num_tokens: int
    num_rounds: int | None
    num_drafted: int | None
    num_accepted: int | None
    draft_acceptance_rate: float | None  # accepted / drafted
    tau: float | None  # tokens per round, over whole rounds
    alpha_by_position: tuple[float | None, ...]  # accepted here / accepted at the position before
    tokens_per_second: float | None  # while decoding, after the first chunk
    ttft: float | None  # seconds from the request to the first chunk

    # Figures of our own runs; no engine reports what they need.
    alpha_observed: ClassVar[None] = None
    alpha_expected: ClassVar[None] = None

    @property
    def ttft_ms(self) -> float | None:
        return milliseconds(self.ttft)


def figures_of(trace: AnyTrace) -> Metrics | ServerMetrics:
    """Return the figures of a specviz run or of an engine's answer, without intervals of α."""
    return dispatch(trace, partial(metrics, intervals=False), server_metrics)


def server_metrics(trace: ServerTrace) -> ServerMetrics:
    return pooled_metrics([trace])


def pooled_metrics(traces: Sequence[ServerTrace]) -> ServerMetrics:
    """Return the figures over all rounds of several answers.

    Tokens per second are all tokens divided by all seconds. The time to the first chunk is the mean
    over the answers. A count is None if one answer lacks it.
    """
    reported = [entry for each in traces for entry in reported_rounds(each)]
    whole = [entry for each in traces for entry in whole_rounds(each)]
    drafted, accepted = _total(traces, _num_drafted), _total(traces, _num_accepted)
    firsts = [each.rounds[0].at for each in traces if each.rounds]
    return ServerMetrics(
        num_tokens=sum(each.num_tokens for each in traces),
        num_rounds=_total(traces, _num_rounds),
        num_drafted=drafted,
        num_accepted=accepted,
        draft_acceptance_rate=known_ratio(accepted, drafted),
        tau=_tau(whole),
        alpha_by_position=_alpha_by_position(reported),
        tokens_per_second=_rate(traces),
        ttft=fmean(firsts) if firsts else None,
    )


def metrics_of_counters(found: Counters) -> ServerMetrics:
    """Return the figures over all requests that an engine served, from its counters.

    τ, the tokens per round, includes the recovered or bonus token.
    """
    rounds, drafted, accepted = found.drafts, found.drafted, found.accepted
    tau = accepted / rounds + 1 if rounds and accepted is not None else None
    return ServerMetrics(
        num_tokens=_whole(found.generated) or 0,
        num_rounds=_whole(rounds),
        num_drafted=_whole(drafted),
        num_accepted=_whole(accepted),
        draft_acceptance_rate=known_ratio(accepted, drafted),
        tau=tau,
        alpha_by_position=alpha_by_position(found.accepted_at, rounds) if rounds else (),
        tokens_per_second=None,
        ttft=None,
    )


def reported_rounds(trace: ServerTrace) -> tuple[ServerRound, ...]:
    """Return the rounds with reported numbers of drafted and accepted candidates."""
    return tuple(each for each in trace.rounds if is_reported(each))


def is_reported(entry: ServerRound) -> bool:
    return entry.drafted is not None and entry.accepted is not None


def own_rounds(trace: ServerTrace) -> tuple[ServerRound, ...]:
    """Return the chunks that are rounds; empty if the engine reports no rounds."""
    return () if trace.grounds == "none" else tuple(filter(is_round, trace.rounds))


def is_round(chunk: ServerRound) -> bool:
    """Return whether a chunk is a round, and not a step without drafts.

    The pass over the prompt, which emits the first token, is a step without drafts.
    """
    return chunk.accepted is not None


def cut_of(trace: ServerTrace, entry: ServerRound) -> CutReason | None:
    """Return what ended a round early (cut it); None for a whole round.

    The result is also None if the engine does not report the accepted candidates.

    A round is cut if it emitted fewer tokens than its accepted candidates plus one. If the length
    limit left fewer than γ + 1 tokens, a round counts as cut, whatever it emitted.
    """
    if entry.accepted is None:
        return None
    if not _fits_limit(trace, entry):
        return "length"
    return _reason(trace) if entry.num_tokens < entry.accepted + 1 else None


def whole_rounds(trace: ServerTrace) -> tuple[ServerRound, ...]:
    """Return an answer's rounds, without the last round if the end of the answer cut it short.

    The last chunk is included only if the engine reports every step and the chunk has all its
    tokens. Other engines report only totals. These totals may leave out candidates after the end of
    the answer, so a cut last round could look whole.
    """
    last = trace.rounds[-1] if trace.rounds else None
    return tuple(
        each
        for each in own_rounds(trace)
        if _fits_limit(trace, each) and (each is not last or _is_reported_whole(trace, each))
    )


def _is_reported_whole(trace: ServerTrace, entry: ServerRound) -> bool:
    return trace.grounds == "told" and entry.num_tokens == (entry.accepted or 0) + 1


def _fits_limit(trace: ServerTrace, entry: ServerRound) -> bool:
    """Return whether the length limit allowed γ + 1 tokens when the round began."""
    gamma = max(drafts_of(trace.rounds), default=trace.info.gamma or 0)
    before = sum(each.num_tokens for each in trace.rounds[: entry.index])
    return before + gamma + 1 <= trace.settings.max_new_tokens


def drafts_of(rounds: Sequence[ServerRound]) -> list[int]:
    return [each.drafted for each in rounds if each.drafted is not None]


def accepted_of(rounds: Sequence[ServerRound]) -> list[int]:
    return [each.accepted for each in rounds if each.accepted is not None]


def _reason(trace: ServerTrace) -> CutReason | None:
    found = trace.finish
    return None if found == "stopped" or found not in get_args(CutReason) else found


def _num_rounds(trace: ServerTrace) -> int | None:
    total = trace.totals.rounds
    return total if total is not None else len(own_rounds(trace)) or None


def _num_drafted(trace: ServerTrace) -> int | None:
    total = trace.totals.drafted
    return total if total is not None else _sum(drafts_of(reported_rounds(trace)))


def _num_accepted(trace: ServerTrace) -> int | None:
    total = trace.totals.accepted
    return total if total is not None else _sum(accepted_of(reported_rounds(trace)))


def _total(traces: Sequence[ServerTrace], count: Callable[[ServerTrace], int | None]) -> int | None:
    found = [count(each) for each in traces]
    known = [each for each in found if each is not None]
    return sum(known) if known and len(known) == len(found) else None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _sum(counts: Sequence[int]) -> int | None:
    return sum(counts) if counts else None


def _tau(rounds: Sequence[ServerRound]) -> float | None:
    return sum(each.num_tokens for each in rounds) / len(rounds) if rounds else None


def _alpha_by_position(rounds: Sequence[ServerRound]) -> tuple[float | None, ...]:
    """Return α at each position i: candidates accepted at i, divided by those accepted at i - 1."""
    most, accepted = max(drafts_of(rounds), default=0), accepted_of(rounds)
    counts = [sum(each > place for each in accepted) for place in range(most)]
    return alpha_by_position(counts, sum(each > 0 for each in drafts_of(rounds)))


def _rate(traces: Sequence[ServerTrace]) -> float | None:
    known = [each.rounds for each in traces if each.rounds]
    seconds = sum(rounds[-1].at - rounds[0].at for rounds in known)
    tokens = sum(entry.num_tokens for rounds in known for entry in rounds[1:])
    return tokens / seconds if seconds > 0 and tokens else None
