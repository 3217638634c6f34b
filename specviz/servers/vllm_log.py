"""Read counters from vLLM's log lines about speculation.

A line counts the tokens since the previous line. It has the numbers of accepted and drafted tokens,
the tokens per round with two decimals, and the share of accepted tokens at each position with three
decimals. The number of rounds with a draft is not in the log, so it is computed from these values.
The number of accepted tokens at a position is the number of rounds times the share at the position,
rounded. Lines with impossible values are skipped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from specviz.record.server_run import Counters

_MARK = "SpecDecoding metrics: "
_DECIMAL = r"\d{1,15}(?:\.\d{1,15})?"
_NUMBER = rf"({_DECIMAL}|nan)"
_SHARE = r"[01](?:\.\d{1,15})?"
_LINE = re.compile(
    rf"Mean acceptance length: {_NUMBER}, Accepted throughput: {_NUMBER} tokens/s, "
    rf"Drafted throughput: {_NUMBER} tokens/s, Accepted: (\d{{1,15}}) tokens, "
    rf"Drafted: (\d{{1,15}}) tokens, "
    rf"Per-position acceptance rate: ((?:{_SHARE}(?:, {_SHARE})*)?), "
    rf"Avg Draft acceptance rate: {_NUMBER}%",
    re.ASCII,
)
_TIME = re.compile(r"(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)", re.ASCII)
_LONGEST = 5000  # characters of a line that are read


def counters_of_log(text: str) -> tuple[Counters, ...]:
    """Return the counters that a log implies: zeros first, then the sums up to each line.

    Times are in seconds. They are read from the log, whose dates contain no year. In a log without
    times, a line's duration is its drafted tokens divided by its drafted tokens per second.
    """
    sums = Counters(at=0.0, drafts=0.0, drafted=0.0, accepted=0.0)
    found = list[Counters]()
    for grown, clock in _lines(text):
        if not found:
            sums = _begun(sums, grown, clock)
            found.append(sums)
        sums = _added(sums, grown, clock)
        found.append(sums)
    return tuple(found)


def _lines(text: str) -> Iterator[tuple[Counters, float | None]]:
    """Yield the counts of each line, and the time at which the line was logged.

    ``at`` of the counts is the number of seconds that the line covers.
    """
    for line in text.splitlines():
        head, mark, tail = line[:_LONGEST].partition(_MARK)
        match = _LINE.match(tail) if mark else None
        if match is not None and int(match[4]) <= int(match[5]):
            yield _counted(match), _clock(head)


def _counted(match: re.Match[str]) -> Counters:
    length, _, drafted_rate, accepted, drafted, shares, _ = match.groups()
    drafts = _drafts(float(length), int(accepted), int(drafted), shares.count(",") + 1)
    seconds = int(drafted) / float(drafted_rate) if float(drafted_rate) > 0 else 0.0
    return Counters(
        at=seconds,
        drafts=drafts,
        drafted=float(drafted),
        accepted=float(accepted),
        accepted_at=tuple(
            round(float(each) * drafts) for each in shares.split(",") if each.strip()
        ),
    )


def _drafts(length: float, accepted: int, drafted: int, positions: int) -> int:
    """Return n, the number of rounds with a draft.

    The mean length in the log is 1 + accepted / n. It has only two decimals, so several values of n
    may fit. The value nearest to ``drafted / positions`` is returned, because this quotient is n if
    all rounds draft a candidate at every position.
    """
    full = max(1, math.ceil(drafted / positions))
    if accepted == 0 or not length > 1.005:  # "not … >" also covers nan
        return full
    fewest = math.ceil(accepted / (length - 1 + 0.005))
    return max(fewest, min(full, math.floor(accepted / (length - 1 - 0.005))), 1)


def _clock(head: str) -> float | None:
    """Return the logged time in seconds since January 1; None if the line has no valid time.

    The log has no years, so a leap year is assumed, in which February 29 is valid.
    """
    match = _TIME.search(head)
    if match is None:
        return None
    try:
        written = datetime.strptime(f"2000-{match[0]}", "%Y-%m-%d %H:%M:%S")
        return (written - datetime(2000, 1, 1)).total_seconds()
    except ValueError:
        return None


def _begun(sums: Counters, grown: Counters, clock: float | None) -> Counters:
    return sums if clock is None else replace(sums, at=max(0.0, clock - grown.at))


def _added(sums: Counters, grown: Counters, clock: float | None) -> Counters:
    length = max(len(sums.accepted_at), len(grown.accepted_at))
    later = sums.at + grown.at
    return Counters(
        at=clock if clock is not None and clock > sums.at else later,
        drafts=(sums.drafts or 0) + (grown.drafts or 0),
        drafted=(sums.drafted or 0) + (grown.drafted or 0),
        accepted=(sums.accepted or 0) + (grown.accepted or 0),
        accepted_at=tuple(
            old + new
            for old, new in zip(
                _filled(sums.accepted_at, length), _filled(grown.accepted_at, length), strict=True
            )
        ),
    )


def _filled(values: Sequence[float], length: int) -> list[float]:
    return [*values, *(0.0 for _ in range(length - len(values)))]
