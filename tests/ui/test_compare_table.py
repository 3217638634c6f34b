"""The table of a comparison: every figure with its spread, and the best of a row."""

from __future__ import annotations

from dataclasses import replace

from specviz.comparing import Comparison, Measured, compare
from specviz.lanes import Lane, Plan, SuiteItem
from specviz.pairing import PairSpec
from specviz.trace import RunConfig, Trace
from specviz.ui.compare_table import BEST, Row, as_texts, rows_of
from tests.traces import make_baseline, make_costs, make_round, make_trace

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
        baseline=make_baseline(
            target=([0.01] * tokens, [0.01] * tokens),
            speculative=([pace] * len(rounds), [pace] * len(rounds)),
        ),
    )


def compared(plan: Plan = PLAN) -> Comparison:
    paces = {(0, 0): 0.020, (0, 1): 0.022, (1, 0): 0.025, (1, 1): 0.025}
    texts = {0: ("aa", "ar"), 1: ("aaa", "rdd")}
    return compare(
        plan,
        [
            Measured(
                job=job,
                trace=run(*texts[job.lane], gamma=2 + job.lane, pace=paces[job.lane, job.repeat]),
                memory_bytes=29_316_096,
            )
            for job in plan.jobs()
        ],
    )


def row(name: str, rows: tuple[Row, ...]) -> Row:
    (found,) = [each for each in rows if each.name == name]
    return found


def test_figures_with_their_spread_and_the_best_marked() -> None:
    rows = rows_of(compared())
    rate = row("tokens a second", rows)
    assert rate.texts == ("119 (114–125)", "100")  # 5 tokens in 2 rounds
    assert (rate.best, rate.target) == ((0,), "100")
    alpha = row("α observed", rows)
    assert (alpha.texts, alpha.best) == (("0.75", "0.75"), ())  # no best where all are alike
    assert row("τ, tokens a round", rows).texts == ("2.50", "2.50")
    assert row("v, a verification", rows).best == (0,)
    assert row("memory of the weights", rows).texts == ("29 MB", "29 MB")
    speedup = row("speedup", rows)
    assert speedup.texts[1] == "1.00"
    assert speedup.texts[0].startswith("1.19 (")


def test_a_share_stays_within_0_and_1() -> None:
    alphas = {0: ("aa",), 1: ("rd",)}
    jobs = PLAN.jobs()
    runs = [
        Measured(job=job, trace=run(*alphas[job.repeat], gamma=2 + job.lane, pace=0.02))
        for job in jobs
    ]
    assert row("α observed", rows_of(compare(PLAN, runs))).texts[0] == "0.50 (0.00–1.00)"


def test_what_no_lane_knows_is_left_out() -> None:
    plan = replace(PLAN, repeats=1)
    bare = [Measured(job=job, trace=make_trace([])) for job in plan.jobs()]
    assert rows_of(compare(plan, bare)) == ()


def test_as_texts_has_the_head_first_and_marks() -> None:
    head, *rows = as_texts(compared())
    assert head == ["", "γ 2", "γ 3", "target alone"]
    assert rows[0] == ["tokens a second", f"119 (114–125) {BEST}", "100", "100"]
    assert all(len(each) == 4 for each in rows)
