"""Sections of the Lossless page: the audit's verdict, its evidence over runs, and the bug zoo."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from specviz.record.breaks import BREAKS, Break
from specviz.record.numbers import PROBABILITY
from specviz.tune.audit import LEVEL, ROUNDS, AuditReport, sentences
from specviz.tune.audit_job import AuditJob
from specviz.ui.lossless.charts import Evidence, evidence_chart
from specviz.ui.widgets.page_parts import show_chart, show_formula
from specviz.ui.widgets.plain_text import as_text

TRUE_RULE = "the true rule"


def show_audits(audits: Sequence[AuditJob]) -> None:
    """Show the newest audit's verdict, and the evidence of the last audit of each rule."""
    newest = audits[-1]
    if newest.report is not None:
        show_report(newest.report, over=not newest.going)
    show_evidence(list(_last_of_each(audits).values()))


def _last_of_each(audits: Sequence[AuditJob]) -> dict[str | None, AuditJob]:
    """Return the last audit by injected bug; the key None is the true rule."""
    return {each.audit.broken: each for each in audits}


def show_report(report: AuditReport, *, over: bool) -> None:
    verdict, *reasons = sentences(report)
    with st.container(border=True, key="audit_report", gap="small"):
        first, _, rest = verdict.partition(". ")
        st.markdown(f"##### {_badge(report)} {as_text(first.removesuffix('.'))}.")
        if report.broken is not None:  # first, so that the verdict alarms no reader
            st.markdown(as_text(reasons[0]))
            reasons = reasons[1:]
        if rest:
            st.markdown(as_text(rest))
        for each in reasons:
            st.markdown(as_text(each))
        if over and report.greedy is None:
            st.caption("The audit ended before the check at temperature 0.")
        st.caption(
            f":green-badge[measured] on the loaded pair: every token of the first {ROUNDS} rounds "
            "of each run, compared with separate passes that share no cache with the run."
        )


def _badge(report: AuditReport) -> str:
    if report.broken is not None:
        return ":orange-badge[broken on purpose]"
    return ":green-badge[✓]" if report.passes else ":red-badge[✕]"


def show_evidence(jobs: Sequence[AuditJob]) -> None:
    """Draw the evidence of these audits over their runs."""
    found = [
        Evidence(
            label=each.audit.broken or TRUE_RULE,
            runs=tuple(report.runs for report in each.reports),
            log_e=tuple(report.e_value for report in each.reports),
        )
        for each in jobs
        if each.reports
    ]
    if found:
        show_chart(
            evidence_chart(found, LEVEL),
            "Evidence that the output does not follow the target's distribution. For correct "
            f"output, at most {LEVEL:.0%} of all audits ever cross the line, however many runs "
            "they make.",
            "measured", key="audit_evidence", alt="Evidence over the number of short runs",
        )  # fmt: skip


def show_test() -> None:
    with st.expander("The test", key="audit_test"):
        show_formula(
            r"E_n = \prod_{t \le n} \bigl(1 + \lambda_t\,(1[x_t \in A_t] - q_t(A_t))\bigr), \qquad "
            r"p = \min(1,\ 1 / \max_n E_n)",
            {
                "x_t": "an emitted token",
                "q_t": "the target's distribution there, from a separate pass",
                "A_t": "a set of tokens, fixed before the token is seen",
                r"\lambda_t": "the bet, also fixed before the token is seen",
            },
            "If every token follows the target's distribution, no bet gains on average, so the "
            "average of all bets exceeds 100 in at most one audit in a hundred (Ville 1939), "
            "whenever the audit stops. The bets are on tokens that the target prefers to the "
            "draft, on the target's likeliest tokens, and on others, each for tokens after an "
            "acceptance, after a rejection, and for bonus tokens.",
        )


def show_zoo(audits: Sequence[AuditJob], start: Callable[..., None], *, busy: bool) -> None:
    """Show a card per bug: what it does, what it costs, why, and whether the audit finds it."""
    st.markdown("#### The bug zoo")
    st.caption(
        "A check that cannot fail proves nothing. Inject a bug into the decoding loop and see what "
        "it costs: correct output, speed, both or neither."
    )
    last = _last_of_each(audits)
    columns = st.columns(2, gap="medium")
    for index, bug in enumerate(BREAKS.values()):
        with columns[index % 2]:
            _show_bug(bug, last.get(bug.name), start, busy=busy)


def _show_bug(bug: Break, job: AuditJob | None, start: Callable[..., None], *, busy: bool) -> None:
    with st.container(border=True, key=f"bug_{bug.name}", gap="small"):
        colour = "red" if bug.biased else "orange"
        st.markdown(f"**{as_text(bug.name)}** :{colour}-badge[costs {as_text(bug.costs)}]")
        st.markdown(as_text(bug.does))
        distance = "" if bug.distance is None else (
            " Measured distance of an affected token's distribution from the target's: "
            f"{PROBABILITY.bare(bug.distance)}."
        )  # fmt: skip
        st.caption(as_text(bug.why + distance))
        if job is not None and (report := job.report) is not None:
            st.markdown(_found_words(report, bug))
        st.button(
            "Inject it",
            key=f"break_{bug.name}",
            disabled=busy,
            on_click=start,
            kwargs={"broken": bug.name},
        )


def _found_words(report: AuditReport, bug: Break) -> str:
    if report.alarm:
        return f":red-badge[found] at run {report.alarm_at:,}."
    if not bug.biased:
        return (
            f":green-badge[no alarm] in {report.first_tokens:,} tokens, as expected: the output "
            "still follows the target's distribution."
        )
    return f":gray-badge[not found yet] in {report.first_tokens:,} tokens."
