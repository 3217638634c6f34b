"""A run's metrics as the player shows them: a verdict, four main metrics, and the others.

The metrics' names and definitions are in the catalogue, ``figures.catalogue``.
"""

from __future__ import annotations

from specviz.figures.body_words import SpeedupWithoutBody, body_sentences, cost_sentences
from specviz.figures.catalogue import CATALOGUE, Figure, titled
from specviz.figures.metrics import Metrics
from specviz.figures.round_cost import RoundCost, round_cost_of
from specviz.figures.speedup_words import (
    TOO_NOISY,
    contradiction_warning,
    headline,
    is_too_wide,
    is_wide,
    shown_speedup,
    speedup_sentence,
    timing_sentence,
    why_sentence,
)
from specviz.player.round_values import JsonObject
from specviz.record.numbers import COUNT, RATIO, STEPS, TOKENS, UNKNOWN
from specviz.record.trace import Trace

HEADLINES = ("alpha_observed", "tau", "speedup_observed", "tokens_per_second")
FINER = (
    "alpha_expected", "alpha_interval_coins", "alpha_interval_prompt", "draft_acceptance_rate",
    "speedup_interval", "speedup_forecast", "speedup_ideal", "speedup_accounted",
    "speedup_end_to_end", "speedup_limit", "break_even_alpha", "break_even_rate", "c", "v",
    "baseline_tokens_per_second", "ttft_ms", "wasted_share",
)  # fmt: skip
_PHASES = {"drafting": "draft", "verification": "verify", "other": "other"}  # of a round
OF_ALPHA = (  # left out if a run's candidates have no individual verdicts
    "alpha_observed", "alpha_expected", "alpha_interval_coins", "alpha_interval_prompt",
    "speedup_ideal", "speedup_forecast", "break_even_alpha",
)  # fmt: skip
IF_KNOWN = (  # shown only if known
    "outside_share",
    "parameters", "step_bytes", "bandwidth_share", "draft_bandwidth_share",
    "verify_bandwidth_share", "free_gamma",
)  # fmt: skip


def summary(
    trace: Trace,
    metrics: Metrics,
    *,
    sentence: str | None = None,
    growing: bool = False,
    so_far: bool = False,
    own_speedup: SpeedupWithoutBody | None = None,
    round_cost: RoundCost | None = None,
) -> JsonObject:
    """Return the headline and the bar chart above the player, and the metrics below the player.

    Args:
        sentence: Shown as the headline while the run has no verdict.
        growing: Whether the run is not finished.
        so_far: Whether the target alone is still being timed.
        own_speedup: The pair's speedup at its real size, if the run has simulated sizes.
        round_cost: The costs in the bar chart; by default the costs of this run's mean round.
    """
    if sentence:
        (lead, more), span, because = lead_of(sentence), "", ""
    else:
        lead, span = headline(metrics, trace, so_far=so_far)
        more = speedup_sentence(metrics, trace, so_far=so_far)
        because = _because(metrics, trace, so_far=so_far)
    beside = {
        "speedup_observed": _speedup_note(metrics, own_speedup, growing=growing, so_far=so_far),
        "tokens_per_second": _rate_note(metrics),
    }
    if is_too_wide(metrics.speedup_low, metrics.speedup_high):
        beside["speedup_interval"] = _unreported_note(so_far=so_far)
    return {
        "headline": lead,
        "span": span,
        "sizes": "" if sentence else _sizes(trace, own_speedup),
        "round_cost": _cost_bars(round_cost or round_cost_of(metrics)),
        "sentence": more,
        "because": because,
        "bodies": " ".join(_bodies(trace, metrics, own_speedup, growing=growing)),
        "lamp": "" if growing else contradiction_warning(metrics),
        "figures": [
            _card(CATALOGUE[name], metrics, beside.get(name)) for name in _headlines(trace)
        ],
        "finer": [
            _card(CATALOGUE[name], metrics, beside.get(name)) for name in _finer(trace, metrics)
        ],
    }


def lead_of(text: str) -> tuple[str, str]:
    """Split a text into its first sentence, without the full stop, and the other sentences."""
    lead, _, more = text.partition(". ")
    return lead.removesuffix("."), more


def _because(metrics: Metrics, trace: Trace, *, so_far: bool) -> str:
    timing = timing_sentence(metrics, trace, so_far=so_far)
    loses = metrics.speedup_high is not None and metrics.speedup_high < 1 and not so_far
    next_step = "The page Tune compares other values of γ and other methods." if loses else ""
    texts = (timing, why_sentence(metrics), next_step, *trace.notices)
    return " ".join(each for each in texts if each)


def _cost_bars(cost: RoundCost | None) -> JsonObject | None:
    """Return the data of the bar chart: the parts of a round's cost, and a caption."""
    if cost is None:
        return None
    phases = {each: getattr(cost, each) for each in _PHASES}
    shown = {word: STEPS.bare(phases[each]) for each, word in _PHASES.items()}
    parts = " + ".join(f"{word} {steps}" for word, steps in shown.items() if float(steps))
    total = STEPS.bare(sum(map(float, shown.values())))
    starts = {
        "measured": "Measured",
        "step costs": "By the step costs",
        "predicted": f"Predicted for γ {cost.gamma}{cost.size and f', {cost.size}'}",
    }
    words = f"{parts} = {total} target steps for {TOKENS.bare(cost.tokens)} tokens: "
    words += f"{RATIO.shown(cost.tokens / cost.cost)}."
    return phases | {
        "gamma": cost.gamma,
        "size": cost.size,
        "tokens": cost.tokens,
        "predicted": cost.source == "predicted",
        "caption": f"{starts[cost.source]}: {words}",
    }


def _sizes(trace: Trace, own: SpeedupWithoutBody | None) -> str:
    """Return the note on simulated sizes, with the speedup at the models' real sizes if known."""
    if not trace.pair.has_bodies:
        return ""
    bodies = trace.pair.bodies.items()
    sizes = " and ".join(f"{COUNT.shown(body.parameters)} {role}" for role, body in bodies)
    simulated = f"simulated {sizes}"
    return simulated if own is None else f"{simulated}; {_own_size(own)}"


def _own_size(own: SpeedupWithoutBody) -> str:
    return f"own size {shown_speedup(own.value, own.low, own.high)}"


def _bodies(
    trace: Trace, metrics: Metrics, own_speedup: SpeedupWithoutBody | None, *, growing: bool
) -> tuple[str, ...]:
    """Return sentences on simulated sizes.

    For a finished run, they also describe how these sizes affect the speedup.
    """
    if growing:
        return cost_sentences(trace.pair)
    return body_sentences(trace, metrics, own_speedup)


def _headlines(trace: Trace) -> tuple[str, ...]:
    if trace.config.has_alpha:
        return HEADLINES
    return tuple("draft_acceptance_rate" if each in OF_ALPHA else each for each in HEADLINES)


def _finer(trace: Trace, m: Metrics) -> tuple[str, ...]:
    known = [name for name in IF_KNOWN if CATALOGUE[name].of(m) is not None]
    names = (*FINER, *known)
    if trace.config.has_alpha:
        return names
    return tuple(name for name in names if name not in (*OF_ALPHA, "draft_acceptance_rate"))


def _card(figure: Figure, m: Metrics, note: str | None = None) -> JsonObject:
    """Return a metric with its label, value and help; ``note`` replaces the catalogue's note."""
    ranges = _ranges(m)
    ranged = figure.id in ranges
    return {
        "id": figure.id.replace("_", "-"),
        "label": titled(figure.label),
        "value": None if ranged else figure.of(m),
        "shown": _range(figure, ranges[figure.id]) if ranged else _shown(figure, m),
        "note": figure.note(m) if note is None else note,
        "help": figure.help(m),
    }


def _ranges(m: Metrics) -> dict[str, tuple[float, float] | None]:
    """Return the ends of each metric that is an interval, by its id; None for unknown ends."""
    coins, prompt = m.intervals.coins, m.intervals.prompt
    return {
        "alpha_interval_coins": (coins.low, coins.high) if coins else None,
        "alpha_interval_prompt": (prompt.low, prompt.high) if prompt else None,
        "speedup_interval": m.speedup_interval,
    }


def _range(figure: Figure, ends: tuple[float, float] | None) -> str:
    if ends is None or (figure.id == "speedup_interval" and is_too_wide(*ends)):
        return UNKNOWN
    return figure.quantity.between(*ends)


def _shown(figure: Figure, m: Metrics) -> str:
    """Return a metric's value as text. An imprecise speedup is shown as an interval or a dash."""
    ends = m.speedup_interval
    if figure.id == "speedup_observed" and ends is not None and is_wide(*ends):
        return UNKNOWN if is_too_wide(*ends) else figure.quantity.between(*ends)
    return figure.shown(m)


def _unreported_note(*, so_far: bool) -> str:
    return "still being timed" if so_far else TOO_NOISY


def _speedup_note(
    m: Metrics, own: SpeedupWithoutBody | None, *, growing: bool, so_far: bool
) -> str:
    if m.speedup_observed is None:
        return "measured after the run" if growing else "not measured"
    ends = m.speedup_interval
    notes = [] if ends is None or is_wide(*ends) else [RATIO.span(*ends)]
    if ends is not None and is_too_wide(*ends):
        notes = [_unreported_note(so_far=so_far)]
    if own is not None:
        notes.append(_own_size(own))
    if m.speedup_forecast is not None:
        notes.append(f"forecast {RATIO.shown(m.speedup_forecast)}")
    return " · ".join(notes)


def _rate_note(m: Metrics) -> str:
    alone, share = CATALOGUE["baseline_tokens_per_second"], CATALOGUE["bandwidth_share"]
    reached = share.of(m)  # above 1, caches served some of the reads
    read = "" if reached is None or reached > 1 else f" ({share.shown(m)} of the bandwidth)"
    return "" if alone.of(m) is None else f"target alone {alone.shown(m)}{read}"
