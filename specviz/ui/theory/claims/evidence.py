"""Evidence from finished runs for a claim: a sentence with numbers, and points for a chart.

The numbers come from `specviz.figures`; this module formats them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from specviz.figures import theorem_checks
from specviz.figures.method_checks import block_check, rejections_over_drafts
from specviz.figures.metrics import Metrics, metrics
from specviz.figures.speedup_words import is_undecided, speedup_sentence
from specviz.figures.step_cost_warnings import step_cost_warning
from specviz.record.limits import MAX_GAMMA
from specviz.record.numbers import COST, PERCENT, PROBABILITY, RATIO, STEPS, TOKENS, times
from specviz.record.pairs import pair_title
from specviz.record.trace import Trace
from specviz.theory.claims import Figure, RunName
from specviz.theory.estimates import alpha_from_drafted
from specviz.theory.speed import best_gamma, expected_tokens
from specviz.values import Value

# The benchmark code in the "Practical guide" (a source of claims) requests this many tokens per
# text. To compute tokens per second, it uses this number even if a text ended earlier.
GUIDE_TOKENS = 50
_LAZY_SHARE = 0.8
_ROUNDING = 1e-5  # a smaller bias is rounding in float32
_FIRM = 4.0  # standard deviations; larger differences are not sampling noise


class LossyRuns(Value, eq=False):
    """Checks of theorem 5 (Yin et al. 2024) on runs that share ε and the recovery rule."""

    rule: str  # OPT: recovery from the residual; UNO: recovery from the target
    epsilon: float
    plane: theorem_checks.ParetoCheck
    shown: theorem_checks.BiasCheck

    @property
    def label(self) -> str:
        return f"{self.rule}, ε {self.epsilon:g}"


class Evidence(Value):
    """What the runs show about a claim: a sentence, labelled numbers, and checks of lossy runs."""

    sentence: str
    pair: str
    figures: tuple[Figure, ...] = ()
    lossy: tuple[LossyRuns, ...] = ()


def evidence_of(run: RunName, traces: Sequence[Trace]) -> Evidence:
    """Return what a claim's finished runs show.

    Args:
        traces: The traces of the runs, in the order of `claims.runs.plans`.
    """
    pair = traces[0].pair
    return Evidence(
        sentence=_SENTENCES[run](traces),
        pair=pair_title(pair.name if pair.draft else pair.target.name),
        figures=_rejection_figures(traces) if run == "rejections" else (),
        lossy=_lossy_runs(traces) if run == "pareto" else (),
    )


def _speed_sentence(traces: Sequence[Trace]) -> str:
    found = metrics(traces[0], intervals=False)
    text = speedup_sentence(found, traces[0])
    if found.c is None or found.v is None or found.alpha_expected is None:
        return text
    ideal, accounted = found.speedup_ideal or 0.0, found.speedup_accounted or 0.0
    best, value = best_gamma(found.alpha_expected, found.c, found.v, MAX_GAMMA)
    advice = f"the best γ would be {best} ({times(value)})" if best else "no γ would pay"
    return (
        f"{text} This run has α {PROBABILITY.bare(found.alpha_expected)}, γ {found.gamma}, "
        f"c {COST.bare(found.c)} and v {STEPS.bare(found.v)}. With v = 1, the textbook formula "
        f"predicts {times(ideal)} the target’s speed. With this run’s v and τ, the formula gives "
        f"{RATIO.bare(accounted)}. "
        f"If v were the same at every γ, {advice} by the formula."
    )


def _estimates_sentence(traces: Sequence[Trace]) -> str:
    found, config = metrics(traces[0], intervals=False), traces[0].config
    share, tested, tau = found.draft_acceptance_rate, found.alpha_observed, found.tau
    if share is None or tested is None or tau is None:
        return "The text ended before the first whole round, so there is nothing to estimate."
    whole = [each for each in traces[0].rounds if each.whole]
    full = sum(each.num_accepted == each.num_drafted == config.gamma for each in whole)
    text = (
        f"Accepted / drafted is {PROBABILITY.bare(share)}; accepted / tested is "
        f"{PROBABILITY.bare(tested)}. Whole rounds yielded τ = {TOKENS.bare(tau)} tokens on "
        f"average; {full} of {len(whole)} rounds yielded all {config.gamma + 1} tokens."
    )
    if not config.fixed_length:
        return (
            f"{text} The number of candidates differs from round to round, so a formula with a "
            "fixed γ does not apply."
        )
    return (
        f"{text} With accepted / drafted as α, the formula gives "
        f"τ = {TOKENS.bare(expected_tokens(share, config.gamma))}. With accepted / tested as α, it "
        f"gives τ = {TOKENS.bare(expected_tokens(tested, config.gamma))}, and all candidates are "
        f"accepted in {PERCENT.shown(tested**config.gamma)} of the rounds. By the formula, a "
        f"ratio accepted / drafted of {PROBABILITY.bare(share)} corresponds to "
        f"α = {PROBABILITY.bare(alpha_from_drafted(share, config.gamma))}."
    )


def _verification_sentence(traces: Sequence[Trace]) -> str:
    found = metrics(traces[0], intervals=False)
    costs = traces[0].step_costs
    if found.v is None or costs is None:
        return "No step costs were measured for this pair."
    doubt = step_cost_warning(costs)
    return (
        f"Measured: verifying {(found.gamma or 0) + 1} tokens takes v = {STEPS.bare(found.v)} "
        f"target steps, at the context lengths of this run.{f' {doubt}' if doubt else ''}"
    )


def _temperature_sentence(traces: Sequence[Trace]) -> str:
    groups: dict[float, list[Trace]] = {}
    for trace in traces:
        groups.setdefault(trace.config.temperature, []).append(trace)
    alphas = {heat: _alpha(group) for heat, group in groups.items()}
    text = ", ".join(f"{PROBABILITY.bare(alpha)} at T {heat:g}" for heat, alpha in alphas.items())
    return f"Expected α: {text}. {trend_sentence(alphas)}"


def trend_sentence(alphas: Mapping[float, float]) -> str:
    """Describe between which temperatures α falls, as claimed, and between which it rises."""
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
    fall = f"α falls {spans}, as claimed" if falls else "α does not fall"
    rise = f"; α rises {' and '.join(rises)}" if rises else ""
    return f"{fall}{rise}. The texts differ between temperatures, which may explain small changes."


def _kinds_sentence(traces: Sequence[Trace]) -> str:
    kinds: dict[str, list[Trace]] = {}
    for trace in traces:
        kinds.setdefault(trace.prompt.kind or "custom", []).append(trace)
    alphas = sorted(((_alpha(each), kind) for kind, each in kinds.items()), reverse=True)
    text = ", ".join(f"{kind} {PROBABILITY.bare(alpha)}" for alpha, kind in alphas)
    return (
        f"Expected α by kind of prompt, over two texts per kind: {text}. These runs were not timed."
    )


def _benchmark_sentence(traces: Sequence[Trace]) -> str:
    cold, *traces = traces
    half = len(traces) // 2
    lengths = [len(trace.token_ids) for trace in traces]
    short = sum(length < GUIDE_TOKENS for length in lengths)
    worst = GUIDE_TOKENS / max(1, min(lengths))
    overstated = (
        f"; for the shortest text, counting {GUIDE_TOKENS} tokens gives {times(worst)} the true "
        "rate"
        if short
        else f", so counting {GUIDE_TOKENS} tokens per text is correct here"
    )
    greedy, sampled = traces[:half], traces[half:]
    return (
        f"{short} of {len(traces)} texts ended before {GUIDE_TOKENS} tokens{overstated}. At γ 10, "
        f"greedy texts gave {_tau_and_alpha(greedy)}, sampled texts {_tau_and_alpha(sampled)}. "
        f"{_timing_sentence(cold, greedy, sampled)}"
    )


def _timing_sentence(cold: Trace, greedy: Sequence[Trace], sampled: Sequence[Trace]) -> str:
    """Compare the speedup according to the "Practical guide" with the correct speedups.

    The guide, a source of claims, divides the time of the target alone for a greedy text by the
    time of speculation for a sampled text. A correct speedup takes both times from the same text.

    Also compare the first call of the guide's benchmark, which includes warm-up, with a repetition
    of this call.
    """
    warm_up = _seconds_a_token(cold) / _seconds_a_token(greedy[0])
    first_call = f"Per token, the first call took {times(warm_up)} as long as its repetition."
    (plain, spec), (plain_sampled, spec_sampled) = map(_seconds, (greedy, sampled))
    if not all((plain, spec, plain_sampled, spec_sampled)):
        return f"The times of the target alone are missing, so there is no speedup. {first_call}"
    undecided = any(is_undecided(metrics(each, intervals=False)) for each in (*greedy, *sampled))
    note = " In some runs, timing noise hides which method was faster." if undecided else ""
    return (
        f"The guide divides the time of the greedy target alone by the time of sampled "
        f"speculation. On one prompt, this ratio is {times(plain / spec_sampled)}. With both times "
        f"from the same text, the speedup is {RATIO.bare(plain / spec)} for the greedy text and "
        f"{RATIO.bare(plain_sampled / spec_sampled)} for the sampled text. {first_call}{note}"
    )


def _seconds(traces: Sequence[Trace]) -> tuple[float, float]:
    """Return the seconds of the target alone and of speculation, as sums over several texts.

    Only texts timed with both methods count; without such a text, return (0, 0).
    """
    plain = spec = 0.0
    for trace in traces:
        found = metrics(trace, intervals=False)
        if found.baseline_tokens_per_second and found.tokens_per_second:
            plain += len(trace.token_ids) / found.baseline_tokens_per_second
            spec += len(trace.token_ids) / found.tokens_per_second
    return plain, spec


def _seconds_a_token(trace: Trace) -> float:
    """Return decoding seconds per token over all rounds, including the first."""
    return sum(each.times.decode for each in trace.rounds) / len(trace.token_ids)


def _rejections_sentence(traces: Sequence[Trace]) -> str:
    check = theorem_checks.rejection_count(traces)
    lazier = theorem_checks.lazier(traces, _LAZY_SHARE)
    return (
        f"{check.observed:,} rejections at {check.num_tested:,} tested positions; theorem 1 "
        f"expects {check.expected:,.1f} ({_noise_text(check.z)}). The "
        f"expected number is also the lower bound of theorem 2. For a rule that accepts with "
        f"{_LAZY_SHARE:g} times the lossless probability, {lazier.expected:,.1f} rejections are "
        "expected."
    )


def _drafts_sentence(traces: Sequence[Trace]) -> str:
    points = rejections_over_drafts(traces)
    text = "; ".join(
        f"M {each.num_drafts}: {100 * each.rejections_a_token:.1f} rejections per 100 tokens, "
        f"{100 * each.expected_a_token:.1f} expected ({_noise_text(each.rejected.z)})"
        for each in points
    )
    if not points:
        return "No candidate was tested."
    return (
        f"{text}. At each position where all candidates but the last were rejected, the rejection "
        "probability of the last candidate is added to the expected number. Rounds of these runs "
        "end after γ candidates, so the lower bound above does not apply."
    )


def _blocks_sentence(traces: Sequence[Trace]) -> str:
    check = block_check(traces)
    ratio = check.by_block / check.by_token if check.by_token else 0.0
    gain = f", so block verification accepts {times(ratio)} as many candidates" if ratio else ""
    return (
        f"In {len(check.rounds):,} rounds, {check.accepted:,} candidates were accepted; "
        f"{check.by_block:,.1f} were expected ({_noise_text(check.z)}). "
        f"With token-by-token verification, {check.by_token:,.1f} of the same candidates are "
        f"expected to be accepted{gain}."
    )


def _residual_sentence(traces: Sequence[Trace]) -> str:
    half = len(traces) // 2
    exact, literal = (theorem_checks.measured_bias(each) for each in (traces[:half], traces[half:]))
    return (
        f"At ε 0, the bias is {_bias_text(exact)} if the recovered token is drawn from the "
        f"residual. It is {_bias_text(literal)} if the recovered token is drawn from the target "
        "itself, as in the guide. Both are measured on the emitted tokens."
    )


def _rejection_figures(traces: Sequence[Trace]) -> tuple[Figure, ...]:
    check = theorem_checks.rejection_count(traces)
    return (
        Figure(label="rejections", value=check.observed, form=",.0f"),
        Figure(label="expected", value=check.expected, form=",.1f"),
        Figure(label="z, standard deviations", value=check.z or 0.0, form="+.1f"),
        Figure(label="tested positions", value=check.num_tested, form=",.0f"),
    )


def _pareto_sentence(traces: Sequence[Trace]) -> str:
    found = _lossy_runs(traces)
    leftover = [each.plane for each in found if each.rule == "OPT"]
    gap = max(each.largest_gap for each in leftover)
    biases = ", ".join(f"{each.label}: {each.shown.measured:.4f}" for each in found)
    return (
        f"With the recovered token drawn from the residual, the probability of a rejection plus "
        f"the bias equals the distance between the two models, to within {gap:.0e}, at all "
        f"{sum(each.num_tested for each in leftover):,} tested positions. Bias counted on the "
        f"emitted tokens: {biases}."
    )


_SENTENCES: dict[RunName, Callable[[Sequence[Trace]], str]] = {
    "speed": _speed_sentence,
    "estimates": _estimates_sentence,
    "verification": _verification_sentence,
    "temperature": _temperature_sentence,
    "kinds": _kinds_sentence,
    "benchmark": _benchmark_sentence,
    "rejections": _rejections_sentence,
    "residual": _residual_sentence,
    "pareto": _pareto_sentence,
    "drafts": _drafts_sentence,
    "blocks": _blocks_sentence,
}


def _lossy_runs(traces: Sequence[Trace]) -> tuple[LossyRuns, ...]:
    groups: dict[tuple[float, str], list[Trace]] = {}
    for trace in traces:
        rule = "OPT" if trace.config.residual == "leftover" else "UNO"
        groups.setdefault((trace.config.epsilon, rule), []).append(trace)
    return tuple(
        LossyRuns(
            rule=rule,
            epsilon=epsilon,
            plane=theorem_checks.pareto(group),
            shown=theorem_checks.measured_bias(group),
        )
        for (epsilon, rule), group in groups.items()
    )


def _bias_text(check: theorem_checks.BiasCheck) -> str:
    if max(check.measured, check.expected, check.standard_error) < _ROUNDING:
        return f"{check.measured:.4f}, up to rounding"
    return (
        f"{check.measured:.4f} ± {check.standard_error:.4f} (expected {check.expected:.4f}, "
        f"z = {_signed(check.z)})"
    )


def _signed(z: float | None) -> str:
    return "none" if z is None else f"{z:+.1f}"


def _noise_text(z: float | None) -> str:
    """Describe a deviation of z standard deviations: z, and whether sampling noise explains it."""
    if z is None:
        return "no z, because the result is not random"
    noise = "within sampling noise" if abs(z) < _FIRM else "more than sampling noise"
    return f"z = {_signed(z)}: {noise}"


def _alpha(traces: Sequence[Trace]) -> float:
    """Return the mean expected α over all tested positions of the texts."""
    found = [metrics(trace, intervals=False) for trace in traces]
    return _mean([(each.alpha_expected, each.num_tested) for each in found])


def _tau_and_alpha(traces: Sequence[Trace]) -> str:
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
