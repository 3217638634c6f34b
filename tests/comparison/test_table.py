"""The table of a comparison: figures with spreads, and the best of each row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.cli.compare_table import render_comparison
from specviz.cli.terminal_text import Painter
from specviz.comparison import Comparison, LaneRun, compare, lane_run
from specviz.comparison.plan import Lane, Plan, PlannedRun, SuiteItem
from specviz.comparison.table import Row, as_texts, cost_warnings, legend, rows_of, spread_text
from specviz.errors import ConfigError
from specviz.figures.catalogue import CATALOGUE
from specviz.figures.metrics import Metrics, metrics
from specviz.figures.paired import Ratio
from specviz.player import payload, racing
from specviz.player.racing import prompts_raced, representatives
from specviz.player.replay import comparison_html
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig, Trace
from tests.traces import Passes, make_costs, make_round, make_trace

PLAN = Plan(
    lanes=tuple(Lane(spec=PairSpec(), config=RunConfig(gamma=gamma)) for gamma in (2, 3)),
    items=(SuiteItem(prompt="a"),),
    repeats=2,
)


def run(*verdicts: str, gamma: int, pace: float) -> Trace:
    rounds = [make_round(each) for each in verdicts]
    tokens = sum(len(each.emitted) for each in rounds)
    return make_trace(
        rounds,
        config=RunConfig(gamma=gamma),
        step_costs=make_costs(),
        baseline=Passes(
            target=([0.01] * tokens, [0.01] * tokens),
            speculative=([pace] * len(rounds), [pace] * len(rounds)),
        ),
    )


def run_of(job: PlannedRun, *, text: str = "", target: str = "t") -> LaneRun:
    paces = {(0, 0): 0.020, (0, 1): 0.022, (1, 0): 0.025, (1, 1): 0.025}
    verdicts = {0: ("aa", "ar"), 1: ("aaa", "rdd")}[job.lane]
    trace = run(*verdicts, gamma=2 + job.lane, pace=paces[job.lane, job.repeat])
    pair = replace(trace.pair, target=replace(trace.pair.target, name=target))
    return LaneRun(job=job, trace=replace(trace, text=text, pair=pair), memory_bytes=29_316_096)


def compared(*, targets: tuple[str, str] = ("t", "t")) -> Comparison:
    return compare(PLAN, [run_of(job, target=targets[job.lane]) for job in PLAN.runs()])


def row(name: str, rows: tuple[Row, ...]) -> Row:
    (found,) = [each for each in rows if each.name == name]
    return found


def test_rows_have_spreads_and_mark_the_best() -> None:
    rows = rows_of(compared())
    rate = row("tokens/s", rows)
    assert rate.texts == ("119.3 (113.6–125.0)", "100.0")  # 5 tokens in 2 rounds
    assert (rate.best, rate.target) == ((), "100.0")  # the verdict has no winner
    alpha = row("α observed", rows)
    assert (alpha.texts, alpha.best) == (("0.750", "0.750"), ())  # no best among equals
    assert row("τ, tokens per round", rows).texts == ("2.50", "2.50")
    assert row("v, a verification", rows).best == ()  # v for different token counts
    assert row("memory of the weights", rows).texts == ("29.3 MB", "29.3 MB")
    speedup = row("speedup, observed", rows)
    assert speedup.texts[1] == "1.00×"
    assert speedup.texts[0] == "0.65–2.18×"  # too wide to show the mean


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (0.76, 7.02, "timing too noisy"),
        (1.9, 2.8, "1.90–2.80×"),
        (2.2, 2.4, "2.31× (2.20–2.40)"),
    ],
)
def test_a_speedup_is_shown_as_precisely_as_it_is_known(
    low: float, high: float, shown: str
) -> None:
    found = Ratio(value=2.31, low=low, high=high, over="prompts", count=3)
    assert spread_text(CATALOGUE["speedup_observed"], found) == shown


def test_unreliable_step_costs_have_a_warning_with_the_lanes_name() -> None:
    def made(job: PlannedRun) -> LaneRun:
        found = run_of(job)
        costs = replace(make_costs(), drift=0.2 if job.lane else 0.0)
        return replace(found, trace=replace(found.trace, step_costs=costs))

    comparison = compare(PLAN, [made(job) for job in PLAN.runs()])
    assert [len(lane.cost_warnings) for lane in comparison.lanes] == [0, 1]
    for text in (
        legend(comparison),
        render_comparison(Painter(colour=False, width=900), comparison, None),
    ):
        assert "c and v of γ 3: " in text
        assert "busy machine" in text
        assert "γ 2 and" not in text
    assert cost_warnings(compared()) == ""


def test_a_share_stays_within_0_and_1() -> None:
    alphas = {0: ("aa",), 1: ("rd",)}
    jobs = PLAN.runs()
    runs = [
        LaneRun(job=job, trace=run(*alphas[job.repeat], gamma=2 + job.lane, pace=0.02))
        for job in jobs
    ]
    assert row("α observed", rows_of(compare(PLAN, runs))).texts[0] == "0.500 (0.000–1.000)"


def test_figures_that_no_lane_has_are_left_out() -> None:
    plan = replace(PLAN, repeats=1)
    bare = [LaneRun(job=job, trace=make_trace([])) for job in plan.runs()]
    assert rows_of(compare(plan, bare)) == ()


def test_as_texts_returns_the_header_and_the_marked_rows() -> None:
    head, *rows = as_texts(compared())
    assert head == ["", "γ 2", "γ 3", "target alone"]
    assert rows[0] == ["tokens/s", "119.3 (113.6–125.0)", "100.0", "100.0"]
    assert all(len(each) == 4 for each in rows)


def test_different_targets_have_a_row_instead_of_a_column() -> None:
    comparison = compared(targets=("small", "big"))
    head, *rows = as_texts(comparison)
    assert head == ["", "γ 2", "γ 3"]
    assert rows[-1] == ["tokens/s, its target alone", "100.0", "100.0"]
    painter = Painter(colour=False, width=100)
    assert "small alone" in render_comparison(painter, comparison, None)
    assert "target alone  " not in render_comparison(painter, comparison, None)


def test_the_saved_race_is_on_a_prompt_that_every_lane_ran() -> None:
    plan = replace(PLAN, items=(*PLAN.items, SuiteItem(prompt="b", kind="story")))
    runs_with_text = [run_of(job, text="abc"[job.item] if job.lane else "x") for job in plan.runs()]
    second = [
        each for each in runs_with_text if each.job.key[:2] != (1, 0)
    ]  # one lane has no run on "a"
    comparison = compare(plan, second)
    assert prompts_raced(comparison, second) == (1,)
    runs = representatives(comparison, second, 1)
    assert [run.trace.text for run in runs] == ["x", "b"]
    html = comparison_html(comparison, second)
    assert "race on prompt 2 of 2, story" in html
    for runs, item in ((second, 0), (second[:1], None)):
        with pytest.raises(ConfigError, match="no race to save"):
            comparison_html(comparison, runs, item=item)


def test_figures_are_computed_once_for_table_and_race(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Trace] = []

    def counted(trace: Trace, *, intervals: bool = True) -> Metrics:
        made.append(trace)
        return metrics(trace, intervals=intervals)

    for module in (lane_run, payload, racing):
        monkeypatch.setattr(module, "metrics", counted)
    runs = [run_of(job) for job in PLAN.runs()]
    comparison = compare(PLAN, runs)
    assert compare(PLAN, runs) == comparison
    assert comparison_html(comparison, runs)
    assert len(made) == len(runs)
