"""Sections of Lossless: verdict and evidence of an audit, the test's formula, and the bug zoo."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st

from specviz import ASSETS
from specviz.record.breaks import BREAKS, Break
from specviz.record.numbers import PROBABILITY
from specviz.tune.audit import LEVEL, ROUNDS, AuditReport, sentences
from specviz.tune.audit_job import AuditJob
from specviz.tune.recorded_audits import AuditCourse, audits_from_record
from specviz.ui.lossless.charts import Evidence, evidence_chart
from specviz.ui.tune.current import follow
from specviz.ui.widgets.page_parts import show_chart, show_formula
from specviz.ui.widgets.plain_text import as_text
from specviz.ui.widgets.recorded_example import show_example_caption

RECORDED = ASSETS / "recorded_audits.json"
TRUE_RULE = "the unmodified loop"
_ZOO_WORDS = {
    True: "Inject a bug into the decoding loop to see what",
    False: "An audit can inject these bugs into the decoding loop. Each card says what",
}


def show_audits(audits: Sequence[AuditJob]) -> None:
    """Show the latest audit without an injected bug or, if there is none, a recorded audit.

    An audit with an injected bug is shown on the bug's card, beside the button that injects the
    bug.
    """
    job = _last_of_each(audits).get(None)
    if job is None:
        show_recorded_audits()
    elif job is audits[-1]:
        follow(job, partial(_show_findings, audits))
    else:
        _show_findings([job], key="_before")


def show_recorded_audits() -> None:
    courses = _recorded_audits()
    show_example_caption(
        "Audit",
        "An audit makes short runs with many seeds and tests each token against the target's "
        "distribution. Then it compares the output at temperature 0 with the text of the target "
        "alone.",
    )
    show_report(
        courses[0].reports[-1], over=True, key="audit_report_recorded", pair="the embedded pair"
    )
    show_evidence(courses, key="audit_evidence_recorded")


@st.cache_resource(show_spinner=False)
def _recorded_audits() -> tuple[AuditCourse, ...]:
    """Return the recorded audits: one of the unmodified loop, and one with an injected bug."""
    return audits_from_record(RECORDED.read_text(encoding="utf-8"))


def _show_findings(audits: Sequence[AuditJob], key: str = "") -> None:
    """Show the verdict of the newest audit, and a chart of the evidence.

    The chart has a curve for the newest audit with each injected bug, and a curve for the newest
    audit without an injected bug.
    """
    newest = audits[-1]
    if newest.report is not None:
        show_report(newest.report, over=not newest.going, key=f"audit_report{key}")
    found = _last_of_each(audits).items()
    courses = [AuditCourse(broken=broken, reports=each.reports) for broken, each in found]
    show_evidence(courses, key=f"audit_evidence{key}")


def _last_of_each(audits: Sequence[AuditJob]) -> dict[str | None, AuditJob]:
    """Return the newest audit for each injected bug, by the bug's name.

    The key None has the newest audit without an injected bug.
    """
    return {each.audit.broken: each for each in audits}


def show_report(
    report: AuditReport, *, over: bool, key: str, pair: str = "the loaded pair"
) -> None:
    verdict, *reasons = sentences(report)
    with st.container(border=True, key=key, gap="small"):
        first, _, rest = verdict.partition(". ")
        st.markdown(f"##### {_badge(report)} {as_text(first.removesuffix('.'))}.")
        if report.broken is not None:  # state first that the bug is intended
            st.markdown(as_text(reasons[0]))
            reasons = reasons[1:]
        if rest:
            st.markdown(as_text(rest))
        for each in reasons:
            st.markdown(as_text(each))
        if over and report.greedy is None:
            st.caption("The audit ended before the check at temperature 0.")
        st.caption(
            f":green-badge[measured] on {pair}: the audit tests every token of the first "
            f"{ROUNDS} rounds of each run against the target's distribution. Separate passes, "
            "which share no cache with the run, compute this distribution."
        )


def _badge(report: AuditReport) -> str:
    if report.broken is not None:
        return ":orange-badge[broken on purpose]"
    return ":green-badge[✓]" if report.passes else ":red-badge[✕]"


def show_evidence(courses: Sequence[AuditCourse], *, key: str) -> None:
    """Draw how the evidence of each audit grows with the number of runs, one curve per audit."""
    found = [
        Evidence(
            label=each.broken or TRUE_RULE,
            runs=tuple(report.runs for report in each.reports),
            log_e=tuple(report.e_value for report in each.reports),
        )
        for each in courses
        if each.reports
    ]
    if found:
        show_chart(
            evidence_chart(found, LEVEL),
            "The curves show how strong the evidence is that the output does not follow the "
            f"target's distribution. If the output is correct, at most {100 * LEVEL:g} % of audits "
            "reach the alarm line, however many runs they make.",
            "measured", key=key, alt="Evidence after each number of short runs",
        )  # fmt: skip


def show_test() -> None:
    with st.expander("The test", key="audit_test"):
        show_formula(
            r"E_n = \prod_{t \le n} \bigl(1 + \lambda_t\,(1[x_t \in A_t] - "
            r"\text{target}_t(A_t))\bigr), \qquad "
            r"\text{p-value} = \min(1,\ 1 / \max_n E_n)",
            {
                "x_t": "an emitted token",
                r"\text{target}_t": "the target's distribution at x_t, from a separate pass",
                "A_t": "the set of tokens that the bet is on, fixed before x_t is seen",
                r"\lambda_t": "the stake of the bet, also fixed before x_t is seen",
            },
            "E_n is the capital of a bettor who starts with a capital of 1 and places one bet "
            "before each of n tokens. If every token follows the target's distribution, the "
            "capital does not grow on average. The audit has many bettors. Each bettor bets "
            "that the token is in a set, for example in the set of tokens that are likelier "
            "under the target than under the draft, or of the target's likeliest tokens. Some "
            "bettors bet at certain positions only: after an acceptance, after a rejection, or "
            "on bonus tokens. The p-value is computed from the mean capital of all bettors. If "
            "the output is correct, this mean reaches 100 in at most one audit in a hundred, no "
            "matter when the audit stops (Ville 1939).",
        )


def show_zoo(
    audits: Sequence[AuditJob], start: Callable[..., None] | None, *, busy: bool, drafted: bool
) -> None:
    """Show a card per bug: what it does, what it damages and why, and whether an audit found it.

    Args:
        start: Starts an audit with an injected bug; None if the person may not start audits.
        drafted: Whether the drafter is a draft model. With other drafters, no bug can be injected.
    """
    st.markdown("#### The bug zoo")
    st.caption(
        f"A check that cannot fail proves nothing. {_ZOO_WORDS[start is not None]} "
        "the bug damages: the output's distribution, the speed, or both."
        + ("" if drafted else " Bugs can be injected only into runs with a draft model.")
    )
    last = _last_of_each(audits)
    columns = st.columns(2, gap="medium")
    for index, bug in enumerate(BREAKS.values()):
        card = columns[index % 2].container(border=True, key=f"bug_{bug.name}", gap="small")
        with card:
            _show_bug(bug, start, disabled=busy or not drafted)
            if (job := last.get(bug.name)) is not None:
                _show_audit_of(bug, job, audits)


def _show_audit_of(bug: Break, job: AuditJob, audits: Sequence[AuditJob]) -> None:
    """Show whether the audit ``job`` found the bug.

    If ``job`` is the newest of all audits, also show its progress, its verdict and the evidence.
    """
    is_newest = job is audits[-1]

    def draw() -> None:
        if job.report is not None:
            st.markdown(_found_words(job.report, bug))
        if is_newest:
            _show_findings(audits)

    if is_newest:
        follow(job, draw)
    else:
        draw()


def _show_bug(bug: Break, start: Callable[..., None] | None, *, disabled: bool) -> None:
    colour = "red" if bug.biased else "orange"
    st.markdown(f"**{as_text(bug.name)}** :{colour}-badge[costs {as_text(bug.costs)}]")
    st.markdown(as_text(bug.does))
    distance = "" if bug.distance is None else (
        " The measured distance (TV) of an affected token's distribution from the target's is "
        f"{PROBABILITY.bare(bug.distance)}."
    )  # fmt: skip
    st.caption(as_text(bug.why + distance))
    if start is not None:
        st.button(
            "Inject it", key=f"break_{bug.name}", disabled=disabled, on_click=start,
            kwargs={"broken": bug.name},
        )  # fmt: skip


def _found_words(report: AuditReport, bug: Break) -> str:
    if report.alarm:
        return f":red-badge[found] at run {report.alarm_at:,}."
    if not bug.biased:
        return (
            f":green-badge[no alarm] in {report.first_tokens:,} tokens, as expected: the output "
            "still follows the target's distribution."
        )
    return f":gray-badge[not found yet] in {report.first_tokens:,} tokens."
