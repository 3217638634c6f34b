"""Check lengths, ranges and order of the values in stored traces and load tests.

``dataclass_json.py`` checks the types of the values, and calls these checks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from specviz.record.bodies import BodyInfo
from specviz.record.forks import MAX_FORKS, Fork
from specviz.record.limits import MAX_DRAFTED, MAX_GAMMA
from specviz.record.load_run import EngineGauges, LoadBlock, LoadRequest, LoadSettings, LoadSweep
from specviz.record.run_config import RunConfig
from specviz.record.server_run import (
    Counters,
    ServerBlock,
    ServerInfo,
    ServerRound,
    ServerSettings,
    ServerTotals,
    ServerTrace,
    TimedAnswer,
)
from specviz.record.shapes import check_shape
from specviz.record.step_costs import PassBytes, ShapeCosts, StepCosts
from specviz.record.trace import (
    MAX_PASSES,
    MAX_SLICES,
    TOP_ALTERNATIVES,
    Alternatives,
    Baseline,
    Candidate,
    Round,
    RoundTimes,
    Slice,
    Trace,
)

MAX_PIECE = 100_000  # tokens in one chunk of another engine
MAX_LEVELS = 100  # levels, or lanes, of a load sweep
_HEX = re.compile("([0-9a-f]{2})+")
_ROUNDING = 1e-5  # rounding in float32 may lift a probability just above 1, and its log above 0

_Limits = Mapping[str, float]  # keyword arguments of msgspec.Meta
_POSITIVE: _Limits = {"gt": 0}
_NOT_NEGATIVE: _Limits = {"ge": 0}
_CHANCE: _Limits = {"ge": 0, "le": 1 + _ROUNDING}
_DRAFTED: _Limits = {"ge": 0, "le": MAX_DRAFTED}
_TOP: _Limits = {"max_length": TOP_ALTERNATIVES}
_PIECE: _Limits = {"max_length": MAX_PIECE}
_LANE: _Limits = _POSITIVE | {"min_length": 1, "max_length": MAX_PASSES}
_TIMED: _Limits = {"max_length": MAX_PASSES}
_CHANCES = ("target_prob", "uniform", "expected_acceptance", "overlap", "bias", "overruled")

# Limits by type and field. A limit on numbers applies to every number in the field.
LIMITS: Mapping[type, Mapping[str, _Limits]] = {
    Alternatives: {"token_ids": _TOP, "texts": _TOP, "probs": {**_TOP, **_CHANCE}},
    Candidate: {"draft_prob": {"gt": 0, "le": 1 + _ROUNDING}, **dict.fromkeys(_CHANCES, _CHANCE)},
    RunConfig: {"forks": {"max_length": MAX_FORKS}},
    Round: {"candidates": {"max_length": MAX_GAMMA}, "emitted": {"max_length": MAX_GAMMA + 1}},
    Baseline: {"slices": {"max_length": MAX_SLICES}},
    Slice: {"first": _NOT_NEGATIVE, "target": _LANE, "speculative": _LANE},
    StepCosts: {
        **dict.fromkeys(("draft", "target", "bandwidth"), _POSITIVE),
        "contexts": {"min_length": 1},
        "samples": _NOT_NEGATIVE,
    },
    ShapeCosts: dict.fromkeys(("draft", "verify"), _POSITIVE) | {"shape": {"min_length": 1}},
    PassBytes: {"weights": _POSITIVE, "cache": _NOT_NEGATIVE},
    BodyInfo: dict.fromkeys(("parameters", "own_parameters", "step_bytes"), _POSITIVE),
    Trace: {"odds": _CHANCE},
    ServerRound: {
        **dict.fromkeys(("texts", "token_ids"), _PIECE),
        "logprobs": {**_PIECE, "le": _ROUNDING},
        "num_tokens": {"ge": 0, "le": MAX_PIECE},
        "at": _NOT_NEGATIVE,
        "drafted": _DRAFTED,
        "accepted": _DRAFTED,
    },
    ServerTotals: dict.fromkeys(("rounds", "drafted", "accepted", "tokens"), _NOT_NEGATIVE),
    ServerBlock: {"alone": _TIMED, "speculative": _TIMED},
    TimedAnswer: {"tokens": _NOT_NEGATIVE, "seconds": _POSITIVE},
    ServerInfo: {"gamma": _NOT_NEGATIVE},
    ServerSettings: {
        "temperature": _NOT_NEGATIVE,
        "max_new_tokens": _NOT_NEGATIVE,
        "top_p": {"ge": 0, "le": 1},
    },
    ServerTrace: {
        "baseline": {"max_length": MAX_SLICES},
        "prompt_ids": _PIECE,
        "prompt_tokens": _NOT_NEGATIVE,
        "seconds": _NOT_NEGATIVE,
    },
    LoadSettings: {
        "levels": {**_POSITIVE, "min_length": 1, "max_length": MAX_LEVELS},
        **dict.fromkeys(
            ("seconds", "budget", "max_new_tokens", "most_in_flight", "most_requests"), _POSITIVE
        ),
        "request_limit": _POSITIVE,
        **dict.fromkeys(("ramp", "temperature", "top_k", "prompts"), _NOT_NEGATIVE),
        "top_p": {"ge": 0, "le": 1},
    },
    LoadRequest: dict.fromkeys(
        ("number", "user", "prompt", "scheduled", "sent", "ended", "arrivals", "chunk_tokens",
         "tokens", "prompt_tokens"),
        _NOT_NEGATIVE,
    ),
    EngineGauges: dict.fromkeys(
        ("at", "kv_use", "running", "waiting", "preemptions", "prefix_hits", "prefix_queries",
         "prompt_tokens"),
        _NOT_NEGATIVE,
    ),
    Counters: dict.fromkeys(
        ("drafts", "drafted", "accepted", "accepted_at", "generated"), _NOT_NEGATIVE
    ),
    LoadBlock: {
        "level": _POSITIVE,
        **dict.fromkeys(
            ("lane", "start", "repetition", "unit", "begin", "seconds", "unsent", "client_cores"),
            _NOT_NEGATIVE,
        ),
    },
    LoadSweep: {
        "lanes": {"min_length": 1, "max_length": MAX_LEVELS},
        **dict.fromkeys(("starts", "planned_units", "shared_cores"), _NOT_NEGATIVE),
    },
}  # fmt: skip


def problem_of(kind: type, made: object) -> str | None:
    """Return what is wrong if the fields of ``made`` contradict each other, else None.

    The limits of single fields (``LIMITS``) are checked elsewhere.
    """
    check = _CHECKS.get(kind)
    return check(made) if check else None


def _alternatives(made: Alternatives) -> str | None:
    equal = len(made.token_ids) == len(made.texts) == len(made.probs)
    return None if equal else "lists of different lengths"


def _times(made: RoundTimes) -> str | None:
    return None if made.decode >= 0 else "a sum below 0"


def _step_costs(made: StepCosts) -> str | None:
    width, rows = len(made.contexts), (*made.draft, *made.target)
    rows += (made.shape.draft, made.shape.verify) if made.shape is not None else ()
    if not made.target or any(len(row) != width for row in rows):
        return "not a full table"
    if any(left >= right for left, right in pairwise(made.contexts)):
        return "contexts out of order"
    inside = all(1 < tokens <= len(made.target) for tokens in made.interpolated)
    return None if inside else "an interpolated cost outside the table"


def _shape_costs(made: ShapeCosts) -> None:
    check_shape(made.shape, MAX_GAMMA)


def _slice(made: Slice) -> str | None:
    return None if made.first < made.last else "no rounds"


def _trace(made: Trace) -> str | None:
    for each in made.baseline.slices if made.baseline else ():
        timed = made.rounds[each.first : each.last]
        if len(timed) < each.last - each.first or not all(entry.whole for entry in timed):
            return "a timed slice that does not fit the rounds"
        if not any(entry.emitted for entry in timed):
            return "a timed slice without tokens"
    if not all(_matches(fork, made) for fork in made.config.forks):
        return "a fork that does not fit the rounds"
    if not all(_HEX.fullmatch(piece) for piece in made.pieces.values()):
        return "pieces that are not bytes in hex"
    if made.odds and len(made.odds) != len(made.token_ids):
        return "odds that do not fit the tokens"
    return None


def _matches(fork: Fork, made: Trace) -> bool:
    """Return whether the run has the fork's candidate, or ended before the fork's round."""
    if fork.round >= len(made.rounds):
        return True
    candidates = made.rounds[fork.round].candidates
    return fork.place < len(candidates) and candidates[fork.place].token_id == fork.token_id


def _server_round(made: ServerRound) -> str | None:
    if len(made.texts) not in (0, 1, made.num_tokens):
        return "texts that do not fit the number of tokens"
    if any(len(each) not in (0, made.num_tokens) for each in (made.token_ids, made.logprobs)):
        return "lists that do not fit the number of tokens"
    return _accepted(made)


def _accepted(made: ServerRound | ServerTotals) -> str | None:
    if made.drafted is not None and made.accepted is not None and made.accepted > made.drafted:
        return "more candidates accepted than drafted"
    return None


def _server_trace(made: ServerTrace) -> str | None:
    ordered = all(one.at <= other.at for one, other in pairwise(made.rounds))
    return None if ordered else "rounds out of order"


def _load_request(made: LoadRequest) -> str | None:
    if len(made.arrivals) != len(made.chunk_tokens):
        return "chunks without arrivals"
    times = (made.scheduled, made.sent, *made.arrivals, made.ended)
    return None if list(times) == sorted(times) else "times out of order"


def _load_block(made: LoadBlock) -> str | None:
    return None if made.begin < made.end else "a window that ends before it begins"


def _load_sweep(made: LoadSweep) -> str | None:
    if any(each.lane >= len(made.lanes) for each in made.blocks):
        return "a block whose lane is missing"
    if any(each.level not in made.settings.levels for each in made.blocks):
        return "a block whose level is missing"
    return None


_CHECKS: dict[type, Callable[[Any], str | None]] = {
    Alternatives: _alternatives,
    RoundTimes: _times,
    StepCosts: _step_costs,
    ShapeCosts: _shape_costs,
    Slice: _slice,
    Trace: _trace,
    ServerRound: _server_round,
    ServerTotals: _accepted,
    ServerTrace: _server_trace,
    LoadRequest: _load_request,
    LoadBlock: _load_block,
    LoadSweep: _load_sweep,
}
