"""The head doctor on Lossless: does specviz run a head in the way the head was trained?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import streamlit as st

from specviz.record.numbers import TOKENS
from specviz.servers.parity_job import ParityJob
from specviz.tune.doctor import DoctorReport, advice, verdict
from specviz.tune.doctor_job import DoctorJob
from specviz.ui.lossless.charts import PositionCurve, positions_chart
from specviz.ui.tune.current import follow
from specviz.ui.widgets.page_parts import show_chart
from specviz.ui.widgets.plain_text import as_text

_SHOWN = 4  # curves


def show_doctor(job: DoctorJob | None, start: Callable[[], None]) -> None:
    """Draw the examination of the pair's head, and the button that starts it."""
    with st.container(border=True, key="head_doctor", gap="small"):
        st.markdown("#### Head doctor")
        st.caption(
            "If layers, norms or token ids in a head's files are interpreted wrongly, the head "
            "still runs, but few of its candidates are accepted. The doctor lets the target write "
            "texts. Along these texts, it computes the head's acceptance under the settings in "
            "the files and under other settings, and compares the results."
        )
        going = job is not None and job.going
        st.button(
            "Examine the head", key="doctor_start", on_click=start, disabled=going, type="primary"
        )
        if job is not None:
            follow(job, partial(show_findings, job, _show_report))


def show_findings(job: DoctorJob | ParityJob, show_report: Callable[[Any], object]) -> None:
    """Draw the report of a job. Until there is a report, draw what the job is doing."""
    if job.report is not None:
        show_report(job.report)
    elif job.going and job.stage:
        st.caption(as_text(job.stage))


def _show_report(report: DoctorReport) -> None:
    badge = ":green-badge[✓]" if report.healthy else ":red-badge[✕]"
    st.markdown(f"##### {badge} {as_text(verdict(report))}")
    for each in (*advice(report), *report.warnings):
        st.markdown(as_text(each))
    curves = [
        PositionCurve(label=each.words, shares=each.by_position) for each in report.results[:_SHOWN]
    ]
    show_chart(
        positions_chart(curves),
        f"Acceptance along {report.tokens:,} tokens of the target, with the settings in the files "
        f"and with the best of {report.tried - 1} other settings. From position 2 on, the head "
        "reads its own state instead of the target's hidden states.",
        "measured", key="doctor_positions", alt="Acceptance probability by position",
    )  # fmt: skip
    with st.expander("All compared settings", key="doctor_settings"):
        st.dataframe(
            [
                {
                    "settings": each.words,
                    "accepted per round": round(each.accepted, 3),
                    "difference, corrected": ""
                    if each.own
                    else TOKENS.between(each.low, each.high),
                }
                for each in report.results
            ],
            hide_index=True,
        )
