"""What finished runs say of a claim: a sentence with its numbers, and points for a chart.

Numbers come from `specviz.record`; here they are put into words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from specviz.record import theorem_checks
from specviz.record.cost_doubts import costs_doubt
from specviz.record.limits import MAX_GAMMA
from specviz.record.metrics import Metrics, metrics
from specviz.record.numbers import COST, PERCENT, PROBABILITY, RATIO, STEPS, TOKENS, times
from specviz.record.trace import Trace
from specviz.record.verdict_words import verdict_sentence
from specviz.theory.claims import Figure, RunName
from specviz.theory.estimates import alpha_from_drafted
from specviz.theory.speed import best_gamma, expected_tokens

GUIDE_TOKENS = 50  # what the guide's listing asks for and divides by
_LAZY_SHARE = 0.8
_ROUNDING = 1e-5  # what float32 leaves of a bias that is none
_FIRM = 4.0  # standard deviations: beyond, chance is no explanation


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lossy:
    """The runs of one ε with one law after a rejection, held against Theorem 5."""

    rule: str  # OPT: the leftover; UNO: the target itself
    epsilon: float
    plane: theorem_checks.ParetoCheck
    shown: theorem_checks.BiasCheck

    @property
    def label(self) -> str:
        return f"{self.rule}, ε {self.epsilon:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What runs came to."""

    sentence: str
    pair: str
    figures: tuple[Figure, ...] = ()
    lossy: tuple[Lossy, ...] = ()


def outcome(run: RunName, traces: Sequence[Trace]) -> Outcome:
    """Of the finished runs of a claim, in the order in which they were planned."""
    pair = traces[0].pair
    return Outcome(
        sentence=_TOLD[run](traces),
        pair=pair.name if pair.draft else pair.target.name,
        figures=_rejection_figures(traces) if run == "rejections" else (),
        lossy=_lossy(traces) if run == "pareto" else (),
    )


def _speed_told(traces: Sequence[Trace]) -> str:
    found = metrics(traces[0], intervals=False)
    told = verdict_sentence(found, traces[0])
    if found.c is None or found.v is None or found.alpha_expected is None:
        return told
    ideal, accounted = found.speedup_ideal or 0.0, found.speedup_accounted or 0.0
    best, value = best_gamma(found.alpha_expected, found.c, found.v, MAX_GAMMA)
    advice = f"the best γ would be {best}: {times(value)}" if best else "no γ would pay"
    return (
        f"{told} α {PROBABILITY.bare(found.alpha_expected)}, γ {found.gamma}, "
        f"c {COST.bare(found.c)}, v {STEPS.bare(found.v)}: the textbook’s formula, with v = 1, "
        f"says {times(ideal)}; with this run’s v and τ it is {RATIO.bare(accounted)}. By the "
        "formula, were v the same at every γ, "
        f"{advice}."
    )


def _estimates_told(traces: Sequence[Trace]) -> str:
    found, config = metrics(traces[0], intervals=False), traces[0].config
    share, tested, tau = found.draft_acceptance_rate, found.alpha_observed, found.tau
    if share is None or tested is None or tau is None:
        return "The text ended before a whole round, so there is nothing to estimate."
    whole = [each for each in traces[0].rounds if each.whole]
    full = sum(each.num_accepted == each.num_drafted == config.gamma for each in whole)
    told = (
        f"Accepted / drafted {PROBABILITY.bare(share)}, accepted / tested "
        f"{PROBABILITY.bare(tested)}. Whole rounds gave "
        f"τ = {TOKENS.bare(tau)} tokens; {full} of {len(whole)} gave all {config.gamma + 1}."
    )
    if not config.draft_method.fills_rounds:
        return f"{told} Copying drafts as many as it finds, so the formula for one γ is mute."
    return (
        f"{told} The formula says τ = {TOKENS.bare(expected_tokens(share, config.gamma))} from "
        f"the first and {TOKENS.bare(expected_tokens(tested, config.gamma))} from the second, and "
        f"{PERCENT.shown(tested**config.gamma)} full rounds. A share of {PROBABILITY.bare(share)} "
        f"would mean α = {PROBABILITY.bare(alpha_from_drafted(share, config.gamma))}."
    )


def _verification_told(traces: Sequence[Trace]) -> str:
    found = metrics(traces[0], intervals=False)
    costs = traces[0].step_costs
    if found.v is None or costs is None:
        return "No step costs were measured for this pair."
    doubt = costs_doubt(costs)
    return (
        f"Measured: checking {(found.gamma or 0) + 1} tokens takes v = {STEPS.bare(found.v)} "
        f"steps of the target, at the context lengths of this run.{f' {doubt}' if doubt else ''}"
    )


def _temperature_told(traces: Sequence[Trace]) -> str:
    groups: dict[float, list[Trace]] = {}
    for trace in traces:
        groups.setdefault(trace.config.temperature, []).append(trace)
    alphas = {heat: _alpha(group) for heat, group in groups.items()}
    told = ", ".join(f"{PROBABILITY.bare(alpha)} at T {heat:g}" for heat, alpha in alphas.items())
    return f"Expected α: {told}. {way_in_words(alphas)}"


def way_in_words(alphas: Mapping[float, float]) -> str:
    """Where acceptance falls with the temperature, as is claimed, and where it does not."""
    known = [(heat, alpha) for heat, alpha in alphas.items() if math.isfinite(alpha)]
    falls: list[tuple[float, float]] = []
    rises: list[str] = []
    for (heat, alpha), (hotter, then) in pairwise(known):
        if then > alpha:
            rises.append(f"from T {heat:g} to {hotter:g} by {PROBABILITY.bare(then - alpha)}")
        elif then < alpha and falls and falls[-1][1] == heat:
            falls[-1] = (falls[-1][0], hotter)
        elif then < alpha:
            falls.append((heat, hotter))
    spans = " and ".join(f"from T {first:g} to {last:g}" for first, last in falls)
    fall = f"It falls {spans}, as claimed" if falls else "It falls nowhere"
    rise = f"; it rises {' and '.join(rises)}" if rises else ""
    return f"{fall}{rise}. The texts differ, so small steps may be the texts’."


def _kinds_told(traces: Sequence[Trace]) -> str:
    kinds: dict[str, list[Trace]] = {}
    for trace in traces:
        kinds.setdefault(trace.prompt.kind or "own words", []).append(trace)
    alphas = sorted(((_alpha(each), kind) for kind, each in kinds.items()), reverse=True)
    told = ", ".join(f"{kind} {PROBABILITY.bare(alpha)}" for alpha, kind in alphas)
    return f"Expected α by kind of prompt, two texts each: {told}. Only acceptance, no clock."


def _benchmark_told(traces: Sequence[Trace]) -> str:
    cold, *traces = traces
    half = len(traces) // 2
    lengths = [len(trace.token_ids) for trace in traces]
    short = sum(length < GUIDE_TOKENS for length in lengths)
    worst = GUIDE_TOKENS / max(1, min(lengths))
    overstated = (
        f"; dividing by {GUIDE_TOKENS} overstates the shortest’s pace {times(worst)}"
        if short
        else ", so here the fixed number did no harm"
    )
    greedy, sampled = traces[:half], traces[half:]
    return (
        f"{short} of {len(traces)} texts ended before {GUIDE_TOKENS} tokens{overstated}. At γ 10, "
        f"greedy texts gave {_acceptance(greedy)}, sampled ones {_acceptance(sampled)}. "
        f"{_clocked(cold, greedy, sampled)}"
    )


def _clocked(cold: Trace, greedy: Sequence[Trace], sampled: Sequence[Trace]) -> str:
    """What the clock says of the listing's quotient, and of its first call."""
    warm_up = _seconds_a_token(cold) / _seconds_a_token(greedy[0])
    cold_told = f"The first call of all took {times(warm_up)} as long a token as when repeated."
    (plain, spec), (plain_sampled, spec_sampled) = map(_seconds, (greedy, sampled))
    if not all((plain, spec, plain_sampled, spec_sampled)):
        return f"No whole round was timed against the target alone. {cold_told}"
    noisy = any(metrics(each, intervals=False).noisy for each in (*greedy, *sampled))
    busy = " The machine was noisy meanwhile." if noisy else ""
    return (
        f"The first of them timed: greedy target alone over sampled speculation, as the listing "
        f"divides, {times(plain / spec_sampled)}; each over its own text, greedy "
        f"{RATIO.bare(plain / spec)}, "
        f"sampled {RATIO.bare(plain_sampled / spec_sampled)}. {cold_told}{busy}"
    )


def _seconds(traces: Sequence[Trace]) -> tuple[float, float]:
    """Of the target alone and of speculation, over the texts that have both; 0 if none has."""
    plain = spec = 0.0
    for trace in traces:
        found = metrics(trace, intervals=False)
        if found.baseline_tokens_per_second and found.tokens_per_second:
            plain += len(trace.token_ids) / found.baseline_tokens_per_second
            spec += len(trace.token_ids) / found.tokens_per_second
    return plain, spec


def _seconds_a_token(trace: Trace) -> float:
    """Of its rounds as they ran, the first included."""
    return sum(each.times.decode for each in trace.rounds) / len(trace.token_ids)


def _rejections_told(traces: Sequence[Trace]) -> str:
    check = theorem_checks.rejection_count(traces)
    lazier = theorem_checks.lazier(traces, _LAZY_SHARE)
    return (
        f"{check.observed:,} rejections at {check.num_tested:,} tested positions; Theorem 1 "
        f"foretells {check.expected:,.1f} (z = {_signed(check.z)}: {_agrees(check.z)}). That is "
        f"Theorem 2’s bound too: a rule that accepts {_LAZY_SHARE:g} of what it may would reject "
        f"{lazier.expected:,.1f}."
    )


def _residual_told(traces: Sequence[Trace]) -> str:
    half = len(traces) // 2
    exact, literal = (theorem_checks.measured_bias(each) for each in (traces[:half], traces[half:]))
    return (
        f"At ε 0. From the leftover: bias {_measured(exact)}. From the target itself, as the "
        f"pseudocode reads: {_measured(literal)}. Counted on the emitted tokens."
    )


def _rejection_figures(traces: Sequence[Trace]) -> tuple[Figure, ...]:
    check = theorem_checks.rejection_count(traces)
    return (
        Figure(label="rejections", value=check.observed, form=",.0f"),
        Figure(label="foretold", value=check.expected, form=",.1f"),
        Figure(label="standard deviations off", value=check.z or 0.0, form="+.1f"),
        Figure(label="tested positions", value=check.num_tested, form=",.0f"),
    )


def _pareto_told(traces: Sequence[Trace]) -> str:
    found = _lossy(traces)
    leftover = [each.plane for each in found if each.rule == "OPT"]
    gap = max(each.largest_gap for each in leftover)
    biases = ", ".join(f"{each.label}: {each.shown.measured:.4f}" for each in found)
    return (
        f"Rejection and bias add up to the distance of the two models at each of "
        f"{sum(each.num_tested for each in leftover):,} tested positions, to within {gap:.0e}, "
        f"where the leftover is drawn from after a rejection. Bias counted on the emitted "
        f"tokens: {biases}."
    )


_TOLD: dict[RunName, Callable[[Sequence[Trace]], str]] = {
    "speed": _speed_told,
    "estimates": _estimates_told,
    "verification": _verification_told,
    "temperature": _temperature_told,
    "kinds": _kinds_told,
    "benchmark": _benchmark_told,
    "rejections": _rejections_told,
    "residual": _residual_told,
    "pareto": _pareto_told,
}


def _lossy(traces: Sequence[Trace]) -> tuple[Lossy, ...]:
    groups: dict[tuple[float, str], list[Trace]] = {}
    for trace in traces:
        rule = "OPT" if trace.config.residual == "leftover" else "UNO"
        groups.setdefault((trace.config.epsilon, rule), []).append(trace)
    return tuple(
        Lossy(
            rule=rule,
            epsilon=epsilon,
            plane=theorem_checks.pareto(group),
            shown=theorem_checks.measured_bias(group),
        )
        for (epsilon, rule), group in groups.items()
    )


def _measured(check: theorem_checks.BiasCheck) -> str:
    if max(check.measured, check.expected, check.standard_error) < _ROUNDING:
        return f"{check.measured:.4f}, down to rounding"
    return (
        f"{check.measured:.4f} ± {check.standard_error:.4f} (expected {check.expected:.4f}, "
        f"z = {_signed(check.z)})"
    )


def _signed(z: float | None) -> str:
    return "none" if z is None else f"{z:+.1f}"


def _agrees(z: float | None) -> str:
    if z is None:
        return "nothing was left to luck"
    return "as chance would have it" if abs(z) < _FIRM else "more than chance allows"


def _alpha(traces: Sequence[Trace]) -> float:
    """Expected, over all tested positions of the texts."""
    found = [metrics(trace, intervals=False) for trace in traces]
    return _mean([(each.alpha_expected, each.num_tested) for each in found])


def _acceptance(traces: Sequence[Trace]) -> str:
    return f"τ = {TOKENS.bare(_tau(traces))} (α {PROBABILITY.bare(_alpha(traces))})"


def _tau(traces: Sequence[Trace]) -> float:
    found: list[Metrics] = [metrics(trace, intervals=False) for trace in traces]
    return _mean([(each.tau, each.num_whole_rounds) for each in found])


def _mean(weighted: Sequence[tuple[float | None, int]]) -> float:
    known = [(value, weight) for value, weight in weighted if value is not None]
    if not known:
        return float("nan")
    values, weights = zip(*known, strict=True)
    return float(np.average(values, weights=weights))
