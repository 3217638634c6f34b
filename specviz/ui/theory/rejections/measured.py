"""Several drafts on the real pair: measured and expected tokens and rejections."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
import streamlit as st

from specviz.figures.method_checks import (
    Count,
    DraftsPoint,
    counts_drafts,
    joint_deviations,
    rejections_over_drafts,
)
from specviz.figures.paired import Values, ratio
from specviz.figures.symbols import names_in_formula
from specviz.record.numbers import RATIO, TOKENS, times
from specviz.record.run_config import RunConfig
from specviz.record.trace import Trace
from specviz.ui.theory.kept_methods import choose_methods, recorded_methods, show_about
from specviz.ui.theory.rejections.charts import MeasuredAndExpected, measured_and_expected
from specviz.ui.widgets.page_parts import show_chart, show_formula
from specviz.ui.widgets.plain_text import as_text

BODY = "90M"
_LEVEL = 0.99
_SECTION = "rejections_measured"
_LANES = {f"M {number}": RunConfig(temperature=1.0, num_drafts=number) for number in (1, 2, 4, 8)}


def show_measured_drafts() -> None:
    runs = choose_methods(_SECTION, _has_several_counts, _points, recorded_methods().drafts)
    points = runs.found
    st.markdown(f"{_agreement_sentence(points)}  \n{speed_sentence(points)}")
    wide = joint_deviations(len(points), _LEVEL)
    left, right = st.columns(2, gap="medium")
    with left:
        made = measured_and_expected([_tau(each, wide) for each in points], "tokens per round, τ")
        note = "Bars: the joint 99 % band around the expected value."
        show_chart(made, note, "exact", "measured", key="rejections_tau")
    with right:
        made = measured_and_expected(
            [_rejections(each, wide) for each in points], "rejections per 100 tokens"
        )
        note = "A position counts as rejected if all its candidates were rejected."
        show_chart(made, note, "exact", "measured", key="rejections_places")
    st.dataframe(
        _table(points), hide_index=True, height="content", key="rejections_table",
        column_config=_COLUMNS, alt="Measured and expected figures by the number of drafts.",
    )  # fmt: skip
    show_about(runs, _LANES, _SECTION, BODY)
    show_formula(
        r"\mathbb{E}[R] = \sum_{i} d_i \\ \tau = 1 + \frac{1}{K}\sum_{j}(1 - d_j)",
        {
            "R": "rejected positions",
            "i": "a position where all candidates but the last were rejected",
            "j": "any tested candidate",
            "d": "distance (TV) between the distribution that the candidate was drawn from and the "
            "residual of the target’s distribution after the earlier rejections",
            **names_in_formula("tau"),
            "K": "rounds",
            r"\mathbb{E}": "mean",
        },
        "The probabilities are those of theorem 3 of Yin et al. 2024, at the positions that the "
        "runs reached. Whether a candidate is tested depends only on earlier draws, so the sums "
        "give the exact expected values for any text. Rounds here end after γ candidates, so the "
        "paper’s lower bound does not apply.",
    )


def _has_several_counts(configs: Sequence[RunConfig]) -> bool:
    """Return whether the settings differ in the number of drafts or in the tree's branching."""
    drafted = {(each.num_drafts, each.branching) for each in configs if counts_drafts(each)}
    return len(drafted) > 1


def _points(traces: Sequence[Trace]) -> tuple[DraftsPoint, ...] | None:
    found = rejections_over_drafts([each for each in traces if counts_drafts(each.config)])
    return found or None


def _tau(point: DraftsPoint, wide: float) -> MeasuredAndExpected:
    return MeasuredAndExpected(
        label=point.label,
        measured=point.tau,
        expected=point.tau_expected,
        half=wide * math.sqrt(point.accepted.variance) / point.num_rounds,
    )


def _rejections(point: DraftsPoint, wide: float) -> MeasuredAndExpected:
    share = 100 / point.num_tokens
    return MeasuredAndExpected(
        label=point.label,
        measured=share * point.rejected.observed,
        expected=share * point.rejected.expected,
        half=share * wide * math.sqrt(point.rejected.variance),
    )


def _agreement_sentence(points: Sequence[DraftsPoint]) -> str:
    first, *others = points
    most = max(others, key=lambda each: each.tau, default=first)
    taus = " to ".join(
        f"**{TOKENS.bare(each.tau)}** with {as_text(each.label)} "
        f"({TOKENS.bare(each.tau_expected)} expected)"
        for each in dict.fromkeys((first, most))
    )
    wide = joint_deviations(len(points), _LEVEL)
    out = [each.label for each in points if not _inside(each, wide)]
    agrees = (
        "All numbers of tokens and rejections are within their joint 99 % bands."
        if not out
        else f"Outside the joint 99 % band: {as_text(', '.join(out))}."
    )
    return f"Tokens per round: from {taus}. {agrees}"


def _inside(point: DraftsPoint, wide: float) -> bool:
    return all(_deviation(each) <= wide for each in (point.accepted, point.rejected))


def _deviation(count: Count) -> float:
    return abs(count.z or 0.0)


def speed_sentence(points: Sequence[DraftsPoint]) -> str:
    """Name the fastest number of drafts, and the numbers that are slower than the target alone."""
    timed = {each.label: each.speedup for each in points if each.speedup is not None}
    if not timed:
        return "These runs were not timed against the target alone."
    fastest = max(timed, key=lambda label: timed[label])
    first = f"{as_text(fastest)} was fastest: {times(timed[fastest])} as fast as the target alone."
    slow = [label for label, speed in timed.items() if speed < 1.0]
    slower = f"Slower than the target alone: {as_text(', '.join(slow))}." if slow else ""
    return f"{first} {_paired_sentence([each for each in points if each.speedups])} {slower}"


def _paired_sentence(points: Sequence[DraftsPoint]) -> str:
    """Describe which numbers of drafts are faster or slower than one draft at the same γ.

    For a tree, γ is its depth. The speedups are paired by prompt. If Student's 95 % interval of
    their ratio includes 1, the comparison is undecided.
    """
    one_draft = {each.gamma: each for each in points if each.num_candidates == each.gamma}
    found: dict[str, list[str]] = {"faster": [], "slower": [], "": []}
    for each in points:
        one = one_draft.get(each.gamma, each)
        if one is not each and len(one.speedups) == len(each.speedups):
            compared = ratio(_by_prompt(each), _by_prompt(one))
            assert compared is not None
            result = ("faster" if compared.value > 1.0 else "slower") if compared.differs else ""
            found[result].append(each.label)
    parts = [
        f" {name} with {', '.join(found[name])}" for name in ("faster", "slower") if found[name]
    ]
    parts += [f" undecided with {', '.join(found[''])}"] if found[""] else []
    return as_text(f"Compared with one draft at the same γ:{';'.join(parts)}.") if parts else ""


def _by_prompt(point: DraftsPoint) -> Values:
    return {(index, 0): speed for index, speed in enumerate(point.speedups)}


def _table(points: Sequence[DraftsPoint]) -> pd.DataFrame:
    """Return a table with a row per number of drafts; columns without values are left out."""
    made = pd.DataFrame(
        {
            "drafts": [each.label for each in points],
            "candidates per round": [each.num_candidates for each in points],
            "rounds": [each.num_rounds for each in points],
            "τ": [each.tau for each in points],
            "τ expected": [each.tau_expected for each in points],
            "τ, z": [each.accepted.z for each in points],
            "rejections": [each.rejected.observed for each in points],
            "rejections expected": [each.rejected.expected for each in points],
            "rejections, z": [each.rejected.z for each in points],
            "speedup": [each.speedup for each in points],
        }
    )
    return made.dropna(axis="columns", how="all")


_COLUMNS = {
    "τ": st.column_config.NumberColumn(format=TOKENS.column),
    "τ expected": st.column_config.NumberColumn(format=TOKENS.column),
    "rejections expected": st.column_config.NumberColumn(format="%.1f"),
    "τ, z": st.column_config.NumberColumn(format="%+.1f"),
    "rejections, z": st.column_config.NumberColumn(format="%+.1f"),
    "speedup": st.column_config.NumberColumn(format=RATIO.column),
}
