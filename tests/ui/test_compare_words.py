"""Sentences about the intervals of a comparison."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.comparison import KindResult, Over, Ratio, interval_words
from specviz.comparison.lane_results import lane_result
from specviz.comparison.plan import Lane
from specviz.record.pairs import PairSpec
from specviz.record.run_config import RunConfig
from specviz.ui.compare.results import kinds_with_intervals


def ratio(over: Over, *, count: int = 2) -> Ratio:
    ends = (0.9, 1.1) if count > 1 else (None, None)
    return Ratio(value=1.0, low=ends[0], high=ends[1], over=over, count=count)


def kind(name: str | None, found: Ratio) -> KindResult:
    empty = lane_result("γ 2", Lane(spec=PairSpec(), config=RunConfig()), [])
    lane = replace(empty, speedup_ratio=found, expected=found)
    return KindResult(kind=name, num_prompts=1, lanes=(lane,), over_first=(None,))


@pytest.mark.parametrize(
    ("ratios", "words"),
    [
        ([ratio("seeds"), None], "with its 95 % interval over repeats"),
        ([ratio("prompts"), ratio("seeds", count=1)], "with its 95 % interval over prompts"),
        ([ratio("seeds", count=1)], "without an interval, because there are too few runs"),
        (
            [ratio("prompts"), ratio("seeds")],
            "with its 95 % interval over prompts, or over repeats if a lane has one prompt",
        ),
    ],
)
def test_interval_sentence_names_its_units(ratios: list[Ratio | None], words: str) -> None:
    assert interval_words(ratios) == words


def test_kinds_with_different_interval_units_are_named() -> None:
    story, poem = kind("story", ratio("prompts")), kind("poem", ratio("seeds"))
    alone = kind(None, ratio("seeds", count=1))
    assert kinds_with_intervals([story]) == "95 % intervals over prompts."
    assert kinds_with_intervals([poem, poem]) == "95 % intervals over repeats."
    assert kinds_with_intervals([alone]) == "No intervals (a single run)."
    assert kinds_with_intervals([story, poem, alone]) == (
        "95 % intervals over prompts for story; 95 % intervals over repeats for poem; "
        "no intervals (a single run) for no kind."
    )
