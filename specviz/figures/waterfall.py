"""Where the speed went: from the textbook speedup to the observed one, one cause at a time.

The waterfall chart begins at the textbook speedup. Each step replaces one more assumption by a
measurement, in a fixed order; the contribution of a cause depends on that order. The speedup after
a step is called a level. The first level plus all changes is the observed speedup. In milliseconds
per token, a level is the time of the target alone divided by the speedup.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, Literal, get_args

from specviz.figures.metrics import Metrics
from specviz.figures.step_times import mean_fed_more
from specviz.record.numbers import (
    COST,
    MILLISECONDS_PER_TOKEN,
    PERCENT,
    PROBABILITY,
    STEPS,
    TOKENS,
    times,
)
from specviz.record.trace import Round, StepCosts, Trace
from specviz.theory.speed import expected_tokens
from specviz.values import Value

StepName = Literal[
    "textbook",
    "acceptance by position",
    "clustering along the text",
    "measured verification",
    "drafting's first step",
    "rest of the engine",
    "observed",
]


class WaterfallStep(Value):
    """One bar of the waterfall chart, with a sentence about it in ``words``.

    ``speedup`` and ``ms_a_token`` are the values after the step. The first bar is the textbook
    speedup and the last the observed one; these have no cause, and their changes are 0.
    """

    name: StepName
    words: str
    speedup: float
    change: float
    ms_a_token: float
    change_ms: float

    @property
    def is_level(self) -> bool:
        return self.name in {"textbook", "observed"}


class Waterfall(Value):
    steps: tuple[WaterfallStep, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the waterfall as JSON-compatible values."""
        return {"steps": [dataclasses.asdict(each) for each in self.steps]}


def waterfall(trace: Trace, figures: Metrics) -> Waterfall | None:
    """Return the causes between the textbook speedup and the observed one, with their effects.

    The result is None if it cannot be computed (see `why_no_waterfall`).
    """
    if why_no_waterfall(trace, figures) is not None:
        return None
    causes = _causes(trace, figures)
    names = get_args(StepName)
    levels, sentences = _levels(causes), _sentences(causes)
    speeds = [levels[0], *levels]  # the first level has no change
    token_times = [causes.token_ms / each for each in speeds]
    return Waterfall(
        steps=tuple(
            WaterfallStep(
                name=name,
                words=sentence,
                speedup=speeds[place + 1],
                change=speeds[place + 1] - speeds[place],
                ms_a_token=token_times[place + 1],
                change_ms=token_times[place + 1] - token_times[place],
            )
            for place, (name, sentence) in enumerate(zip(names, sentences, strict=True))
        )
    )


def why_no_waterfall(trace: Trace, figures: Metrics) -> str | None:
    """Return in one sentence why there is no waterfall; None if there is one."""
    method = trace.config.draft_method
    if not trace.config.by_odds:
        return "The textbook formula needs one chain under the lossless rule."
    if not trace.config.fixed_length:
        return f"With {method.words}, rounds vary in length: formulas for one γ do not apply."
    if figures.num_whole_rounds == 0:
        return "There is no whole round."
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
        return f"The step costs do not cover a verification of {trace.config.gamma + 1} tokens."
    if figures.v <= 0:  # extrapolation beyond the table may fall
        return "Extrapolated step costs give a negative verification time."
    return None


# The causes


class _Causes(Value):
    """The tokens per round and the costs, in target steps, from which the waterfall is computed."""

    gamma: int
    greedy: bool
    alpha: float
    by_position: tuple[float, ...]  # mean odds at each drafted position
    along: float  # tokens expected from the odds of each round's own candidates
    tau: float
    first: float  # the first draft step of a round, which may be fed two tokens
    later: float
    fed_more: float  # mean tokens beyond the first that the first draft step was fed
    reads_states: bool  # whether a head drafts
    v: float
    observed: float
    token_ms: float  # of the target alone

    @property
    def textbook(self) -> float:
        return expected_tokens(self.alpha, self.gamma)

    @property
    def independent(self) -> float:
        """The expected tokens per round if the verdicts at all positions were independent."""
        return _tokens(self.by_position)


def _causes(trace: Trace, figures: Metrics) -> _Causes:
    costs, step = trace.step_costs, figures.steps.target
    alpha, timing = figures.alpha, figures.timing
    assert costs is not None
    assert alpha is not None
    assert step is not None
    assert timing is not None
    assert figures.tau is not None
    assert figures.v is not None
    whole = [entry for entry in trace.rounds if entry.whole]
    context = sum(entry.context_length for entry in whole) / len(whole)
    fed_more = mean_fed_more(whole)
    return _Causes(
        gamma=trace.config.gamma,
        greedy=trace.config.greedy,
        alpha=alpha,
        by_position=_by_position(whole, trace.config.gamma),
        along=fmean(_tokens([each.odds for each in entry.candidates]) for entry in whole),
        tau=figures.tau,
        first=costs.draft_phase(context, 1, fed_more if len(costs.draft) > 1 else 0.0) / step,
        later=_later_draft_step(costs, context) / step,
        fed_more=fed_more,
        reads_states=trace.config.draft_method.needs_head,
        v=figures.v,
        observed=timing.speedup,
        token_ms=1000 * timing.target_seconds / figures.num_tokens,
    )


def _by_position(whole: Sequence[Round], gamma: int) -> tuple[float, ...]:
    """Return the mean acceptance probability (odds) of the candidates at each position of a round.

    Discarded candidates also count. Their odds are acceptance probabilities under the condition
    that the candidates before them are accepted.
    """
    places = (
        [entry.candidates[place].odds for entry in whole if place < entry.num_drafted]
        for place in range(gamma)
    )
    return tuple(fmean(odds) for odds in places if odds)


def _tokens(probs: Sequence[float]) -> float:
    """Return the expected tokens of a round with these acceptance probabilities by position.

    This is 1 + Σ Π α: the extra token, and for each candidate the probability that it and all
    candidates before it are accepted.
    """
    survived, total = 1.0, 1.0
    for each in probs:
        survived *= each
        total += survived
    return total


def _later_draft_step(costs: StepCosts, context: float) -> float:
    """Return the seconds of a later draft step.

    If no later draft step was measured, return the seconds of a first draft step.
    """
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


# Sentences


def _sentences(causes: _Causes) -> list[str]:
    return [
        _textbook_sentence(causes),
        _position_sentence(causes),
        _clustering_sentence(causes),
        _verification_sentence(causes),
        _first_step_sentence(causes),
        _rest_sentence(causes),
        _observed_sentence(causes),
    ]


def _textbook_sentence(causes: _Causes) -> str:
    steps = f"{causes.gamma} draft step{'s' * (causes.gamma > 1)}"
    return (
        f"With α = {PROBABILITY.shown(causes.alpha)} at every position, a round emits "
        f"{TOKENS.shown(causes.textbook)} tokens and costs {steps} at {COST.shown(causes.later)} "
        "target steps each, plus one target step for the verification."
    )


def _position_sentence(causes: _Causes) -> str:
    odds = [PROBABILITY.shown(each) for each in causes.by_position]
    if not odds:
        return "No whole round drafted a candidate."
    listed = f"{odds[0]} at position 1"
    if len(odds) > 1:
        listed += f" to {odds[-1]} at position {len(odds)}"
    return (
        f"With the measured acceptance probabilities ({listed}), a round gives "
        f"{TOKENS.shown(causes.independent)} tokens if positions are independent."
    )


def _clustering_sentence(causes: _Causes) -> str:
    clustering, noise = causes.along - causes.independent, causes.tau - causes.along
    noise_part = f"sampling noise by {_signed(noise)}"
    if causes.greedy and _signed(noise) == _signed(0.0):
        noise_part = "sampling noise by 0.00, as temperature 0 has no draws"
    return (
        f"Clustering of acceptances changes the tokens per round by {_signed(clustering)}, and "
        f"{noise_part}: a round gave {TOKENS.shown(causes.tau)} tokens."
    )


def _verification_sentence(causes: _Causes) -> str:
    return (
        f"Verifying {causes.gamma + 1} tokens takes {STEPS.shown(causes.v)} target steps; the "
        "textbook formula assumes one step."
    )


def _first_step_sentence(causes: _Causes) -> str:
    fed = f"in {PERCENT.shown(causes.fed_more)} of the rounds it is fed two tokens"
    if causes.reads_states:
        fed = f"it is fed {TOKENS.shown(1 + causes.fed_more)} tokens on average"
    return (
        f"The first draft step of a round takes {COST.shown(causes.first)} target steps, a later "
        f"draft step {COST.shown(causes.later)}: the first step follows a target pass, which "
        f"leaves other data in the processor's caches, and {fed}."
    )


def _rest_sentence(causes: _Causes) -> str:
    predicted = causes.token_ms / _levels(causes)[4]
    rest = causes.token_ms / causes.observed - predicted
    shown = MILLISECONDS_PER_TOKEN.shown(abs(rest))
    if rest < 0:
        return f"The run took {shown} per token less than the step costs predict."
    return f"Work outside the step costs, such as sampling and bookkeeping, took {shown} per token."


def _observed_sentence(causes: _Causes) -> str:
    ours, alone = causes.token_ms / causes.observed, causes.token_ms
    return (
        f"Measured: {times(causes.observed)} as fast as the target alone, "
        f"{MILLISECONDS_PER_TOKEN.shown(ours)} per token instead of "
        f"{MILLISECONDS_PER_TOKEN.shown(alone)}."
    )


def _signed(tokens: float) -> str:
    """Return a signed number of tokens; zero has no sign."""
    shown = f"{tokens:+.{TOKENS.digits}f}".replace("-", "−")
    return "0.00" if float(f"{tokens:.{TOKENS.digits}f}") == 0 else shown
