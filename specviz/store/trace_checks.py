"""Checks beyond types for the parts of a trace: lengths, ranges, order."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from specviz.record.bodies import BodyInfo
from specviz.record.forks import MAX_FORKS, Fork
from specviz.record.limits import MAX_GAMMA
from specviz.record.server_run import ServerBlock, ServerRound, ServerTrace
from specviz.record.shapes import check_shape
from specviz.record.step_costs import PassBytes, ShapeCosts
from specviz.record.trace import (
    MAX_PASSES,
    MAX_SLICES,
    TOP_ALTERNATIVES,
    Alternatives,
    Baseline,
    Candidate,
    Round,
    RoundTimes,
    RunConfig,
    Slice,
    StepCosts,
    Trace,
)
from specviz.store.server_checks import MAX_PIECE, SERVER_CHECKS

_HEX = re.compile("([0-9a-f]{2})+")
_ROUNDING = 1e-5  # a float32 probability may round to just above 1


def too_long(kind: type, fields: Mapping[str, object]) -> str | None:
    """Return the first field whose list exceeds its limit, before its entries are parsed."""
    for name, most in _LONGEST.get(kind, {}).items():
        entries = fields.get(name)
        if isinstance(entries, list) and len(cast("list[object]", entries)) > most:
            return name
    return None


def problem_of(made: object) -> str | None:
    """Return what is wrong with a part of a trace, or None."""
    check = _CHECKS.get(type(made))
    return check(made) if check else None


def _alternatives(made: Alternatives) -> str | None:
    if not len(made.token_ids) == len(made.texts) == len(made.probs):
        return "has lists of different lengths"
    return _outside("probs", made.probs)


def _candidate(made: Candidate) -> str | None:
    if made.draft_prob <= 0:
        return "has a draft probability not above 0"
    chances = [made.draft_prob, made.target_prob, made.uniform, made.expected_acceptance]
    maybe = (made.overlap, made.bias, made.overruled)
    chances += [each for each in maybe if each is not None]
    return _outside("probabilities", chances)


def _outside(name: str, chances: Iterable[float]) -> str | None:
    inside = all(0 <= chance <= 1 + _ROUNDING for chance in chances)
    return None if inside else f"has {name} outside 0 to 1"


def _times(made: RoundTimes) -> str | None:
    return None if math.isfinite(made.decode) and made.decode >= 0 else "adds up to less than 0"


def _step_costs(made: StepCosts) -> str | None:
    width, rows = len(made.contexts), (*made.draft, *made.target)
    rows += (made.shape.draft, made.shape.verify) if made.shape is not None else ()
    if not width or not made.target or any(len(row) != width for row in rows):
        return "is not a full table"
    if any(left >= right for left, right in zip(made.contexts, made.contexts[1:], strict=False)):
        return "has contexts out of order"
    if made.bandwidth is not None and made.bandwidth <= 0:
        return "has a bandwidth not above 0"
    if made.samples is not None and made.samples < 0:
        return "has fewer than 0 samples"
    if not all(1 < tokens <= len(made.target) for tokens in made.interpolated):
        return "has an interpolated cost outside the table"
    return None if all(cost > 0 for row in rows for cost in row) else "has a cost not above 0"


def _shape_costs(made: ShapeCosts) -> str | None:
    check_shape(made.shape, MAX_GAMMA)
    if not made.shape:
        return "has an empty shape"
    return (
        None if all(cost > 0 for cost in (*made.draft, *made.verify)) else "has a cost not above 0"
    )


def _pass_bytes(made: PassBytes) -> str | None:
    return None if made.weights > 0 and made.cache >= 0 else "has an impossible size"


def _body(made: BodyInfo) -> str | None:
    sizes = (made.parameters, made.own_parameters, made.step_bytes)
    return None if all(size > 0 for size in sizes) else "has a size not above 0"


def _slice(made: Slice) -> str | None:
    if not made.target or not made.speculative:
        return "has a lane that was not timed"
    if not all(each > 0 for each in (*made.target, *made.speculative)):
        return "has a time not above 0"
    return None if 0 <= made.first < made.last else "has no rounds"


def _trace(made: Trace) -> str | None:
    for each in made.baseline.slices if made.baseline else ():
        timed = made.rounds[each.first : each.last]
        if len(timed) < each.last - each.first or not all(entry.whole for entry in timed):
            return "has a timed slice that does not fit its rounds"
        if not any(entry.emitted for entry in timed):
            return "has a timed slice without tokens"
    if not all(_matches(fork, made.rounds) for fork in made.config.forks):
        return "has a fork that does not fit its rounds"
    if not all(_HEX.fullmatch(piece) for piece in made.pieces.values()):
        return "has pieces that are not bytes in hex"
    if made.odds and len(made.odds) != len(made.token_ids):
        return "has odds that do not fit its tokens"
    return _outside("odds", made.odds)


def _matches(fork: Fork, rounds: Sequence[Round]) -> bool:
    """Whether the fork fits the rounds; a stopped run may end before it."""
    if fork.round >= len(rounds):
        return True
    candidates = rounds[fork.round].candidates
    return fork.place < len(candidates) and candidates[fork.place].token_id == fork.token_id


_LONGEST: dict[type, dict[str, int]] = {
    Alternatives: dict.fromkeys(("token_ids", "texts", "probs"), TOP_ALTERNATIVES),
    RunConfig: {"forks": MAX_FORKS},
    Round: {"candidates": MAX_GAMMA, "emitted": MAX_GAMMA + 1},
    Baseline: {"slices": MAX_SLICES},
    Slice: dict.fromkeys(("target", "speculative"), MAX_PASSES),
    ServerRound: dict.fromkeys(("texts", "token_ids", "logprobs"), MAX_PIECE),
    ServerBlock: dict.fromkeys(("alone", "speculative"), MAX_PASSES),
    ServerTrace: {"baseline": MAX_SLICES, "prompt_ids": MAX_PIECE},
}

_CHECKS: dict[type, Callable[[Any], str | None]] = {
    Alternatives: _alternatives,
    Candidate: _candidate,
    RoundTimes: _times,
    StepCosts: _step_costs,
    PassBytes: _pass_bytes,
    ShapeCosts: _shape_costs,
    BodyInfo: _body,
    Slice: _slice,
    Trace: _trace,
    **SERVER_CHECKS,
}
