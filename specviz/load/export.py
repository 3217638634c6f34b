"""Export a load test as a CSV table, or as one HTML file without scripts or network requests."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from specviz.figures.load_blocks import Percentiles
from specviz.figures.load_figures import LoadFigures, load_figures
from specviz.figures.load_rows import count_rows, speed_rows
from specviz.figures.load_words import LoadWords, load_words
from specviz.load.chart import Line, chart
from specviz.record.load_run import LEVEL_UNITS, LoadSweep
from specviz.record.visible import visible

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;
color:#1a1a1a;background:#fff}
table{border-collapse:collapse;font-size:.85rem;display:block;overflow-x:auto}
th,td{padding:.25rem .6rem;text-align:right;border-bottom:1px solid #ccc;white-space:nowrap}
th:first-child,td:first-child{text-align:left}svg{max-width:100%;height:auto}
figure{margin:1rem 0}figcaption{font-size:.85rem}
@media (prefers-color-scheme:dark){body{color:#e8e8e8;background:#161616}th,td{border-color:#444}}
"""


def sweep_csv(sweep: LoadSweep) -> str:
    """Return a CSV table with all metrics of each block (one server at one level of load)."""
    out = io.StringIO()
    rows = list(_block_rows(sweep, load_figures(sweep)))
    writer = csv.DictWriter(out, fieldnames=list(rows[0]) if rows else ["lane"])
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def sweep_html(sweep: LoadSweep) -> str:
    """Return an HTML page with the findings as sentences, two charts, and two tables.

    The tables have a row for each server and level of load.
    """
    figures = load_figures(sweep)
    words = load_words(sweep, figures)
    title = f"Under load: {sweep.lanes[0].info.model}"
    parts = [
        f"<h1>{_text(title)}</h1>",
        f"<p>{_text(settings_words(sweep))}</p>",
        *_sentences(words),
        *_charts(sweep, figures),
        "<h2>Levels</h2>",
        *(_table(rows(sweep, figures)) for rows in (speed_rows, count_rows)),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src '
        "'unsafe-inline'\">"
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head><body>"
        f"{''.join(parts)}</body></html>\n"
    )


def settings_words(sweep: LoadSweep) -> str:
    """Return the engines and settings of a load test on one line."""
    settings = sweep.settings
    engines = sorted({f"{each.info.title} at {each.info.address}" for each in sweep.lanes})
    loop = "closed loop" if settings.mode == "closed" else "open loop, Poisson arrivals"
    length = "exactly" if settings.ignore_eos else "at most"
    return (
        f"{', '.join(engines)}; {sweep.created}; {loop}, windows of {settings.seconds:g} s; "
        f"{length} {settings.max_new_tokens} tokens per answer, temperature "
        f"{settings.temperature:g}; {settings.prompts} prompts"
    )


def _block_rows(sweep: LoadSweep, figures: LoadFigures) -> Iterator[dict[str, object]]:
    width = max((len(each.acceptance.accepted_at) for each in figures.blocks), default=0)
    for each in figures.blocks:
        block, lane = each.block, sweep.lanes[each.block.lane]
        alphas = each.acceptance.alpha_by_position
        yield {
            "lane": lane.label,
            "kind": lane.kind,
            "address": lane.info.address,
            "gamma": lane.gamma,
            "mode": sweep.settings.mode,
            "level": block.level,
            "start": block.start,
            "repetition": block.repetition,
            "unit": block.unit,
            "started": block.started,
            "tokens_per_second": each.tokens_per_second,
            "tokens_per_second_per_user": each.tokens_per_second_per_user,
            "seconds_per_token": each.seconds_per_token,
            **_columns("ttft", each.ttft),
            **_columns("tpot", each.tpot),
            **_columns("chunk_latency", each.chunk_latency),
            "tokens_per_round": each.acceptance.tau,
            "draft_acceptance_rate": each.acceptance.draft_acceptance_rate,
            **{f"alpha_{at + 1}": alphas[at] if at < len(alphas) else None for at in range(width)},
            "kv_use": each.engine.kv_use,
            "running": each.engine.running,
            "waiting": each.engine.waiting,
            "preemptions": each.engine.preemptions,
            "prefix_hits": each.engine.prefix_hits,
            "requests": each.requests,
            "failures": each.failures,
            "unsent": block.unsent,
            "mean_in_flight": each.mean_in_flight,
            "most_in_flight": each.most_in_flight,
            "tokens_received": each.totals.received,
            "tokens_counted": each.totals.counted,
            "problem": each.problem,
        }


def _columns(name: str, found: Percentiles | None) -> dict[str, float | None]:
    return {
        f"{name}_{each}_seconds": None if found is None else getattr(found, each)
        for each in ("p50", "p90", "p99")
    }


def _sentences(words: LoadWords) -> Iterator[str]:
    groups = (
        ("Verdict", words.verdict),
        ("Why", words.causes),
        ("Advice", words.advice),
        ("Checks", words.checks),
        ("Limits of these results", words.warnings),
    )
    for title, found in groups:
        if found:
            items = "".join(f"<li>{_text(each)}</li>" for each in found)
            yield f"<h2>{title}</h2><ul>{items}</ul>"


def _charts(sweep: LoadSweep, figures: LoadFigures) -> Iterator[str]:
    unit = LEVEL_UNITS[sweep.settings.mode]
    speedups, rates = list[Line](), list[Line]()
    for place, lane in enumerate(sweep.lanes):
        levels = figures.of_lane(place)
        fast = [(each.level, each.speedup) for each in levels if each.speedup]
        if fast:
            ends = [(each.low, each.high) for _, each in fast]
            spans = [(low, high) for low, high in ends if low is not None and high is not None]
            speedups.append(
                Line(
                    label=lane.label,
                    points=tuple((level, each.value) for level, each in fast),
                    spans=tuple(spans) if len(spans) == len(fast) else (),
                )
            )
        points = [(each.level, each.tokens_per_second) for each in levels if each.tokens_per_second]
        if points:
            rates.append(Line(label=lane.label, points=tuple(points)))
    for title, lines, mark in (
        (f"Speedup at each level of load ({unit}), with 95 % intervals", speedups, 1.0),
        (f"Output tokens per second at each level of load ({unit})", rates, None),
    ):
        if lines:
            drawing = chart(lines, mark=mark, across=unit)
            yield f"<figure>{drawing}<figcaption>{_text(title)}</figcaption></figure>"


def _table(rows: Sequence[Mapping[str, str]]) -> str:
    if not rows:
        return ""
    lines = ["".join(f"<th>{_text(each)}</th>" for each in rows[0])]
    lines += ["".join(f"<td>{_text(each)}</td>" for each in row.values()) for row in rows]
    return f"<table>{_joined(lines)}</table>"


def _joined(lines: Sequence[str]) -> str:
    return "".join(f"<tr>{each}</tr>" for each in lines)


def _text(text: str) -> str:
    return escape("".join(map(visible, text)))
