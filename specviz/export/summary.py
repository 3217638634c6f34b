"""A run's figures in words: the sentence, the four that a person asks for, and the finer ones.

Each figure's help gives its formula and the numbers that this run puts into it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from specviz.analysis import Interval, Metrics, speedup_limit, verdict_sentence, why_sentence
from specviz.trace import Trace

_NONE = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    id: str
    label: str
    value: float | None
    shown: str
    note: str = ""
    help: str = ""


def summary(
    trace: Trace, metrics: Metrics, *, sentence: str | None = None, growing: bool = False
) -> dict[str, Any]:
    """What the player shows above itself; ``sentence`` while there is no verdict yet."""
    return {
        "sentence": sentence or verdict_sentence(metrics, trace),
        "because": "" if sentence else why_sentence(metrics),
        "lamp": _lamp(metrics),
        "figures": [_plain(each) for each in headline_figures(trace, metrics, growing=growing)],
        "finer": [_plain(each) for each in finer_figures(trace, metrics)],
    }


def headline_figures(trace: Trace, m: Metrics, *, growing: bool = False) -> list[Figure]:
    return [
        Figure(
            id="alpha-observed",
            label="Accepted, α",
            value=m.alpha_observed,
            shown=_share(m.alpha_observed),
            note=f"{m.num_accepted} of {m.num_tested} tested",
            help=f"accepted / tested = {m.num_accepted} / {m.num_tested}. Candidates drafted "
            "after a rejected one were never tested and do not count.",
        ),
        Figure(
            id="tau",
            label="Tokens a round, τ",
            value=m.tau,
            shown=_number(m.tau, 2),
            note=f"of {trace.config.gamma + 1} possible",
            help=_tau_help(trace, m),
        ),
        Figure(
            id="speedup-observed",
            label="Speedup",
            value=m.speedup_observed,
            shown=_times(m.speedup_observed),
            note=_speedup_note(m, growing),
            help="time of the target alone along the same words / time of the speculative run, "
            f"without prefill{_rates(m)}.",
        ),
        Figure(
            id="tokens-per-second",
            label="Throughput",
            value=m.tokens_per_second,
            shown=_number(m.tokens_per_second, 0),
            note=_throughput_note(m),
            help="tokens of whole rounds / the time these rounds took, without prefill and "
            "without the price of the record.",
        ),
    ]


def finer_figures(trace: Trace, m: Metrics) -> list[Figure]:
    gamma = m.gamma
    return [
        Figure(
            id="alpha-expected",
            label="α expected",
            value=m.alpha_expected,
            shown=_share(m.alpha_expected, 3),
            note="before the draw",
            help=f"mean of Σ {_overlap(trace)} over the "
            f"{m.num_tested} tested positions: the odds before each token was drawn.",
        ),
        _interval("coins", "this run's coins", m.intervals.coins),
        _interval("prompt", "this prompt", m.intervals.prompt),
        Figure(
            id="draft-acceptance-rate",
            label="Draft acceptance rate",
            value=m.draft_acceptance_rate,
            shown=_share(m.draft_acceptance_rate, 3),
            note="what serving engines report",
            help=f"accepted / drafted = {m.num_accepted} / {m.num_drafted}. Not α: it counts "
            "candidates that were never tested.",
        ),
        Figure(
            id="speedup-forecast",
            label="Speedup, forecast",
            value=m.speedup_forecast,
            shown=_times(m.speedup_forecast),
            note="made before the run",
            help=_forecast_help(trace),
        ),
        Figure(
            id="speedup-ideal",
            label="Speedup, ideal",
            value=m.speedup_ideal,
            shown=_times(m.speedup_ideal),
            note="if verifying cost one step",
            help="(1 − α^(γ+1)) / ((1 − α)(γc + 1))" + _put_in(α=m.alpha_expected, γ=gamma, c=m.c),
        ),
        Figure(
            id="speedup-accounted",
            label="Speedup, accounted",
            value=m.speedup_accounted,
            shown=_times(m.speedup_accounted),
            note="what the two models explain",
            help="τ / (γc + v)" + _put_in(τ=m.tau, γ=gamma, c=m.c, v=m.v),
        ),
        Figure(
            id="speedup-end-to-end",
            label="Speedup, end to end",
            value=m.speedup_end_to_end,
            shown=_times(m.speedup_end_to_end),
            note="prefill included",
            help="(prefill + decode of the target alone) / (both prefills + decode).",
        ),
        Figure(
            id="speedup-limit",
            label="Speedup, limit",
            value=speedup_limit(m),
            shown=_times(speedup_limit(m)),
            note="if all were accepted",
            help="(γ + 1) / (γc + v)" + _put_in(γ=gamma, c=m.c, v=m.v),
        ),
        Figure(
            id="draft-cost",
            label="Draft step, c",
            value=m.c,
            shown=_share(m.c, 3),
            note="in target steps",
            help="draft step time / target step time, measured before the run.",
        ),
        Figure(
            id="verify-cost",
            label="Verify, v",
            value=m.v,
            shown=_number(m.v, 2),
            note="in target steps",
            help=f"time to verify γ + 1 = {'?' if gamma is None else gamma + 1} tokens / time of "
            "one target step, measured before the run.",
        ),
        Figure(
            id="baseline-tokens-per-second",
            label="Target alone",
            value=m.baseline_tokens_per_second,
            shown=_number(m.baseline_tokens_per_second, 0),
            note="tokens a second",
            help="plain decoding along the same words, in blocks before and after the "
            "timed repeats of the run.",
        ),
        Figure(
            id="ttft-ms",
            label="First round",
            value=m.ttft_ms,
            shown=_NONE if m.ttft_ms is None else f"{m.ttft_ms:.1f} ms",
            note=_first_token_note(m),
            help="both prefills and the first round: the time to the first tokens.",
        ),
        Figure(
            id="wasted-share",
            label="Drafting wasted",
            value=m.wasted_share,
            shown=_NONE if m.wasted_share is None else f"{100 * m.wasted_share:.0f} %",
            note="of the decode time",
            help="share of the decode time that went into drafting what was then thrown away.",
        ),
        Figure(
            id="drift",
            label="Drift",
            value=m.drift,
            shown=_NONE if m.drift is None else f"{100 * m.drift:.1f} %",
            note="noisy machine" if m.noisy else "between blocks",
            help="slowest block of a lane / its fastest, less 1. Above 5 % there is no verdict.",
        ),
    ]


def _overlap(trace: Trace) -> str:
    return "min(draft, target)" if trace.config.lossless else "min(draft, target + ε)"


def _interval(name: str, label: str, interval: Interval | None) -> Figure:
    shown = _NONE if interval is None else f"{_share(interval.low)}–{_share(interval.high)}"
    meaning = {
        "coins": "where the observed α falls by luck alone, the odds at the tested positions "
        "given; none at temperature 0.",
        "prompt": "where α of this prompt lies: block bootstrap over the rounds; none with fewer "
        "than ten rounds.",
    }
    return Figure(
        id=f"alpha-interval-{name}",
        label=f"α, {label}",
        value=None,
        shown=shown,
        note="95 % interval",
        help=meaning[name],
    )


def _tau_help(trace: Trace, m: Metrics) -> str:
    tokens = sum(len(entry.emitted) for entry in trace.rounds if entry.whole)
    cut = m.num_rounds - m.num_whole_rounds
    left_out = f" {cut} cut round{'s' * (cut > 1)} left out." if cut else ""
    return (
        f"tokens / whole rounds = {tokens} / {m.num_whole_rounds}, the recovered or bonus token "
        f"included.{left_out}"
    )


def _speedup_note(m: Metrics, growing: bool) -> str:
    if m.speedup_observed is None:
        return "measured after the run" if growing else "not measured"
    known = {"forecast": m.speedup_forecast, "ideal": m.speedup_ideal}
    return " · ".join(f"{name} {_times(v)}" for name, v in known.items() if v is not None)


def _throughput_note(m: Metrics) -> str:
    if m.baseline_tokens_per_second is None:
        return "tokens a second"
    return f"tokens/s · target alone {m.baseline_tokens_per_second:.0f}"


def _first_token_note(m: Metrics) -> str:
    if m.baseline_ttft_ms is None:
        return "with prefill"
    return f"target alone {m.baseline_ttft_ms:.1f} ms"


def _rates(m: Metrics) -> str:
    if m.tokens_per_second is None or m.baseline_tokens_per_second is None:
        return ""
    return f": {m.tokens_per_second:.1f} against {m.baseline_tokens_per_second:.1f} tokens/s"


def _forecast_help(trace: Trace) -> str:
    made = trace.forecast
    if made is None:
        return (
            "Made before a run, from step costs and acceptance on other texts of the same kind "
            "and temperature. For this run there was none to go by."
        )
    return (
        f"Made before the run, from step costs and acceptance on {made.num_texts} other texts of "
        f"the kind “{made.kind}”, which give τ = {made.tau:.2f}."
    )


def _put_in(**values: float | None) -> str:
    if any(value is None for value in values.values()):
        return "; not all of it is known here."
    parts = (f"{name} = {value:.4g}" for name, value in values.items() if value is not None)
    return f" with {', '.join(parts)}."


def _lamp(m: Metrics) -> str:
    limit, observed = speedup_limit(m), m.speedup_observed
    if limit is None or observed is None or observed <= limit * (1 + max(0.05, m.drift or 0.0)):
        return ""
    return (
        f"Measured {observed:.2f}×, but no more than {limit:.2f}× is possible at these step "
        "costs: they or the run were disturbed. Measure the step costs again (The pair)."
    )


def _plain(figure: Figure) -> dict[str, Any]:
    return {name: getattr(figure, name) for name in Figure.__slots__}


def _share(value: float | None, digits: int = 2) -> str:
    if value is None:
        return _NONE
    text = f"{value:.{digits}f}"
    return text[1:] if text.startswith("0.") else text


def _number(value: float | None, digits: int) -> str:
    return _NONE if value is None else f"{value:.{digits}f}"


def _times(value: float | None) -> str:
    return _NONE if value is None else f"{value:.2f}×"
