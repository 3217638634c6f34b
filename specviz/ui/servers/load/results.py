"""The results of a load sweep, complete or in progress: sentences, charts, table and files."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from specviz.figures.load_rows import count_rows, lane_names, speed_rows
from specviz.load.foreign import ForeignLoad, foreign_rows
from specviz.ui.servers.load.charts import (
    acceptance_chart,
    speedup_chart,
    throughput_chart,
)
from specviz.ui.servers.load.files import offer_files
from specviz.ui.servers.load.points import (
    X_TITLES,
    ShownSweep,
    acceptance_series,
    break_evens,
    foreign_series,
    speedup_series,
    throughput_series,
)
from specviz.ui.widgets.page_parts import show_chart
from specviz.ui.widgets.plain_text import as_text

_LATENCY_NOTE = (
    "Each point is labelled with its level of load. Points further up and to the left are better. "
    "Bars are 95 % intervals over the A B B A units."
)
_SPEEDUP_NOTE = (
    "Above 1, speculation is faster. Bars are 95 % intervals. The shaded area is the interval of "
    "the break-even load."
)
_ACCEPTANCE_NOTE = (
    "Computed from the engine's counters. If the line is flat, acceptance does not explain a lower "
    "speedup."
)


def show_results(
    shown: ShownSweep, *, key: str, beside: ShownSweep | None = None,
    foreign: ForeignLoad | None = None, files: bool = True,
) -> None:  # fmt: skip
    """Show a sweep. Its charts can also show another sweep or the results of another tool.

    ``files``: whether to offer downloads. Pass False while the sweep is running: otherwise the
    files would be made again after each block (the measurement of one lane at one load).
    """
    _show_words(shown, key)
    sweeps = [shown] if beside is None else [shown, beside]
    mode = shown.sweep.settings.mode
    lanes = [each for sweep in sweeps for each in throughput_series(sweep)]
    if foreign is not None:
        lanes.append(foreign_series(foreign))
    show_chart(
        throughput_chart(lanes), _LATENCY_NOTE, "measured",
        key=f"load_throughput_{key}",
        alt="Output tokens per second against time per output token, for every lane and level.",
    )  # fmt: skip
    with st.container(key=f"load_charts_{key}"):
        _show_over_load(shown, [each for each in sweeps if each.sweep.settings.mode == mode], key)
    st.caption("Times are percentiles: p50 / p90 / p99.")
    st.dataframe(speed_rows(shown.sweep, shown.figures), key=f"load_speeds_{key}", hide_index=True)
    st.caption(
        "Requests are counted in the windows. Failures and tokens are counted in whole blocks, "
        "including the ramps. Tokens are given as received here and as counted by the engine."
    )
    st.dataframe(count_rows(shown.sweep, shown.figures), key=f"load_counts_{key}", hide_index=True)
    if foreign is not None:
        _show_foreign_rows(foreign)
    if files:
        offer_files(shown.sweep, key)


def show_foreign(found: ForeignLoad) -> None:
    """Show only the results of another tool, without a sweep."""
    show_chart(
        throughput_chart([foreign_series(found)]), _LATENCY_NOTE, "reported",
        key="load_throughput_foreign",
        alt="Output tokens per second against time per output token, for every level.",
    )  # fmt: skip
    _show_foreign_rows(found)


def _show_foreign_rows(found: ForeignLoad) -> None:
    model = f" · {found.model}" if found.model else ""
    st.caption(f":gray-badge[reported] {as_text(f'{found.tool} · {found.source}{model}')}")
    st.dataframe(foreign_rows(found), key="load_foreign", hide_index=True)


def _show_over_load(shown: ShownSweep, sweeps: Sequence[ShownSweep], key: str) -> None:
    """Draw speedup and acceptance at each load, side by side."""
    x_title = X_TITLES[shown.sweep.settings.mode]
    speedups = [each for sweep in sweeps for each in speedup_series(sweep) if each.points]
    taus = [each for sweep in sweeps for each in acceptance_series(sweep) if each.points]
    left, right = st.columns(2, gap="medium")
    if speedups:
        with left:
            show_chart(
                speedup_chart(speedups, break_evens(shown), x_title=x_title), _SPEEDUP_NOTE,
                "measured", key=f"load_speedup_{key}",
                alt="Speedup at each load, with the break-even load.",
            )  # fmt: skip
    if taus:
        with right:
            show_chart(
                acceptance_chart(taus, x_title=x_title), _ACCEPTANCE_NOTE, "measured",
                key=f"load_acceptance_{key}", alt="Tokens per round at each load.",
            )  # fmt: skip


def _show_words(shown: ShownSweep, key: str) -> None:
    """Show the sentences: the verdict first, then its causes, the advice and the checks."""
    words, sweep = shown.words, shown.sweep
    with st.container(border=True, key=f"load_verdict_{key}", gap="small"):
        for each in words.verdict:
            st.markdown(f"##### {as_text(each)}")
        if words.causes:
            _show_list(words.causes)
        for each in words.advice:
            st.markdown(as_text(each))
        lanes = "; ".join(
            f"{name} at {lane.info.address} ({lane.info.title}, {lane.info.model})"
            for name, lane in zip(lane_names(sweep.lanes), sweep.lanes, strict=True)
        )
        state = "measured" if sweep.complete else "so far"
        colour = "green" if sweep.complete else "orange"
        st.caption(f":{colour}-badge[{state}] {as_text(' '.join([*words.checks, lanes]))}.")
    if words.warnings:
        st.warning("  \n".join(as_text(each) for each in words.warnings))


def _show_list(said: Sequence[str]) -> None:
    st.markdown("\n".join(f"* {as_text(each)}" for each in said))
