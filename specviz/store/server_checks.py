"""Checks beyond types for an answer of another engine: counts, times, order."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from specviz.record.limits import MAX_DRAFTED
from specviz.record.server_run import (
    ServerInfo,
    ServerRound,
    ServerSettings,
    ServerTotals,
    ServerTrace,
    TimedAnswer,
)

MAX_PIECE = 100_000  # tokens in one chunk
_ROUNDING = 1e-5  # log of a float32 probability may round to just above 0


def _counts(drafted: int | None, accepted: int | None) -> str | None:
    if any(each is not None and each < 0 for each in (drafted, accepted)):
        return "has a count below 0"
    if drafted is not None and accepted is not None and accepted > drafted:
        return "has more candidates accepted than drafted"
    return None


def _round(made: ServerRound) -> str | None:
    if made.at < 0:
        return "arrived before its request"
    if max(made.drafted or 0, made.accepted or 0) > MAX_DRAFTED:
        return "has more candidates than an engine drafts"
    return _tokens(made) or _counts(made.drafted, made.accepted)


def _tokens(made: ServerRound) -> str | None:
    if not 0 <= made.num_tokens <= MAX_PIECE:
        return "has an impossible number of tokens"
    if len(made.texts) not in (0, 1, made.num_tokens):
        return "has texts that do not fit its tokens"
    if any(len(each) not in (0, made.num_tokens) for each in (made.token_ids, made.logprobs)):
        return "has lists that do not fit its tokens"
    return "has a log-probability above 0" if max(made.logprobs, default=0) > _ROUNDING else None


def _totals(made: ServerTotals) -> str | None:
    if any(each is not None and each < 0 for each in (made.rounds, made.tokens)):
        return "has a count below 0"
    return _counts(made.drafted, made.accepted)


def _answer(made: TimedAnswer) -> str | None:
    return None if made.seconds > 0 and made.tokens >= 0 else "has a time not above 0"


def _info(made: ServerInfo) -> str | None:
    return None if made.gamma is None or made.gamma >= 0 else "has a count below 0"


def _settings(made: ServerSettings) -> str | None:
    if made.temperature < 0 or made.max_new_tokens < 0:
        return "has a setting below 0"
    return None if 0 <= made.top_p <= 1 else "has top_p outside 0 to 1"


def _trace(made: ServerTrace) -> str | None:
    if any(one.at > other.at for one, other in pairwise(made.rounds)):
        return "has rounds out of order"
    if made.seconds < 0 or (made.prompt_tokens or 0) < 0:
        return "has a count or a time below 0"
    return None


SERVER_CHECKS: dict[type, Callable[[Any], str | None]] = {
    ServerRound: _round,
    ServerTotals: _totals,
    TimedAnswer: _answer,
    ServerInfo: _info,
    ServerSettings: _settings,
    ServerTrace: _trace,
}
