"""A run's figures as the player shows them: the verdict in a sentence, four headlines, the others.

Their names and definitions are in the catalogue, ``record.figures``.
"""

from __future__ import annotations

from typing import Any

from specviz.record.body_words import body_sentences, cost_sentences
from specviz.record.figures import CATALOGUE, Figure, titled
from specviz.record.metrics import Interval, Metrics
from specviz.record.numbers import RATIO, UNKNOWN
from specviz.record.speedup_words import speedup_sentence, why_sentence
from specviz.record.trace import Trace

JsonObject = dict[str, Any]

HEADLINES = ("alpha_observed", "tau", "speedup_observed", "tokens_per_second")
FINER = (
    "alpha_expected", "alpha_interval_coins", "alpha_interval_prompt", "draft_acceptance_rate",
    "speedup_forecast", "speedup_ideal", "speedup_accounted", "speedup_end_to_end",
    "speedup_limit", "c", "v", "baseline_tokens_per_second", "ttft_ms", "wasted_share", "drift",
)  # fmt: skip
OF_BODIES = ("parameters", "step_bytes", "bandwidth_share")  # shown only where there is a body


def summary(
    trace: Trace,
    metrics: Metrics,
    *,
    sentence: str | None = None,
    growing: bool = False,
    own_speedup: float | None = None,
) -> JsonObject:
    """What stands above the player; ``sentence`` takes the verdict's place while there is none.

    ``own_speedup`` is that of the same pair without bodies, where the run has some.
    """
    beside = {
        "speedup_observed": _speedup_note(metrics, growing, own_speedup),
        "tokens_per_second": _rate_note(metrics),
    }
    return {
        "sentence": sentence or speedup_sentence(metrics, trace),
        "because": "" if sentence else why_sentence(metrics),
        "bodies": " ".join(_bodies(trace, metrics, own_speedup, growing=growing)),
        "lamp": _lamp(metrics),
        "figures": [_card(CATALOGUE[name], metrics, beside.get(name)) for name in HEADLINES],
        "finer": [_card(CATALOGUE[name], metrics) for name in _finer(metrics)],
    }


def _bodies(
    trace: Trace, metrics: Metrics, own_speedup: float | None, *, growing: bool
) -> tuple[str, ...]:
    """While a run grows, what its bodies are; then also what they do to its speedup."""
    if growing:
        return cost_sentences(trace.pair)
    return body_sentences(trace, metrics, own_speedup)


def _finer(m: Metrics) -> tuple[str, ...]:
    return FINER if m.parameters is None else (*FINER, *OF_BODIES)


def _card(figure: Figure, m: Metrics, note: str | None = None) -> JsonObject:
    """A figure with its help; ``note`` replaces that of the catalogue."""
    intervals = {
        "alpha_interval_coins": m.intervals.coins,
        "alpha_interval_prompt": m.intervals.prompt,
    }
    ranged = figure.id in intervals
    return {
        "id": figure.id.replace("_", "-"),
        "label": titled(figure.label),
        "value": None if ranged else figure.of(m),
        "shown": _range(figure, intervals[figure.id]) if ranged else figure.shown(m),
        "note": figure.note(m) if note is None else note,
        "help": figure.help(m),
    }


def _range(figure: Figure, interval: Interval | None) -> str:
    return UNKNOWN if interval is None else figure.quantity.between(interval.low, interval.high)


def _speedup_note(m: Metrics, growing: bool, own: float | None) -> str:
    if m.speedup_observed is None:
        return "measured after the run" if growing else "not measured"
    known = {
        "without a body": own,
        "forecast": m.speedup_forecast,
        "ideal": m.speedup_ideal,
    }
    return " · ".join(f"{name} {RATIO.shown(v)}" for name, v in known.items() if v is not None)


def _rate_note(m: Metrics) -> str:
    alone, share = CATALOGUE["baseline_tokens_per_second"], CATALOGUE["bandwidth_share"]
    read = "" if share.of(m) is None else f", {share.shown(m)} of the bandwidth"
    return "" if alone.of(m) is None else f"target alone {alone.shown(m)}{read}"


def _lamp(m: Metrics) -> str:
    limit, observed = m.speedup_limit, m.speedup_observed
    if limit is None or observed is None or observed <= limit * (1 + max(0.05, m.drift or 0.0)):
        return ""
    return (
        f"Measured {RATIO.shown(observed)}, but no more than {RATIO.shown(limit)} is possible at "
        "these step costs: they or the run were disturbed. Measure the step costs again "
        "(The pair)."
    )
