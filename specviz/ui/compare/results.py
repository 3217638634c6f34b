"""Results of a comparison: verdict, table, kinds of text, race, charts, downloads.

The comparison may have one prompt or many. The race replays one run per lane on one clock. ``name``
is part of the widget keys, so that one page can show several results.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from functools import partial

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from specviz.comparison import (
    Comparison,
    KindResult,
    LaneRun,
    Ratio,
    basis,
    body_facts,
    comparison_to_json,
    interval_units,
)
from specviz.comparison.comparison_job import ComparisonJob
from specviz.comparison.lane_results import LaneResult
from specviz.comparison.table import BEST, has_one_target, legend, marked, rows_of, spread_text
from specviz.figures.catalogue import CATALOGUE
from specviz.player.racing import (
    prompts_raced,
    race_payload,
    representative_details,
    representatives,
)
from specviz.player.replay import comparison_html
from specviz.record.numbers import UNKNOWN
from specviz.record.prompts import NO_KIND
from specviz.ui.compare.charts import (
    KindReadings,
    LaneRuns,
    alpha_by_position,
    by_kind,
    speedup_over_gamma,
    time_per_token,
    tokens_per_round,
)
from specviz.ui.compare.lanes import DOTS
from specviz.ui.downloads import download_button
from specviz.ui.widgets.error_bars import Reading
from specviz.ui.widgets.page_parts import show_chart
from specviz.ui.widgets.plain_text import as_text
from specviz.ui.widgets.player import show_player
from specviz.ui.widgets.symbols import show_symbols

_KEY = "compare findings"


class Findings:
    """A comparison with its race and charts, which are built on first use."""

    def __init__(self, comparison: Comparison, measured: Sequence[LaneRun]) -> None:
        self.comparison, self.measured = comparison, tuple(measured)
        self.raced = prompts_raced(comparison, measured)  # prompts with a run of every lane
        self._races: dict[int, dict[str, object]] = {}
        self.lanes = [
            LaneRuns(
                label=lane.label.replace("<", "‹"),  # plotly renders markup
                traces=tuple(run.trace for run in measured if run.job.lane == index),
                figures=tuple(run.figures for run in measured if run.job.lane == index),
                speedup=_reading(lane.speedup_ratio),
            )
            for index, lane in enumerate(comparison.lanes)
        ]

    def race(self, item: int) -> dict[str, object]:
        if item not in self._races:
            runs = representatives(self.comparison, self.measured, item)
            self._races[item] = race_payload(
                self.labels, [run.trace for run in runs], figures=[run.figures for run in runs],
                details=representative_details(self.comparison, self.measured),
            )  # fmt: skip
        return self._races[item]

    @functools.cached_property
    def charts(self) -> tuple[go.Figure, ...]:
        draw = (speedup_over_gamma, time_per_token, alpha_by_position, tokens_per_round)
        return tuple(each(self.lanes) for each in draw)

    @functools.cached_property
    def kind_charts(self) -> tuple[go.Figure, go.Figure]:
        kinds, labels = self.comparison.kinds, [lane.label for lane in self.lanes]
        return (
            by_kind(labels, _readings(kinds, "speedup_ratio"), CATALOGUE["speedup_observed"]),
            by_kind(labels, _readings(kinds, "expected"), CATALOGUE["alpha_expected"]).update_yaxes(
                range=[0, 1.03]
            ),
        )

    @property
    def labels(self) -> list[str]:
        return [lane.label for lane in self.comparison.lanes]

    def json(self) -> str:
        return json.dumps(comparison_to_json(self.comparison), indent=2)

    def replay(self, item: int) -> str:
        return comparison_html(self.comparison, self.measured, item=item)


def findings_of(name: str, job: ComparisonJob) -> Findings | None:
    """Return a comparison's results, cached by ``name``; None until every lane has a run."""
    comparison = job.comparison
    if comparison is None:
        return None
    kept: dict[str, Findings] = st.session_state.setdefault(_KEY, {})
    if name not in kept or kept[name].comparison is not comparison:
        kept[name] = Findings(comparison, job.measured)
    return kept[name]


def show_results(found: Findings, name: str) -> None:
    _show_verdict(found, name)
    _show_table(found, name)
    _show_kinds(found, name)
    item = _show_race(found, name)
    _show_charts(found, name)
    _show_files(found, name, item)


# Sections


def _show_verdict(found: Findings, name: str) -> None:
    """Show the verdict and its notes, below a caption that says what the verdict is based on."""
    comparison = found.comparison
    notes = comparison.verdict.notes
    text = comparison.verdict.text.removesuffix(" ".join(notes)).strip()
    with st.container(border=True, key=f"compare_verdict_{name}", gap="small"):
        st.caption(f":green-badge[measured] Results of {as_text(basis(comparison))}")
        st.markdown(f"##### {as_text(first_sentence(text))}")
        if rest := text.removeprefix(first_sentence(text)).strip():
            st.markdown(as_text(rest))
        for note in notes:
            st.caption(f"▲ {as_text(note)}")
        for fact in body_facts(comparison, found.measured):
            st.caption(as_text(fact))


def _show_race(found: Findings, name: str) -> int | None:
    """Show the race, a replay of one run per lane, and return the index of the race's prompt.

    Return None if there is no prompt on which every lane has a run.
    """
    if not found.raced:
        return None
    st.markdown("#### Race")
    st.caption(
        "Each lane shows the run whose speed is nearest to the lane's median speed on this prompt. "
        "The interval in a lane covers the timing of that run; the verdict above covers all runs. "
        "All lanes replay on one clock at their measured times."
    )
    item = found.raced[0]
    if len(found.comparison.plan.items) > 1:
        item = st.selectbox(
            "Prompt of the race", found.raced, key=f"compare_raced_{name}",
            format_func=partial(_prompt_head, found),
        )  # fmt: skip
    show_player(found.race(item), key=f"compare_player_{name}")
    return item


def _prompt_head(found: Findings, item: int) -> str:
    each = found.comparison.plan.items[item]
    words = " ".join(each.prompt.split())
    head = words if len(words) <= 60 else f"{words[:59]}…"
    return f"{item + 1} · {each.kind} · {head}" if each.kind else f"{item + 1} · {head}"


def _show_table(found: Findings, name: str) -> None:
    comparison = found.comparison
    labels = [f"{dot} {as_text(label)}" for dot, label in zip(DOTS, found.labels, strict=False)]
    rows = {
        row.name: [*(_cell(text) for text in marked(row)), _cell(row.target or UNKNOWN)]
        for row in rows_of(comparison)
    }
    st.markdown("#### Figures")
    show_symbols("alpha", "gamma", "tau", "c", "v")
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=[*labels, "target alone"])
    if not has_one_target(comparison):
        frame = frame[labels]
    with st.container(key=f"compare_table_{name}"):
        st.table(frame, border="horizontal")
    st.caption(f":green-badge[measured] {as_text(legend(comparison))}")


def _show_charts(found: Findings, name: str) -> None:
    """Show the charts in rows of two, so that the charts of a row are aligned."""
    st.markdown("#### Where the difference comes from")
    notes = {
        "gamma": "Points show measured speedups with intervals, which may end outside the chart. "
        "Dotted curves show the expected speedup at other γ, computed from step costs and "
        "acceptance.",
        "times": "Bars show the time per token by phase. The target alone was timed on the same "
        "tokens.",
        "places": "At each position, a point shows the share of tested candidates that were "
        "accepted, over all runs of a lane.",
        "tokens": "Bars show the distribution of tokens per round. The dashed line marks τ over "
        "all rounds of a lane. In the table of figures, τ is the median over the lane's runs.",
    }
    charts = list(zip(notes, found.charts, strict=True))
    for row in (charts[:2], charts[2:]):
        for column, (sort, chart) in zip(st.columns(2, gap="medium"), row, strict=True):
            with column:
                show_chart(chart, notes[sort], "measured", key=f"compare_{sort}_{name}")


def _show_kinds(found: Findings, name: str) -> None:
    comparison = found.comparison
    if len(comparison.plan.items) == 1:
        return
    st.markdown("#### By kind of text")
    if not comparison.kinds:
        st.caption("All prompts are of one kind, so there is nothing to compare.")
        return
    intervals = kinds_with_intervals(comparison.kinds)
    heads = (
        "Points show the speedup on each kind of text. An interval may end outside the chart.",
        "Points show the expected acceptance on each kind of text.",
    )
    columns = st.columns(2, gap="medium")
    sorts = ("kind_speeds", "kind_alphas")
    for column, head, chart, sort in zip(columns, heads, found.kind_charts, sorts, strict=True):
        with column:
            show_chart(chart, f"{head} {intervals}", "measured", key=f"compare_{sort}_{name}")
    st.table(_kinds_frame(found), border="horizontal")
    st.caption(f":green-badge[measured] The number of prompts is in brackets. {intervals}")


def _show_files(found: Findings, name: str, item: int | None) -> None:
    with st.container(horizontal=True):
        download_button(
            "Download the comparison (JSON)", found.json, key=f"compare_json_{name}",
            file_name="specviz-comparison.json", mime="application/json", type="tertiary",
        )  # fmt: skip
        if item is not None:
            download_button(
                "Download a replay (HTML)", partial(found.replay, item),
                key=f"compare_replay_{name}",
                file_name="specviz-comparison.html", mime="text/html", type="tertiary",
            )  # fmt: skip


# Values


def _cell(text: str) -> str:
    """Format a table cell; an interval must not wrap at its dash."""
    unbroken = text.replace("–", "\u2060–\u2060") if text != UNKNOWN else text
    return f"**{unbroken}**" if text.endswith(BEST) else unbroken


def _reading(found: Ratio | None) -> Reading | None:
    if found is None:
        return None
    return Reading(value=found.value, low=found.low, high=found.high)


def _readings(kinds: Sequence[KindResult], name: str) -> list[KindReadings]:
    return [
        KindReadings(
            kind=(each.kind or NO_KIND).replace("<", "‹"),
            readings=tuple(_reading(getattr(lane, name)) for lane in each.lanes),
        )
        for each in kinds
    ]


def _kinds_frame(found: Findings) -> pd.DataFrame:
    rows = {
        as_text(f"{each.kind or NO_KIND} ({each.num_prompts})"): [
            _cell(_kind_text(lane)) for lane in each.lanes
        ]
        for each in found.comparison.kinds
    }
    columns = [f"{dot} {as_text(label)}" for dot, label in zip(DOTS, found.labels, strict=False)]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def _kind_text(lane: LaneResult) -> str:
    speed, alpha = CATALOGUE["speedup_observed"], CATALOGUE["alpha_expected"]
    parts = [f"**{spread_text(speed, lane.speedup_ratio)}**"] if lane.speedup_ratio else []
    parts += [f"{alpha.label} {spread_text(alpha, lane.expected)}"] if lane.expected else []
    return ", ".join(parts) or UNKNOWN


def first_sentence(text: str) -> str:
    end = text.find(". ")
    return text if end < 0 else text[: end + 1]


def kinds_with_intervals(kinds: Sequence[KindResult]) -> str:
    """Return a caption that says what the intervals of each kind of text cover.

    Intervals cover prompts, repeats or timing. Kinds are grouped by what their intervals cover. If
    there is only one group, no kind is named: "95 % intervals over prompts."
    """
    groups: dict[str, list[str]] = {}
    for each in kinds:
        groups.setdefault(_interval_text(each), []).append(as_text(each.kind or NO_KIND))
    if len(groups) == 1:
        return f"{next(iter(groups)).capitalize()}."
    parts = (f"{text} for {', '.join(names)}" for text, names in sorted(groups.items()))
    return f"{'; '.join(parts).capitalize()}."


def _interval_text(kind: KindResult) -> str:
    units = interval_units(
        ratio for lane in kind.lanes for ratio in (lane.speedup_ratio, lane.expected)
    )
    return f"95 % intervals over {' or '.join(units)}" if units else "no intervals (a single run)"
