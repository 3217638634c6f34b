"""Each figure's help: its formula, and the numbers that this run puts into it.

Seconds and steps are worked out backwards from the figures, so that the parts shown are those
that the figure was made of.
"""

from __future__ import annotations

from dataclasses import dataclass

from specviz.player.cost_doubts import costs_doubt
from specviz.record.metrics import Metrics
from specviz.record.trace import Trace

_UNKNOWN = "; not all of it is known here."


def help_texts(trace: Trace, m: Metrics) -> dict[str, str]:
    """By the figure's id."""
    parts = _parts(trace, m)
    return _of_acceptance(trace, m, parts) | _of_speedup(trace, m, parts) | _of_time(m, parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """What the figures are made of; None where it was not measured."""

    tokens: int  # of whole rounds
    seconds: float | None
    target_seconds: float | None
    step: float | None  # of the target, seconds
    prefill: float  # of both models
    target_prefill: float | None  # of the target alone
    drafting: float  # of whole rounds, seconds
    decoding: float
    first_round: float | None
    doubt: str  # of the step costs, after a space; none is empty


def _parts(trace: Trace, m: Metrics) -> _Parts:
    whole = [entry for entry in trace.rounds if entry.whole]
    tokens = sum(len(entry.emitted) for entry in whole)
    context = sum(entry.context_length for entry in whole) / len(whole) if whole else None
    costs, baseline = trace.step_costs, trace.baseline
    doubt = costs_doubt(costs)
    return _Parts(
        tokens=tokens,
        seconds=_over(tokens, m.tokens_per_second),
        target_seconds=_over(tokens, m.baseline_tokens_per_second),
        step=None if costs is None or context is None else costs.target_step(context),
        prefill=trace.prefill.target + trace.prefill.draft,
        target_prefill=baseline.prefill if baseline else None,
        drafting=sum(entry.times.draft for entry in whole),
        decoding=sum(entry.times.decode for entry in whole),
        first_round=trace.rounds[0].times.decode if trace.rounds else None,
        doubt="" if doubt is None else f" {doubt}",
    )


def _of_acceptance(trace: Trace, m: Metrics, parts: _Parts) -> dict[str, str]:
    cut = m.num_rounds - m.num_whole_rounds
    left_out = f" {cut} cut round{'s' * (cut > 1)} left out." if cut else ""
    overlap = "min(draft, target)" if trace.config.lossless else "min(draft, target + ε)"
    expected = None if m.alpha_expected is None else m.alpha_expected * m.num_tested
    return {
        "alpha-observed": f"accepted / tested = {m.num_accepted} / {m.num_tested}. Candidates "
        "drafted after a rejected one were never tested and do not count.",
        "alpha-expected": f"sum of Σ {overlap} over the tested positions / their number"
        f"{_quotient(expected, m.num_tested)}. The odds before each token was drawn.",
        "alpha-interval-coins": "where the observed α falls by luck alone, the odds at the tested "
        "positions given; none at temperature 0.",
        "alpha-interval-prompt": "where α of this prompt lies: block bootstrap over the rounds; "
        "none with fewer than ten rounds.",
        "draft-acceptance-rate": f"accepted / drafted = {m.num_accepted} / {m.num_drafted}. Not "
        "α: it counts candidates that were never tested.",
        "tau": f"tokens / whole rounds = {parts.tokens} / {m.num_whole_rounds}, the recovered or "
        f"bonus token included.{left_out}",
    }


def _of_speedup(trace: Trace, m: Metrics, parts: _Parts) -> dict[str, str]:
    prefilled = _plus(parts.target_prefill, parts.target_seconds)
    costs = {"γ": m.gamma, "c": m.c, "v": m.v}
    alpha = m.alpha_observed if m.alpha_expected is None else m.alpha_expected
    return {
        "speedup-observed": "time of the target alone along the same words / time of the "
        f"speculative run, without prefill{_quotient(parts.target_seconds, parts.seconds, 's')}.",
        "speedup-forecast": _forecast(trace),
        "speedup-ideal": "(1 − α^(γ+1)) / ((1 − α)(γc + 1))"
        + _put_in(**{"α": alpha, "γ": m.gamma, "c": m.c}),
        "speedup-accounted": "τ / (γc + v)" + _put_in(**{"τ": m.tau} | costs),
        "speedup-end-to-end": "(prefill + decode of the target alone) / (both prefills + decode)"
        f"{_quotient(prefilled, _plus(parts.prefill, parts.seconds), 's')}.",
        "speedup-limit": "(γ + 1) / (γc + v)" + _put_in(**costs),
    }


def _of_time(m: Metrics, parts: _Parts) -> dict[str, str]:
    verified = "?" if m.gamma is None else m.gamma + 1
    wasted = None if m.wasted_share is None else m.wasted_share * parts.decoding
    round_ms = None if parts.first_round is None else 1000 * parts.first_round
    ttft = "" if round_ms is None else f": {1000 * parts.prefill:.4g} + {round_ms:.4g} ms"
    return {
        "tokens-per-second": "tokens of whole rounds / the time these rounds took"
        f"{_quotient(parts.tokens, parts.seconds, 's')}, without prefill and without the price "
        "of the record.",
        "draft-cost": "draft step time / target step time, measured before the run"
        f"{_steps(m.c, parts.step)}.{parts.doubt}",
        "verify-cost": f"time to verify γ + 1 = {verified} tokens / time of one target step, "
        f"measured before the run{_steps(m.v, parts.step)}.{parts.doubt}",
        "baseline-tokens-per-second": "plain decoding along the same words, in blocks before and "
        "after the timed repeats of the run: tokens / time"
        f"{_quotient(parts.tokens, parts.target_seconds, 's')}.",
        "ttft-ms": f"both prefills and the first round, the time to the first tokens{ttft}.",
        "wasted-share": "drafting that was then thrown away / the decode time"
        f"{_quotient(wasted, parts.decoding, 's')}.",
        "drift": "slowest block of a lane / its fastest, less 1"
        f"{'' if m.drift is None else f' = {1 + m.drift:.4g} − 1'}. Above 5 % there is no verdict.",
    }


def _forecast(trace: Trace) -> str:
    made, costs = trace.forecast, trace.step_costs
    if made is None:
        return (
            "Made before a run, from step costs and acceptance on other texts of the same kind "
            "and temperature. For this run there was none to go by."
        )
    gamma, c, v = trace.config.gamma, None, None
    if costs is not None:
        context = len(trace.prompt.token_ids) + trace.config.max_new_tokens / 2
        v = costs.verify(context, gamma + 1) / costs.target_step(context)
        c = (made.tau / made.speedup - v) / gamma
    return (
        f"τ / (γc + v){_put_in(**{'τ': made.tau, 'γ': gamma, 'c': c, 'v': v})} Made before the "
        f"run: τ from acceptance on {made.num_texts} other texts of the kind “{made.kind}”, c and "
        "v from step costs."
    )


def _quotient(part: float | None, whole: float | None, unit: str = "") -> str:
    if part is None or whole is None:
        return ""
    unit = unit and f" {unit}"
    first = f"{part}" if isinstance(part, int) else f"{part:.4g}{unit}"
    return f" = {first} / {whole:.4g}{unit}"


def _steps(share: float | None, step: float | None) -> str:
    if share is None or step is None:
        return ""
    return f" = {1000 * share * step:.4g} ms / {1000 * step:.4g} ms"


def _put_in(**values: float | None) -> str:
    if any(value is None for value in values.values()):
        return _UNKNOWN
    parts = (f"{name} = {value:.4g}" for name, value in values.items() if value is not None)
    return f" with {', '.join(parts)}."


def _over(tokens: int, rate: float | None) -> float | None:
    return tokens / rate if rate else None


def _plus(*seconds: float | None) -> float | None:
    known = [each for each in seconds if each is not None]
    return sum(known) if len(known) == len(seconds) else None
