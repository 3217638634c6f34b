"""A run's figures in words: the sentence, the four that a person asks for, and the finer ones.

What each means stands in ``figure_help``.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from specviz.player.figure_help import help_texts
from specviz.record.metrics import Interval, Metrics
from specviz.record.trace import Trace
from specviz.record.verdict_words import verdict_sentence, why_sentence

_NONE = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    id: str
    label: str
    value: float | None
    shown: str
    note: str = ""


def summary(
    trace: Trace, metrics: Metrics, *, sentence: str | None = None, growing: bool = False
) -> dict[str, Any]:
    """What the player shows above itself; ``sentence`` while there is no verdict yet."""
    helps = help_texts(trace, metrics)

    def helped(figure: Figure) -> dict[str, Any]:
        return asdict(figure) | {"help": helps[figure.id]}

    return {
        "sentence": sentence or verdict_sentence(metrics, trace),
        "because": "" if sentence else why_sentence(metrics),
        "lamp": _lamp(metrics),
        "figures": [helped(each) for each in headline_figures(trace, metrics, growing=growing)],
        "finer": [helped(each) for each in finer_figures(metrics)],
    }


def headline_figures(trace: Trace, m: Metrics, *, growing: bool = False) -> list[Figure]:
    return [
        Figure(
            id="alpha-observed",
            label="Accepted, α",
            value=m.alpha_observed,
            shown=_share(m.alpha_observed),
            note=f"{m.num_accepted} of {m.num_tested} tested",
        ),
        Figure(
            id="tau",
            label="Tokens a round, τ",
            value=m.tau,
            shown=_number(m.tau, 2),
            note=f"of {trace.config.gamma + 1} possible",
        ),
        Figure(
            id="speedup-observed",
            label="Speedup",
            value=m.speedup_observed,
            shown=_times(m.speedup_observed),
            note=_speedup_note(m, growing),
        ),
        Figure(
            id="tokens-per-second",
            label="Throughput",
            value=m.tokens_per_second,
            shown=_number(m.tokens_per_second, 0),
            note=_throughput_note(m),
        ),
    ]


def finer_figures(m: Metrics) -> list[Figure]:
    return [
        Figure(
            id="alpha-expected",
            label="α expected",
            value=m.alpha_expected,
            shown=_share(m.alpha_expected, 3),
            note="before the draw",
        ),
        _interval("coins", "this run's coins", m.intervals.coins),
        _interval("prompt", "this prompt", m.intervals.prompt),
        Figure(
            id="draft-acceptance-rate",
            label="Draft acceptance rate",
            value=m.draft_acceptance_rate,
            shown=_share(m.draft_acceptance_rate, 3),
            note="what serving engines report",
        ),
        Figure(
            id="speedup-forecast",
            label="Speedup, forecast",
            value=m.speedup_forecast,
            shown=_times(m.speedup_forecast),
            note="made before the run",
        ),
        Figure(
            id="speedup-ideal",
            label="Speedup, ideal",
            value=m.speedup_ideal,
            shown=_times(m.speedup_ideal),
            note="if verifying cost one step",
        ),
        Figure(
            id="speedup-accounted",
            label="Speedup, accounted",
            value=m.speedup_accounted,
            shown=_times(m.speedup_accounted),
            note="what the two models explain",
        ),
        Figure(
            id="speedup-end-to-end",
            label="Speedup, end to end",
            value=m.speedup_end_to_end,
            shown=_times(m.speedup_end_to_end),
            note="prefill included",
        ),
        Figure(
            id="speedup-limit",
            label="Speedup, limit",
            value=m.speedup_limit,
            shown=_times(m.speedup_limit),
            note="if all were accepted",
        ),
        Figure(
            id="draft-cost",
            label="Draft step, c",
            value=m.c,
            shown=_share(m.c, 3),
            note="in target steps",
        ),
        Figure(
            id="verify-cost",
            label="Verify, v",
            value=m.v,
            shown=_number(m.v, 2),
            note="in target steps",
        ),
        Figure(
            id="baseline-tokens-per-second",
            label="Target alone",
            value=m.baseline_tokens_per_second,
            shown=_number(m.baseline_tokens_per_second, 0),
            note="tokens a second",
        ),
        Figure(
            id="ttft-ms",
            label="First round",
            value=m.ttft_ms,
            shown=_NONE if m.ttft_ms is None else f"{m.ttft_ms:.1f} ms",
            note=_first_token_note(m),
        ),
        Figure(
            id="wasted-share",
            label="Drafting wasted",
            value=m.wasted_share,
            shown=_NONE if m.wasted_share is None else f"{100 * m.wasted_share:.0f} %",
            note="of the decode time",
        ),
        Figure(
            id="drift",
            label="Drift",
            value=m.drift,
            shown=_NONE if m.drift is None else f"{100 * m.drift:.1f} %",
            note="noisy machine" if m.noisy else "between blocks",
        ),
    ]


def _interval(name: str, label: str, interval: Interval | None) -> Figure:
    shown = _NONE if interval is None else f"{_share(interval.low)}–{_share(interval.high)}"
    return Figure(
        id=f"alpha-interval-{name}",
        label=f"α, {label}",
        value=None,
        shown=shown,
        note="95 % interval",
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


def _lamp(m: Metrics) -> str:
    limit, observed = m.speedup_limit, m.speedup_observed
    if limit is None or observed is None or observed <= limit * (1 + max(0.05, m.drift or 0.0)):
        return ""
    return (
        f"Measured {observed:.2f}×, but no more than {limit:.2f}× is possible at these step "
        "costs: they or the run were disturbed. Measure the step costs again (The pair)."
    )


def _share(value: float | None, digits: int = 2) -> str:
    if value is None:
        return _NONE
    text = f"{value:.{digits}f}"
    return text[1:] if text.startswith("0.") else text


def _number(value: float | None, digits: int) -> str:
    return _NONE if value is None else f"{value:.{digits}f}"


def _times(value: float | None) -> str:
    return _NONE if value is None else f"{value:.2f}×"
