"""Where the speed went: from the textbook's speedup to the observed one, a cause at a time.

Each level puts one more measured thing in place of an assumption, in an order that is always the
same; what a cause is worth depends on the order. Levels are speedups. In milliseconds a token, each
is the time of the target alone over the level. Changes add up to what was observed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Literal, get_args

from specviz.figures.metrics import Metrics
from specviz.record.numbers import (
    COST,
    MILLISECONDS_A_TOKEN,
    PERCENT,
    PROBABILITY,
    STEPS,
    TOKENS,
    times,
)
from specviz.record.trace import Round, StepCosts, Trace
from specviz.theory.speed import expected_tokens

StepName = Literal[
    "textbook",
    "acceptance by position",
    "clustering along the text",
    "measured verification",
    "drafting's first step",
    "rest of the engine",
    "observed",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaterfallStep:
    """``speedup`` and ``ms_a_token`` are those after the step; of the first and of the last step,
    which are levels and no causes, the changes are 0. ``words``: one sentence."""

    name: StepName
    words: str
    speedup: float
    change: float
    ms_a_token: float
    change_ms: float

    @property
    def is_level(self) -> bool:
        return self.name in {"textbook", "observed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Waterfall:
    steps: tuple[WaterfallStep, ...]

    def as_dict(self) -> dict[str, Any]:
        """Values that JSON can hold."""
        return {"steps": [dataclasses.asdict(each) for each in self.steps]}


def waterfall(trace: Trace, figures: Metrics) -> Waterfall | None:
    """None where `why_no_waterfall` says why."""
    if why_no_waterfall(trace, figures) is not None:
        return None
    causes = _causes(trace, figures)
    names = get_args(StepName)
    levels, words = _levels(causes), _words(causes)
    speeds = [levels[0], *levels]  # nothing changes at the first level
    slowness = [causes.token_ms / each for each in speeds]
    return Waterfall(
        steps=tuple(
            WaterfallStep(
                name=name,
                words=said,
                speedup=speeds[place + 1],
                change=speeds[place + 1] - speeds[place],
                ms_a_token=slowness[place + 1],
                change_ms=slowness[place + 1] - slowness[place],
            )
            for place, (name, said) in enumerate(zip(names, words, strict=True))
        )
    )


def why_no_waterfall(trace: Trace, figures: Metrics) -> str | None:
    """One sentence; None where there is a waterfall."""
    method = trace.config.draft_method
    if not trace.config.by_odds:
        return "The textbook's formula is of one chain under the lossless rule; this is not."
    if not trace.config.fixed_length:
        return (
            f"Drafting by {method.words} does not fill its rounds, so no formula for one γ holds."
        )
    if figures.num_whole_rounds == 0:
        return "No round is whole."
    if figures.alpha_observed is None:
        return "No candidate was tested."
    if figures.speedup_observed is None:
        return "The target alone was not timed."
    return _why_no_costs(trace, figures)


def _why_no_costs(trace: Trace, figures: Metrics) -> str | None:
    costs = trace.step_costs
    if costs is None:
        return "No step costs were measured."
    if not costs.draft:
        return "The step costs have no draft step."
    if figures.v is None:
        return (
            f"The step costs do not tell what it takes to verify {trace.config.gamma + 1} tokens."
        )
    if figures.v <= 0:  # a line beyond the table may fall
        return (
            "Beyond its last row, the table of step costs gives a verification less than no time."
        )
    return None


# The causes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Causes:
    """What the levels are made of. Tokens are of a round, costs in steps of the target."""

    gamma: int
    greedy: bool
    alpha: float
    by_position: tuple[float, ...]  # mean odds at each drafted position
    along: float  # tokens that the odds at each round's own candidates promise
    tau: float
    first: float  # the first draft step of a round, its share of catching up included
    later: float
    caught_up: float  # share of the whole rounds
    v: float
    observed: float
    token_ms: float  # of the target alone

    @property
    def textbook(self) -> float:
        return expected_tokens(self.alpha, self.gamma)

    @property
    def independent(self) -> float:
        """Tokens, if no position depended on another."""
        return _tokens(self.by_position)


def _causes(trace: Trace, figures: Metrics) -> _Causes:
    parts, costs = figures.parts, trace.step_costs
    alpha = figures.alpha_observed if figures.alpha_expected is None else figures.alpha_expected
    assert costs is not None
    assert alpha is not None
    assert parts.target_step is not None
    assert parts.target_seconds is not None
    assert figures.tau is not None
    assert figures.v is not None
    assert figures.speedup_observed is not None
    whole = [entry for entry in trace.rounds if entry.whole]
    context = sum(entry.context_length for entry in whole) / len(whole)
    caught_up = sum(entry.draft_catch_up == 2 for entry in whole) / len(whole)
    share = caught_up if len(costs.draft) > 1 else 0.0
    return _Causes(
        gamma=trace.config.gamma,
        greedy=trace.config.greedy,
        alpha=alpha,
        by_position=_by_position(whole, trace.config.gamma),
        along=fmean(_tokens([each.odds for each in entry.candidates]) for entry in whole),
        tau=figures.tau,
        first=costs.draft_phase(context, 1, share) / parts.target_step,
        later=_later_draft_step(costs, context) / parts.target_step,
        caught_up=caught_up,
        v=figures.v,
        observed=figures.speedup_observed,
        token_ms=1000 * parts.target_seconds / parts.tokens,
    )


def _by_position(whole: Sequence[Round], gamma: int) -> tuple[float, ...]:
    """Discarded candidates count too: given their round so far, their odds were real."""
    places = (
        [entry.candidates[place].odds for entry in whole if place < entry.num_drafted]
        for place in range(gamma)
    )
    return tuple(fmean(odds) for odds in places if odds)


def _tokens(chances: Sequence[float]) -> float:
    """Of a round in which candidates are accepted with these chances: THEORY's 1 + Σ Π α."""
    survived, total = 1.0, 1.0
    for each in chances:
        survived *= each
        total += survived
    return total


def _later_draft_step(costs: StepCosts, context: float) -> float:
    """Of a round; the first one where the table has no other."""
    return replace(costs, draft=(costs.draft_next or costs.draft[0],)).draft_step(context)


def _levels(causes: _Causes) -> list[float]:
    cheap = causes.gamma * causes.later
    drafting = causes.first + (causes.gamma - 1) * causes.later
    return [
        causes.textbook / (cheap + 1),
        causes.independent / (cheap + 1),
        causes.tau / (cheap + 1),
        causes.tau / (cheap + causes.v),
        causes.tau / (drafting + causes.v),
        causes.observed,
        causes.observed,
    ]


# The words


def _words(causes: _Causes) -> list[str]:
    return [
        _textbook_words(causes),
        _position_words(causes),
        _clustering_words(causes),
        _verification_words(causes),
        _first_step_words(causes),
        _rest_words(causes),
        _observed_words(causes),
    ]


def _textbook_words(causes: _Causes) -> str:
    steps = f"{causes.gamma} draft step{'s' * (causes.gamma > 1)}"
    return (
        f"One α of {PROBABILITY.shown(causes.alpha)} for every position promises "
        f"{TOKENS.shown(causes.textbook)} tokens a round, for {steps} of "
        f"{COST.shown(causes.later)} target steps and a verification that counts as one."
    )


def _position_words(causes: _Causes) -> str:
    chances = [PROBABILITY.shown(each) for each in causes.by_position]
    if not chances:
        return "No whole round drafted a candidate."
    listed = chances[0] if len(chances) == 1 else f"{chances[0]} at the first to {chances[-1]}"
    where = "at its one position" if len(chances) == 1 else f"at position {len(chances)}"
    return (
        f"The odds, {listed} {where}, make {TOKENS.shown(causes.independent)} tokens a round, "
        "if positions do not depend on each other."
    )


def _clustering_words(causes: _Causes) -> str:
    clustered, luck = causes.along - causes.independent, causes.tau - causes.along
    lucky = f"the luck of the draws by {_signed(luck)}"
    if causes.greedy and _signed(luck) == _signed(0.0):
        lucky = "luck by nothing, as draws decide nothing at temperature 0"
    return (
        f"How acceptances cluster along the text changes that by {_signed(clustered)} tokens, and "
        f"{lucky}: {TOKENS.shown(causes.tau)} came out of a round."
    )


def _verification_words(causes: _Causes) -> str:
    return (
        f"Checking {causes.gamma + 1} tokens takes as long as {STEPS.shown(causes.v)} target "
        "steps, where the textbook has one."
    )


def _first_step_words(causes: _Causes) -> str:
    return (
        f"The first draft step of a round takes {COST.shown(causes.first)} target steps, where a "
        f"later one takes {COST.shown(causes.later)}: it follows the target, and it is fed two "
        f"tokens in {PERCENT.shown(causes.caught_up)} of the rounds."
    )


def _rest_words(causes: _Causes) -> str:
    predicted = causes.token_ms / _levels(causes)[4]
    rest = causes.token_ms / causes.observed - predicted
    shown = MILLISECONDS_A_TOKEN.shown(abs(rest))
    if rest < 0:
        return f"The run took {shown} a token less than these step costs account for."
    return (
        f"All that step costs leave out, such as sampling and bookkeeping, takes {shown} a token."
    )


def _observed_words(causes: _Causes) -> str:
    ours, alone = causes.token_ms / causes.observed, causes.token_ms
    return (
        f"Measured: {times(causes.observed)} as fast as the target alone, "
        f"{MILLISECONDS_A_TOKEN.shown(ours)} a token instead of "
        f"{MILLISECONDS_A_TOKEN.shown(alone)}."
    )


def _signed(tokens: float) -> str:
    """Nothing is written without a minus."""
    shown = f"{tokens:+.{TOKENS.digits}f}".replace("-", "−")
    return "0.00" if float(f"{tokens:.{TOKENS.digits}f}") == 0 else shown
