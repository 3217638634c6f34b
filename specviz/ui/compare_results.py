"""What a comparison came to: verdict, race, table, charts, kinds of text, files to take away."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from specviz.comparing import Comparison, KindLane, KindResult, Ratio, comparison_to_json
from specviz.export.racing import race_payload
from specviz.export.replay import comparison_replay_html
from specviz.figures.compare import (
    KindReadings,
    LaneRuns,
    Reading,
    alpha_by_position,
    by_kind,
    speedup_over_gamma,
    time_per_token,
    tokens_per_round,
)
from specviz.trace import Trace
from specviz.ui.compare_course import Course
from specviz.ui.compare_lanes import DOTS, plain
from specviz.ui.compare_table import BEST, as_texts, marked, rows_of
from specviz.ui.lesson import show_chart
from specviz.ui.player import show_player

_KEY = "compare findings"
_NO_KIND = "no kind"


class Findings:
    """A comparison, and what is drawn of it, each made once."""

    def __init__(self, course: Course, comparison: Comparison) -> None:
        self.comparison = comparison
        runs = [(each.job.lane, each.trace) for each in course.measured]
        self.lanes = [
            LaneRuns(
                label=lane.label.replace("<", "‹"),  # plotly reads a little markup
                traces=tuple(trace for place, trace in runs if place == index),
                speedup=_reading(lane.speedup_ratio),
            )
            for index, lane in enumerate(comparison.lanes)
        ]

    @functools.cached_property
    def race(self) -> dict[str, object]:
        return race_payload(self.labels, self.representatives)

    @functools.cached_property
    def charts(self) -> tuple[go.Figure, ...]:
        draw = (speedup_over_gamma, time_per_token, alpha_by_position, tokens_per_round)
        return tuple(each(self.lanes) for each in draw)

    @functools.cached_property
    def kind_charts(self) -> tuple[go.Figure, go.Figure]:
        kinds, labels = self.comparison.kinds, [lane.label for lane in self.lanes]
        return (
            by_kind(labels, _readings(kinds, "speedup_ratio"), "times the target alone"),
            by_kind(labels, _readings(kinds, "expected"), "acceptance, α").update_yaxes(
                range=[0, 1.03]
            ),
        )

    @property
    def labels(self) -> list[str]:
        return [lane.label for lane in self.comparison.lanes]

    @property
    def representatives(self) -> list[Trace]:
        runs = [lane.representative for lane in self.comparison.lanes]
        return [run.trace for run in runs if run is not None]

    def json(self) -> str:
        return json.dumps(comparison_to_json(self.comparison), indent=2)

    def replay(self) -> str:
        return comparison_replay_html(
            self.labels,
            self.representatives,
            verdict=self.comparison.verdict.text,
            table=as_texts(self.comparison),
        )


def findings_of(name: str, course: Course) -> Findings | None:
    """None until every lane has a run."""
    comparison = course.comparison
    if comparison is None:
        return None
    kept: dict[str, Findings] = st.session_state.setdefault(_KEY, {})
    if name not in kept or kept[name].comparison is not comparison:
        kept[name] = Findings(course, comparison)
    return kept[name]


def show_verdict(found: Findings, name: str) -> None:
    """The words at the head of the results, and what they rest on."""
    comparison = found.comparison
    notes = comparison.verdict.notes
    text = comparison.verdict.text.removesuffix(" ".join(notes)).strip()
    with st.container(border=True, key=f"compare_verdict_{name}", gap="small"):
        st.markdown(f"##### {plain(_first_sentence(text))}")
        if rest := text.removeprefix(_first_sentence(text)).strip():
            st.markdown(plain(rest))
        for note in notes:
            st.caption(f"▲ {plain(note)}")
        st.caption(f":green-badge[measured] {plain(_basis(comparison))}")


def show_race(found: Findings) -> None:
    st.markdown("#### The race")
    st.caption(
        "Of each lane the run nearest its median rate, all on one clock as they really ran. "
        "Choose a lane to see its text and its verdicts."
    )
    show_player(found.race, key="compare_player")


def show_table(found: Findings) -> None:
    comparison = found.comparison
    labels = [f"{dot} {plain(label)}" for dot, label in zip(DOTS, found.labels, strict=False)]
    rows = {
        row.name: [*(_bold(text) for text in marked(row)), row.target or "–"]
        for row in rows_of(comparison)
    }
    st.markdown("#### The figures")
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=[*labels, "target alone"])
    with st.container(key="compare_table"):
        st.table(frame, border="horizontal")
    over = next((lane.alpha.over for lane in comparison.lanes if lane.alpha), "seeds")
    st.caption(
        f":green-badge[measured] Speedup and α: mean with its 95 % interval over {over}. The "
        f"others: median, with the lowest and the highest run. {BEST} the best of the row by its "
        "middle value; whether a difference can be relied on, the verdict says."
    )


def show_charts(found: Findings) -> None:
    """In rows of two, so that their heads stand level."""
    st.markdown("#### Where it comes from")
    notes = {
        "gamma": "Points: the speedup, with its interval. Dotted: what the lane's step costs and "
        "its acceptance let expect at each γ.",
        "times": "Where the time of a token goes: the lanes as they were recorded, the target "
        "alone as it was timed along their words.",
        "places": "Acceptance by the place in the draft, all runs of a lane together.",
        "tokens": "Tokens that a round gives. Dashed: their mean, τ.",
    }
    charts = list(zip(notes, found.charts, strict=True))
    for row in (charts[:2], charts[2:]):
        for column, (name, chart) in zip(st.columns(2, gap="medium"), row, strict=True):
            with column:
                show_chart(chart, notes[name], "measured", key=f"compare_{name}")


def show_kinds(found: Findings) -> None:
    kinds = found.comparison.kinds
    if not kinds:
        st.info("All prompts are of one kind, so there is nothing to tell apart.")
        return
    left, right = st.columns(2, gap="medium")
    speeds, alphas = found.kind_charts
    with left:
        show_chart(
            speeds, "Speedup by kind of text, with 95 % intervals over prompts.", "measured",
            key="compare_kind_speeds",
        )  # fmt: skip
    with right:
        show_chart(
            alphas, "Expected acceptance by kind of text.", "measured", key="compare_kind_alphas"
        )
    st.table(_kinds_frame(found), border="horizontal")


def show_files(found: Findings, name: str, *, replay: bool) -> None:
    with st.container(horizontal=True):
        st.download_button(
            "Download the comparison (JSON)", found.json, key=f"compare_json_{name}",
            file_name="specviz-comparison.json", mime="application/json", type="tertiary",
            on_click="ignore",
        )  # fmt: skip
        if replay:
            st.download_button(
                "Download a replay (HTML)", found.replay, key=f"compare_replay_{name}",
                file_name="specviz-comparison.html", mime="text/html", type="tertiary",
                on_click="ignore",
            )  # fmt: skip


# Parts


def _first_sentence(text: str) -> str:
    end = text.find(". ")
    return text if end < 0 else text[: end + 1]


def _basis(comparison: Comparison) -> str:
    plan = comparison.plan
    wanted = len(plan.lanes) * len(plan.items) * plan.repeats
    prompts = "one prompt" if len(plan.items) == 1 else f"{len(plan.items)} prompts"
    count = f"{comparison.count} runs" if comparison.complete else (
        f"{comparison.count} of {wanted} runs"
    )  # fmt: skip
    length = plan.lanes[0].config.max_new_tokens
    repeats = "one repeat" if plan.repeats == 1 else f"{plan.repeats} repeats"
    return f"{count}: {prompts}, {repeats}, {length} tokens each, one at a time."


def _bold(text: str) -> str:
    return f"**{text}**" if text.endswith(BEST) else text


def _reading(found: Ratio | None) -> Reading | None:
    if found is None:
        return None
    return Reading(value=found.value, low=found.low, high=found.high)


def _readings(kinds: Sequence[KindResult], name: str) -> list[KindReadings]:
    return [
        KindReadings(
            kind=(each.kind or _NO_KIND).replace("<", "‹"),
            readings=tuple(_reading(getattr(lane, name)) for lane in each.lanes),
        )
        for each in kinds
    ]


def _kinds_frame(found: Findings) -> pd.DataFrame:
    rows = {
        plain(f"{each.kind or _NO_KIND} ({each.num_prompts})"): [
            _kind_words(lane) for lane in each.lanes
        ]
        for each in found.comparison.kinds
    }
    columns = [f"{dot} {plain(label)}" for dot, label in zip(DOTS, found.labels, strict=False)]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def _kind_words(lane: KindLane) -> str:
    speed, alpha = lane.speedup_ratio, lane.expected
    words = [] if speed is None else [f"**{_interval(speed)}** times"]
    words += [] if alpha is None else [f"α {_interval(alpha)}"]
    return ", ".join(words) or "–"


def _interval(found: Ratio) -> str:
    if found.low is None or found.high is None:
        return f"{found.value:.2f}"
    return f"{found.value:.2f} ({found.low:.2f}–{found.high:.2f})"
