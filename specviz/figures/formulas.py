"""Texts of the catalogue that contain a run's numbers.

Each text is a caveat, a note, or the numbers shown after a formula. Most texts are empty if one of
their numbers was not measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from specviz.figures.roofline_words import ABOVE_BANDWIDTH, ends_of, is_above_bandwidth
from specviz.figures.speedup_words import UNCERTAIN, is_too_wide
from specviz.figures.step_cost_warnings import step_cost_warning
from specviz.figures.step_times import step_times
from specviz.record.numbers import MILLISECONDS, PERCENT, PROBABILITY, RATIO, SIZE

if TYPE_CHECKING:
    from specviz.figures.metrics import Metrics
    from specviz.figures.roofline import Pass
    from specviz.record.trace import Forecast

_PER_SECOND = {"": 1, "s": 1, "ms": 1000}


def quotient(part: float | None, whole: float | None, unit: str = "") -> str:
    """Return " = part / whole". Floats are seconds, shown in ``unit``; integers are counts."""
    if part is None or not whole:
        return ""
    first = f"{part}" if isinstance(part, int) else _amount(part, unit)
    return f" = {first} / {f'{whole}' if isinstance(whole, int) else _amount(whole, unit)}"


def sum_of(*seconds: float | None) -> str:
    known = [1000 * each for each in seconds if each is not None]
    if len(known) < len(seconds):
        return ""
    return f" = {' + '.join(f'{each:.4g}' for each in known)} ms"


def put_in(values: Mapping[str, float | None]) -> str:
    known = {name: value for name, value in values.items() if value is not None}
    if len(known) < len(values):
        return "; some of these are unknown"
    return f" with {', '.join(f'{name} = {value:.4g}' for name, value in known.items())}"


def round_costs(m: Metrics) -> dict[str, float | None]:
    """Return the symbols in the cost of a round, γc + v + o, with their values."""
    return {"γ": m.gamma, "c": m.c, "v": m.v, "o": m.steps.overhead_cost}


def beside_break_even(m: Metrics) -> str:
    return "" if m.alpha is None else f"this run has α {PROBABILITY.shown(m.alpha)}"


def rate_beside_break_even(m: Metrics) -> str:
    rate = m.draft_acceptance_rate
    return "" if rate is None else f"{PERCENT.shown(rate)} in this run"


def source_of_costs(m: Metrics) -> str:
    """Return, as text, which runs the step costs come from."""
    costs = m.trace.step_costs
    if costs is None or not costs.runs:
        return "explained by step costs"
    if costs.of_this_run:
        return "step costs fitted to this run, so no independent test"
    return f"from the step costs of {costs.runs} earlier run{'s' * (costs.runs > 1)}"


def accounted_note(m: Metrics) -> str:
    """Return the interval of the accounted speedup and the source of its step costs."""
    ends = m.accounted_interval
    span = [] if ends is None else [UNCERTAIN if is_too_wide(*ends) else RATIO.span(*ends)]
    return ", ".join([*span, source_of_costs(m)])


def forecast_numbers(m: Metrics) -> str:
    """Return τ, γ, c, v and o of the forecast.

    The step costs alone do not give c. After a bonus token, the first draft step is fed two tokens
    and takes longer, and the forecast does not store how many rounds it expected after a bonus. So
    c is computed from the forecast itself: the cost of a round is τ / speedup, and c is
    (cost - v - o) / γ.
    """
    made, costs, config = m.trace.forecast, m.trace.step_costs, m.trace.config
    if made is None:
        return ""
    context, gamma = len(m.trace.prompt.token_ids) + config.max_new_tokens / 2, config.depth
    times = costs and step_times(costs, context, config.gamma, drafts=False)
    v = times and times.v
    if times is None or v is None or not gamma:
        return put_in({"τ": made.tau, "γ": gamma, "c": None, "v": v})
    c = (made.tau / made.speedup - v - times.overhead_cost) / gamma
    return put_in({"τ": made.tau, "γ": gamma, "c": c, "v": v, "o": times.overhead_cost})


def forecast_origin(m: Metrics) -> str:
    """Return what the forecast is based on, or why the run has no forecast."""
    made, config = m.trace.forecast, m.trace.config
    if made is not None:
        source = f"before the run, from {made.num_texts} {made.kind} texts"
        return ", ".join([*_forecast_interval(made), source])
    if not config.draft_method.needs_draft:
        return "needs a draft model"
    if not (config.by_odds and config.fixed_length):
        return "no formula for this method"
    if m.trace.prompt.kind is None:
        return "needs a preset prompt"
    return "step costs or acceptance were unknown"


def _forecast_interval(made: Forecast) -> list[str]:
    if made.low is None or made.high is None or made.from_text is None:
        return []
    if is_too_wide(made.low, made.high):
        return [UNCERTAIN]
    parts = f"{PERCENT.shown(made.from_text)} of the variance comes from the text, the rest from"
    return [f"{RATIO.span(made.low, made.high)} ({parts} costs and timing)"]


def lossy_odds(m: Metrics) -> str:
    exact = m.trace.config.exact
    return "" if exact else "This run's rule adds ε to the target: min(draft, target + ε)"


def draft_counts(m: Metrics) -> str:
    return f"{m.num_accepted} of {m.num_drafted} drafted candidates were accepted"


def first_token(m: Metrics) -> str:
    alone, copied = m.baseline_ttft_ms, m.trace.prefill.copied
    return "; ".join(
        [
            *([] if alone is None else [f"target alone {MILLISECONDS.shown(alone)}"]),
            *([f"{copied} tokens were already in the KV caches"] if copied else []),
        ]
    )


def cut_left_out(m: Metrics) -> str:
    cut = m.num_rounds - m.num_whole_rounds
    return f"{cut} cut round{'s' * (cut > 1)} left out" if cut else ""


def step_cost_caveat(m: Metrics) -> str:
    return step_cost_warning(m.trace.step_costs) or ""


def bytes_shared(m: Metrics, made: Pass | None) -> str:
    found = m.roofline
    if found is None or found.bandwidth is None or made is None or made.read is None:
        return ""
    read, bandwidth = SIZE.shown(made.read), SIZE.shown(found.bandwidth)
    return f" = {read} / ({_amount(made.seconds, 'ms')} · {bandwidth}/s)"


def share_of(made: Pass | None) -> str:
    if made is None or made.share is None:
        return ""
    above = f", {ABOVE_BANDWIDTH}" if is_above_bandwidth(made) else ""
    return f"of {SIZE.shown(made.bandwidth)}/s{above}"


def free_numbers(m: Metrics) -> str:
    """Return, as text, v at the largest free γ (see `FreeGamma`) and at the next γ, if known."""
    found = m.roofline
    if found is None or found.free is None:
        return ""
    step, free = found.target.seconds, found.free
    near = (free.gamma, free.gamma + 1)
    values = [f"v = {found.passes[g].seconds / step:.4g} at γ {g}" for g in near if g <= free.last]
    return f": {', '.join(values)}"


def free_ends(m: Metrics) -> str:
    """Return the interval of the largest free γ (see `FreeGamma`); empty if it is unknown."""
    found = m.roofline
    if found is None or found.free is None:
        return ""
    if span := ends_of(found.free):
        return f"interval: γ {span}"
    return "or more: the table ends at this γ" if found.free.open else ""


def _amount(seconds: float, unit: str) -> str:
    return f"{_PER_SECOND[unit] * seconds:.4g}{unit and f' {unit}'}"


def timed_interval(m: Metrics) -> str:
    if m.speedup_interval is None:
        return "" if m.speedup_observed is None else "timed once: no interval"
    return f"{RATIO.span(*m.speedup_interval)}, {timed_pairs(m)}"


def timed_pairs(m: Metrics) -> str:
    """Return text with the number of slices of the run.

    In each slice, some rounds of the run were timed beside the target alone.
    """
    if m.speedup_pairs is None:
        return ""
    return f"{m.speedup_pairs} timed slice{'s' * (m.speedup_pairs != 1)}"


def give_or_take(error: float | None) -> str:
    """Return ", ± x %"; empty if the error is unknown or at least 1.

    ``error`` is the half-width of the interval, relative to the value.
    """
    return "" if error is None or error >= 1 else f", ± {PERCENT.shown(error)}"
