"""The figures of a run as an aligned table; one that cannot be known says why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from specviz.cli.painter import Painter, Piece, Style, one_line, pad, wrap_text
from specviz.cli.render import CUTS, INDENT, lossy_line
from specviz.player.cost_doubts import costs_doubt
from specviz.record.trace import Finish, Trace

if TYPE_CHECKING:
    from specviz.record.metrics import Interval, Metrics

Row = tuple[str, str, str, str]  # label, number, unit, note

LABEL_COLUMNS = 23
NUMBER_COLUMNS = 7
UNIT_COLUMNS = 5
NOTE_START = 2 * len(INDENT) + LABEL_COLUMNS + NUMBER_COLUMNS + UNIT_COLUMNS
BAR_COLUMNS = 20
POSITIONS_SHOWN = 8
UNKNOWN = "–"

NOT_MEASURED = "the target alone was not measured"
NO_WHOLE_ROUND = "no whole round"
NO_COSTS = "no step costs in this trace"
NOTHING_TESTED = "no candidate was tested"
NOTHING_DRAFTED = "nothing was drafted"

FINISHES: dict[Finish, str] = {**CUTS, "stopped": "stopped by hand"}


def render_figures(painter: Painter, trace: Trace, metrics: Metrics, sentence: str) -> str:
    """The verdict, the groups of figures, then where the run was made and what to know of it."""
    lossy = [] if trace.config.lossless else [INDENT + lossy_line(painter, trace.config)]
    blocks = [
        "\n".join([_paragraph(painter, sentence, "bold"), *lossy]),
        _group(painter, "speed", _speed(trace, metrics)),
        _group(painter, "acceptance", _acceptance(trace, metrics)),
        _group(painter, "costs", _costs(trace, metrics)),
        _whereabouts(painter, trace),
        *(_paragraph(painter, f"note: {notice}", "plain") for notice in _notices(trace)),
    ]
    return "\n\n".join(blocks)


def _notices(trace: Trace) -> Iterator[str]:
    yield from trace.notices
    if doubt := costs_doubt(trace.step_costs):
        yield (
            f"{doubt} So c, v, accounted and forecast may be off; "
            "`run --measure-costs` measures them again."
        )


def _group(painter: Painter, title: str, rows: Iterator[Row]) -> str:
    lines = [INDENT + painter.paint(title, "bold")]
    for row in rows:
        lines += _row(painter, row)
    return "\n".join(lines)


def _row(painter: Painter, row: Row) -> list[str]:
    """A row of the table; its note wraps under itself."""
    label, number, unit, note = row
    lines = _wrapped(one_line(note), painter.width - NOTE_START, "dim")
    notes = [painter.join(line) for line in lines]
    figure = pad(f"{number:>{NUMBER_COLUMNS}} {unit}", NUMBER_COLUMNS + UNIT_COLUMNS)
    first = f"{2 * INDENT}{pad(label, LABEL_COLUMNS)}{figure}{notes[0]}".rstrip()
    return [first, *(" " * NOTE_START + each for each in notes[1:])]


def _paragraph(painter: Painter, text: str, style: Style) -> str:
    lines = _wrapped(one_line(text), painter.width - len(INDENT), style)
    return "\n".join(INDENT + painter.join(line) for line in lines)


def _wrapped(text: str, width: int, style: Style) -> list[list[Piece]]:
    return wrap_text([(text, style)], max(width, BAR_COLUMNS))


def _speed(trace: Trace, metrics: Metrics) -> Iterator[Row]:
    unmeasured = NOT_MEASURED if trace.baseline is None else NO_WHOLE_ROUND
    uncosted = _why_no_costs(trace)
    rate, alone = metrics.tokens_per_second, metrics.baseline_tokens_per_second
    yield _ratio("speedup, observed", metrics.speedup_observed, unmeasured, _drift(metrics))
    yield _ratio(
        "speedup, forecast", metrics.speedup_forecast, _why_no_forecast(trace), _foretold(trace)
    )
    yield _ratio("speedup, accounted", metrics.speedup_accounted, uncosted, "τ / (γc + v)")
    yield _ratio("speedup, ideal", metrics.speedup_ideal, uncosted, "as if v were 1")
    yield _ratio("end to end", metrics.speedup_end_to_end, unmeasured, "both prefills included")
    yield _figure("tokens/s", rate, 1, reason=NO_WHOLE_ROUND)
    yield _figure("tokens/s, target alone", alone, 1, reason=unmeasured)


def _why_no_costs(trace: Trace) -> str:
    return NO_COSTS if trace.step_costs is None else NO_WHOLE_ROUND


def _drift(metrics: Metrics) -> str:
    return "" if metrics.drift is None else f"equal blocks within {100 * metrics.drift:.1f} %"


def _why_no_forecast(trace: Trace) -> str:
    if trace.config.drafter != "model":
        return "made only for a draft model"
    if not trace.config.lossless:
        return "made only for the lossless rule"
    if trace.prompt.kind is None:
        return "made only for the preset prompts"
    if not trace.config.greedy:
        return "none yet for this pair and sampling"
    return "none yet for this pair; `bench` makes one"


def _foretold(trace: Trace) -> str:
    made = trace.forecast
    return f"made before the run, {made.num_texts} texts of {made.kind}" if made else ""


def _acceptance(trace: Trace, metrics: Metrics) -> Iterator[Row]:
    intervals = metrics.intervals
    spread = _interval(intervals.prompt) or "too few rounds for an interval"
    coins = "no coins at temperature 0" if trace.config.greedy else _interval(intervals.coins)
    counts = f"{metrics.num_accepted} accepted of {metrics.num_drafted} drafted"
    yield _share("α observed", metrics.alpha_observed, NOTHING_TESTED, spread)
    yield _share("α expected", metrics.alpha_expected, NOTHING_TESTED, coins)
    yield _share("draft acceptance rate", metrics.draft_acceptance_rate, NOTHING_DRAFTED, counts)
    yield _figure("τ", metrics.tau, 2, reason=NO_WHOLE_ROUND, note="tokens a round")
    yield from _by_position(metrics.alpha_by_position)


def _interval(interval: Interval | None) -> str:
    return f"{interval.low:.3f} to {interval.high:.3f}, {interval.label}" if interval else ""


def _by_position(shares: Sequence[float | None]) -> Iterator[Row]:
    for index, share in enumerate(shares[:POSITIONS_SHOWN]):
        bar = "" if share is None else _bar(share)
        yield _share(f"α at position {index + 1}", share, "never tested", bar)
    more = len(shares) - POSITIONS_SHOWN
    if more > 0:
        yield "", "", "", f"and {more} more with --json"


def _bar(share: float) -> str:
    halves = round(share * BAR_COLUMNS * 2)
    return "━" * (halves // 2) + "╸" * (halves % 2)


def _costs(trace: Trace, metrics: Metrics) -> Iterator[Row]:
    uncosted = _why_no_costs(trace)
    verified = "" if metrics.gamma is None else f"verify {metrics.gamma + 1} tokens / target step"
    alone = metrics.baseline_ttft_ms
    beside = "" if alone is None else f"target alone {alone:.1f} ms"
    lost = None if metrics.wasted_share is None else 100 * metrics.wasted_share
    yield _share("c", metrics.c, uncosted, "draft step / target step")
    yield _share("v", metrics.v, uncosted, verified)
    yield _figure(
        "time to first token", metrics.ttft_ms, 1, unit="ms", reason="no round", note=beside
    )
    yield _figure(
        "lost to rejected", lost, 1, unit="%", reason=NO_WHOLE_ROUND, note="of decode time"
    )


def _whereabouts(painter: Painter, trace: Trace) -> str:
    lines = (_place(trace), _finish(trace))
    return "\n".join(_paragraph(painter, line, "dim") for line in lines)


def _place(trace: Trace) -> str:
    place = trace.environment
    threads = f"{place.threads} thread{'s' * (place.threads != 1)}"
    parts = [f"pair {trace.pair.name}", place.device, place.device_name, place.dtype, threads]
    parts += [f"step {trace.pair.target.step}"]
    return " · ".join(dict.fromkeys(parts))


def _finish(trace: Trace) -> str:
    tokens, rounds = len(trace.token_ids), len(trace.rounds)
    count = f"{tokens} token{'s' * (tokens != 1)} in {rounds} round{'s' * (rounds != 1)}"
    return f"{count}, {FINISHES[trace.finish]}"


def _ratio(label: str, value: float | None, reason: str, note: str) -> Row:
    return _figure(label, value, 2, unit="×", reason=reason, note=note)


def _share(label: str, value: float | None, reason: str, note: str) -> Row:
    return _figure(label, value, 3, reason=reason, note=note)


def _figure(
    label: str, value: float | None, digits: int, *, reason: str, unit: str = "", note: str = ""
) -> Row:
    """A row; for an unknown figure, the reason in place of the note."""
    if value is None:
        return label, UNKNOWN, "", reason
    return label, f"{value:.{digits}f}", unit, note
