"""Several drafts on the real pair: what rounds gave, against what their records expect."""

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
from specviz.record.numbers import RATIO, TOKENS, times
from specviz.record.run_config import RunConfig
from specviz.record.trace import Trace
from specviz.ui.theory.kept_methods import (
    Ways,
    choose_methods,
    recorded_about,
    recorded_methods,
    show_about,
)
from specviz.ui.theory.rejections.charts import BesideExpected, beside_expected
from specviz.ui.widgets.page_parts import show_chart, show_distribution
from specviz.ui.widgets.plain_text import as_text

BODY = "90M"
_LEVEL = 0.99
_SECTION = "rejections_measured"
_LANES = {f"M {number}": RunConfig(temperature=1.0, num_drafts=number) for number in (1, 2, 4, 8)}


def show_measured_drafts() -> None:
    known = recorded_methods().drafts
    recorded = Ways(found=known.found, about=recorded_about(known.made))
    ways = choose_methods(_SECTION, _tell_apart, _points, recorded)
    points = ways.found
    st.markdown(f"{_agreement_sentence(points)}  \n{speed_sentence(points)}")
    wide = joint_deviations(len(points), _LEVEL)
    left, right = st.columns(2, gap="medium")
    with left:
        made = beside_expected([_tau(each, wide) for each in points], "tokens a round, τ")
        note = "Bars: the joint 99 % band about what is expected."
        show_chart(made, note, "exact", "measured", key="rejections_tau")
    with right:
        made = beside_expected(
            [_rejections(each, wide) for each in points], "rejections in 100 tokens"
        )
        note = "A place counts as rejected if every candidate drafted for it was rejected."
        show_chart(made, note, "exact", "measured", key="rejections_places")
    st.dataframe(
        _table(points), hide_index=True, height="content", key="rejections_table",
        column_config=_COLUMNS, alt="Measured and expected figures by the number of drafts.",
    )  # fmt: skip
    show_about(ways, _LANES, _SECTION, BODY)
    show_distribution(
        r"\mathbb{E}[R] = \sum_{i}\mathrm{TV}(p_i, q_i) \\"
        r" \tau = 1 + \frac{1}{K}\sum_{j}\big(1 - \mathrm{TV}(p_j, q_j)\big)",
        {
            "R": "rejected places",
            "i": "a place of which only the last candidate was left",
            "j": "any tested candidate",
            "p": "the law that it was drawn from",
            "q": "what those that fell before it left of the target’s law",
            r"\mathrm{TV}": "half the sum of the differences",
            r"\tau": "tokens a round, in the mean",
            "K": "rounds",
            r"\mathbb{E}": "mean",
        },
        "The chances of theorem 3 of Yin et al. 2024, at the places that the runs came to. Whether "
        "a candidate is tested is settled before it is drawn, so the sums are exact whatever the "
        "text. Runs here end a round after γ candidates, so the paper’s floor does not bind them.",
    )


def _tell_apart(configs: Sequence[RunConfig]) -> bool:
    drafted = {(each.num_drafts, each.branching) for each in configs if counts_drafts(each)}
    return len(drafted) > 1


def _points(traces: Sequence[Trace]) -> tuple[DraftsPoint, ...] | None:
    found = rejections_over_drafts([each for each in traces if counts_drafts(each.config)])
    return found or None


def _tau(point: DraftsPoint, wide: float) -> BesideExpected:
    return BesideExpected(
        label=point.label,
        measured=point.tau,
        expected=point.tau_expected,
        half=wide * math.sqrt(point.accepted.variance) / point.num_rounds,
    )


def _rejections(point: DraftsPoint, wide: float) -> BesideExpected:
    share = 100 / point.num_tokens
    return BesideExpected(
        label=point.label,
        measured=share * point.rejected.observed,
        expected=share * point.rejected.expected,
        half=share * wide * math.sqrt(point.rejected.variance),
    )


def _agreement_sentence(points: Sequence[DraftsPoint]) -> str:
    first, *others = points
    most = max(others, key=lambda each: each.tau, default=first)
    told = " to ".join(
        f"**{TOKENS.bare(each.tau)}** with {as_text(each.label)} "
        f"({TOKENS.bare(each.tau_expected)} expected)"
        for each in dict.fromkeys((first, most))
    )
    wide = joint_deviations(len(points), _LEVEL)
    out = [each.label for each in points if not _inside(each, wide)]
    agrees = (
        "All lie within the joint 99 % band of their own record, tokens and rejections alike."
        if not out
        else f"Outside the joint 99 % band of their own record: {as_text(', '.join(out))}."
    )
    return f"Tokens a round: from {told}. {agrees}"


def _inside(point: DraftsPoint, wide: float) -> bool:
    return all(_deviation(each) <= wide for each in (point.accepted, point.rejected))


def _deviation(count: Count) -> float:
    return abs(count.z or 0.0)


def speed_sentence(points: Sequence[DraftsPoint]) -> str:
    """Where more candidates stop paying: every one of them is a row that the target reads."""
    timed = {each.label: each.speedup for each in points if each.speedup is not None}
    if not timed:
        return "These runs were not timed against the target alone."
    fastest = max(timed, key=lambda label: timed[label])
    told = f"Fastest was {as_text(fastest)}, {times(timed[fastest])} as fast as the target alone."
    slow = [label for label, speed in timed.items() if speed < 1.0]
    slower = f"Slower than the target alone: {as_text(', '.join(slow))}." if slow else ""
    return f"{told} {_paying_words([each for each in points if each.speedups])} {slower}"


def _paying_words(points: Sequence[DraftsPoint]) -> str:
    """Several drafts beside one of the same γ, and a tree beside one of its depth, on the same
    prompts: by Student's interval of 95 %."""
    alone = {each.gamma: each for each in points if each.num_candidates == each.gamma}
    found: dict[str, list[str]] = {"faster": [], "slower": [], "": []}
    for each in points:
        one = alone.get(each.gamma, each)
        if one is not each and len(one.speedups) == len(each.speedups):
            compared = ratio(_by_prompt(each), _by_prompt(one))
            assert compared is not None
            way = ("faster" if compared.value > 1.0 else "slower") if compared.differs else ""
            found[way].append(each.label)
    told = [f" {way} with {', '.join(found[way])}" for way in ("faster", "slower") if found[way]]
    told += [f" undecided with {', '.join(found[''])}"] if found[""] else []
    return as_text(f"Beside one draft of the same γ:{';'.join(told)}.") if told else ""


def _by_prompt(point: DraftsPoint) -> Values:
    return {(place, 0): speed for place, speed in enumerate(point.speedups)}


def _table(points: Sequence[DraftsPoint]) -> pd.DataFrame:
    """Without the column of speedups where nothing was timed."""
    made = pd.DataFrame(
        {
            "drafts": [each.label for each in points],
            "candidates a round": [each.num_candidates for each in points],
            "rounds": [each.num_rounds for each in points],
            "τ": [each.tau for each in points],
            "τ expected": [each.tau_expected for each in points],
            "off, deviations": [each.accepted.z for each in points],
            "rejections": [each.rejected.observed for each in points],
            "expected": [each.rejected.expected for each in points],
            "off, deviations ": [each.rejected.z for each in points],
            "speedup": [each.speedup for each in points],
        }
    )
    return made.dropna(axis="columns", how="all")


_COLUMNS = {
    "τ": st.column_config.NumberColumn(format=TOKENS.column),
    "τ expected": st.column_config.NumberColumn(format=TOKENS.column),
    "expected": st.column_config.NumberColumn(format="%.1f"),
    "off, deviations": st.column_config.NumberColumn(format="%+.1f"),
    "off, deviations ": st.column_config.NumberColumn(format="%+.1f"),
    "speedup": st.column_config.NumberColumn(format=RATIO.column),
}
