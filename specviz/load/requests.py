"""Send one request of a load test, and record it up to the last chunk of the answer.

If a request fails, the record has the reason on one line, which does not quote the prompt.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from specviz.errors import ServerError
from specviz.record.load_run import LoadRequest
from specviz.record.server_run import ServerRound, ServerTrace
from specviz.servers.asking import Answer
from specviz.values import Value

_DIGITS = 5  # of times in seconds
_LONGEST = 300  # characters of a failure
_QUOTED = 16  # characters of a prompt that a failure may not quote
STOPPED = "stopped"
NOTHING = "The engine ended the answer without a token."


class Due(Value):
    """A request to send. ``scheduled``: when it is due, in seconds after the block's start."""

    number: int
    user: int | None
    item: int
    prompt: str
    scheduled: float


def carried_out(
    due: Due,
    ask: Callable[[], Answer],
    *,
    begin: float,
    on_begin: Callable[[Answer], None],
    on_round: Callable[[ServerRound], None],
) -> LoadRequest:
    """Send the request, wait for its end and return its record.

    Args:
        begin: ``time.perf_counter()`` at the block's start.
        on_begin: Called with the answer once it is in progress, so that it can be stopped.
    """
    sent, failure, trace = time.perf_counter() - begin, "", None
    try:
        answer = ask()
        on_begin(answer)
        try:
            for each in answer:
                on_round(each)
        except ServerError as error:
            failure = error.culprit
        finally:
            answer.stop()
        trace = answer.trace()
    except ServerError as error:
        failure = failure or error.culprit
    ended = time.perf_counter() - begin
    return _record(due, trace, sent=sent, ended=ended, failure=without_prompt(failure, due.prompt))


def _record(
    due: Due, trace: ServerTrace | None, *, sent: float, ended: float, failure: str
) -> LoadRequest:
    arrivals, counts, divided, tokens = _chunks(trace)
    if not failure and not tokens:
        failure = NOTHING if trace is None or trace.finish != "stopped" else STOPPED
    return LoadRequest(
        number=due.number,
        user=due.user,
        prompt=due.item,
        scheduled=round(due.scheduled, _DIGITS),
        sent=round(sent, _DIGITS),
        ended=round(ended, _DIGITS),
        arrivals=tuple(round(sent + each, _DIGITS) for each in arrivals),
        chunk_tokens=counts,
        divided=divided,
        tokens=tokens,
        prompt_tokens=trace.prompt_tokens if trace else None,
        finish=trace.finish if trace else None,
        failure=failure,
    )


def _chunks(
    trace: ServerTrace | None,
) -> tuple[tuple[float, ...], tuple[float, ...], bool, int]:
    """Return the arrival times and the token counts of the chunks of an answer.

    Also return whether the token counts are estimates, and their sum. If chunks have no token
    counts, the tokens of the answer are divided equally among the chunks. Chunks that arrived at
    the same moment are joined.
    """
    if trace is None or not trace.rounds:
        return (), (), False, 0
    by_arrival: dict[float, float] = {}
    known = all(each.num_tokens for each in trace.rounds)
    total = trace.num_tokens if known else trace.totals.tokens or 0
    share = total / len(trace.rounds)
    for each in trace.rounds:
        by_arrival[each.at] = by_arrival.get(each.at, 0.0) + (each.num_tokens if known else share)
    return tuple(by_arrival), tuple(by_arrival.values()), not known, total


def without_prompt(failure: str, prompt: str) -> str:
    """Return the failure on one line, cut off where it begins to quote the prompt."""
    line, words = " ".join(failure.split()), " ".join(prompt.split())
    size = min(_QUOTED, len(words))
    parts = {words[at : at + size] for at in range(len(words) - size + 1)} if size else set[str]()
    quoted = (at for at in range(len(line) - size + 1) if line[at : at + size] in parts)
    if (at := next(quoted, None)) is not None:
        line = f"{line[:at]}(the rest quotes the prompt)"
    return line[:_LONGEST]
