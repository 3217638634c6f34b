"""Render a run's measured values as an aligned table, with the reason for each unknown value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from specviz.cli.render import CUTS, lossy_line
from specviz.cli.terminal_text import INDENT, Painter, one_line, pad, paragraph, wrap_text
from specviz.figures.catalogue import CATALOGUE, Figure
from specviz.figures.speedup_words import UNCERTAIN
from specviz.figures.step_cost_warnings import step_cost_warning
from specviz.record.numbers import PROBABILITY, UNKNOWN
from specviz.record.trace import Finish, Trace

if TYPE_CHECKING:
    from specviz.figures.metrics import Interval, Metrics
    from specviz.figures.roofline import Pass

Row = tuple[str, str, str, str]  # label, number, unit, note

LABEL_COLUMNS = 23
NUMBER_COLUMNS = 7
UNIT_COLUMNS = 5
NOTE_START = 2 * len(INDENT) + LABEL_COLUMNS + NUMBER_COLUMNS + UNIT_COLUMNS
BAR_COLUMNS = 20
POSITIONS_SHOWN = 8

NOT_MEASURED = "the target alone was not measured"
NO_WHOLE_ROUND = "no whole round"
NO_ROUND = "no round"
NOT_OF_SHAPE = "step costs cover one chain only"
NO_FORMULA = "only for one chain of γ candidates"
NO_BANDWIDTH = "these step costs include no memory bandwidth"
NOT_COUNTED = "these step costs include no byte counts"
NO_DRAFT = "no draft step was timed"
NOT_VERIFIED = "no verification was timed"
NO_COSTS = "no step costs in this trace"
NO_TABLE = "needs a full table of step costs: --measure-costs"
NOTHING_TESTED = "no candidate was tested"
NOTHING_DRAFTED = "nothing was drafted"

FINISHES: dict[Finish, str] = {**CUTS, "stopped": "stopped by hand"}


def render_figures(
    painter: Painter,
    trace: Trace,
    metrics: Metrics,
    sentence: str,
    bodies: Sequence[str] = (),
) -> str:
    """Render the verdict, tables of values, the machine, how the run ended, and notes.

    Args:
        sentence: The verdict.
        bodies: Sentences about the simulated sizes of the models.
    """
    lossy = [] if trace.config.exact else [INDENT + lossy_line(painter, trace.config)]
    blocks = [
        "\n".join([paragraph(painter, sentence, "bold"), *lossy]),
        *([paragraph(painter, " ".join(bodies))] if bodies else []),
        _group(painter, "speed", _speed(trace, metrics)),
        _group(painter, "acceptance", _acceptance(trace, metrics)),
        _group(painter, "costs", _costs(trace, metrics)),
        _group(painter, "memory", _memory(trace, metrics)),
        _machine_and_finish(painter, trace),
        *(paragraph(painter, f"note: {notice}") for notice in _notices(trace)),
    ]
    return "\n\n".join(blocks)


def _notices(trace: Trace) -> Iterator[str]:
    yield from trace.notices
    if warning := step_cost_warning(trace.step_costs):
        yield (
            f"{warning} So c, v and the accounted and forecast speedups may be inaccurate; every "
            "timed run on an idle machine makes them more precise."
        )


def _group(painter: Painter, title: str, rows: Iterator[Row]) -> str:
    lines = [INDENT + painter.paint(title, "bold")]
    for row in rows:
        lines += _row(painter, row)
    return "\n".join(lines)


def _row(painter: Painter, row: Row) -> list[str]:
    """Return the lines of a row; a long note continues on further lines."""
    label, number, unit, note = row
    width = max(painter.width - NOTE_START, BAR_COLUMNS)
    lines = wrap_text([(one_line(note), "dim")], width)
    notes = [painter.join(line) for line in lines]
    figure = pad(f"{number:>{NUMBER_COLUMNS}} {unit}", NUMBER_COLUMNS + UNIT_COLUMNS)
    first = f"{2 * INDENT}{pad(label, LABEL_COLUMNS)}{figure}{notes[0]}".rstrip()
    return [first, *(" " * NOTE_START + each for each in notes[1:])]


def _speed(trace: Trace, metrics: Metrics) -> Iterator[Row]:
    unmeasured = NOT_MEASURED if trace.baseline is None else NO_WHOLE_ROUND
    uncosted = _why_no_costs(trace)
    reasons = {
        "speedup_observed": unmeasured,
        "speedup_forecast": CATALOGUE["speedup_forecast"].note(metrics),
        "speedup_accounted": uncosted,
        "speedup_ideal": uncosted if trace.config.has_ideal else NO_FORMULA,
        "speedup_limit": uncosted,
        "break_even_alpha": uncosted if trace.config.has_ideal else NO_FORMULA,
        "break_even_rate": uncosted,
        "speedup_end_to_end": unmeasured,
        "tokens_per_second": NO_WHOLE_ROUND,
        "baseline_tokens_per_second": unmeasured,
    }
    return _rows(metrics, reasons)


def _why_no_costs(trace: Trace) -> str:
    if trace.step_costs is None:
        return NO_COSTS
    return NO_WHOLE_ROUND if trace.config.is_chain else NOT_OF_SHAPE


def _acceptance(trace: Trace, metrics: Metrics) -> Iterator[Row]:
    intervals = metrics.intervals
    spread = _interval(intervals.prompt) or "too few rounds for an interval"
    noiseless = "no sampling noise at temperature 0"
    coins = noiseless if trace.config.greedy else _interval(intervals.coins)
    notes = {"alpha_observed": spread, "alpha_expected": coins}
    untested = trace.config.without_alpha or NOTHING_TESTED
    reasons = {
        "alpha_observed": untested,
        "alpha_expected": untested,
        "draft_acceptance_rate": NOTHING_DRAFTED,
        "tau": NO_WHOLE_ROUND,
    }
    if metrics.outside_share is not None:
        reasons["outside_share"] = ""
    yield from _rows(metrics, reasons, notes)
    yield from _by_position(metrics.alpha_by_position)


def _interval(interval: Interval | None) -> str:
    if interval is None:
        return ""
    return f"{PROBABILITY.between(interval.low, interval.high)}, {interval.label}"


def _by_position(shares: Sequence[float | None]) -> Iterator[Row]:
    for index, share in enumerate(shares[:POSITIONS_SHOWN]):
        bar = "" if share is None else _bar(share)
        shown = PROBABILITY.shown(share)
        yield f"α at position {index + 1}", shown, "", "never tested" if share is None else bar
    more = len(shares) - POSITIONS_SHOWN
    if more > 0:
        yield "", "", "", f"and {more} more with --json"


def _bar(share: float) -> str:
    halves = round(share * BAR_COLUMNS * 2)
    return "━" * (halves // 2) + "╸" * (halves % 2)


def _costs(trace: Trace, metrics: Metrics) -> Iterator[Row]:
    uncosted = _why_no_costs(trace)
    reasons = {"c": uncosted, "v": uncosted, "ttft_ms": NO_ROUND, "wasted_share": NO_WHOLE_ROUND}
    return _rows(metrics, reasons)


def _memory(trace: Trace, metrics: Metrics) -> Iterator[Row]:
    body, found = trace.pair.target.body, metrics.roofline
    if body is not None:
        yield from _rows(metrics, {"parameters": ""}, {"parameters": body.label})
    uncosted = NO_COSTS if trace.step_costs is None else NO_WHOLE_ROUND

    def why(made: Pass | None, untimed: str) -> str:
        if found is None:
            return uncosted
        if made is None:
            return untimed
        return NO_BANDWIDTH if found.bandwidth is None else NOT_COUNTED

    reasons = {
        "step_bytes": uncosted if found is None else NOT_COUNTED,
        "bandwidth_share": why(found and found.target, uncosted),
        "draft_bandwidth_share": why(found and found.draft, NO_DRAFT),
        "verify_bandwidth_share": why(found and found.verification, NOT_OF_SHAPE),
        "free_gamma": uncosted if found is None else _why_not_free(trace),
    }
    yield from _rows(metrics, reasons)


def _why_not_free(trace: Trace) -> str:
    costs = trace.step_costs
    if costs is not None and not costs.table:
        return NO_TABLE
    return NOT_VERIFIED if costs is None or len(costs.target) < 2 else UNCERTAIN


def _machine_and_finish(painter: Painter, trace: Trace) -> str:
    lines = (_machine(trace), _finish(trace))
    return "\n".join(paragraph(painter, line, "dim") for line in lines)


def _machine(trace: Trace) -> str:
    place = trace.environment
    threads = f"{place.threads} thread{'s' * (place.threads != 1)}"
    parts = [f"pair {trace.pair.name}", place.device, place.device_name, place.dtype, threads]
    parts += [f"step {trace.pair.target.step}", *_weights(trace), *_bodies(trace)]
    return " · ".join(dict.fromkeys(parts))


def _weights(trace: Trace) -> Iterator[str]:
    for role, model in (("target", trace.pair.target), ("draft", trace.pair.draft)):
        if model is not None and model.weights:
            yield f"{role} in {model.weights}"


def _bodies(trace: Trace) -> Iterator[str]:
    for role, model in (("target", trace.pair.target), ("draft", trace.pair.draft)):
        if model is not None and model.body is not None:
            yield f"{role} enlarged to {model.body.label}"


def _finish(trace: Trace) -> str:
    tokens, rounds = len(trace.token_ids), len(trace.rounds)
    count = f"{tokens} token{'s' * (tokens != 1)} in {rounds} round{'s' * (rounds != 1)}"
    return f"{count}, {FINISHES[trace.finish]}"


def _rows(
    metrics: Metrics, reasons: Mapping[str, str], notes: Mapping[str, str] | None = None
) -> Iterator[Row]:
    """Yield a table row for each id in ``reasons``.

    Args:
        reasons: The ids of the values to show, each with a text to show if the value is unknown.
        notes: Notes by id. A value without a note in ``notes`` gets its note from the catalogue.
    """
    for name, reason in reasons.items():
        figure = CATALOGUE[name]
        note = (notes or {}).get(name)
        yield _figure(figure, metrics, reason, figure.note(metrics) if note is None else note)


def _figure(figure: Figure, metrics: Metrics, reason: str, note: str) -> Row:
    """Return a table row; if the value is unknown, ``reason`` replaces ``note``."""
    value, quantity = figure.of(metrics), figure.quantity
    if value is None:
        return figure.label, UNKNOWN, "", reason
    return figure.label, quantity.bare(value), quantity.unit.strip(), note
