"""When to stop drafting: fixed counts and stopping criteria compared with an oracle.

The oracle knows the verdicts in advance and drafts only candidates that will be accepted.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from specviz.figures.stopping_reach import Reach, ReachOverRuns, reach_over_runs
from specviz.record.numbers import COST, PERCENT, STEPS, TOKENS
from specviz.record.run_config import RunConfig
from specviz.record.stopping import parse_stopping
from specviz.record.trace import Trace
from specviz.ui.theory.kept_methods import choose_methods, recorded_methods, show_about
from specviz.ui.theory.speed.charts import reach_over_drafted
from specviz.ui.widgets.page_parts import show_chart, show_formula
from specviz.ui.widgets.plain_text import as_text

_LONG = 12  # γ of the runs; without a stopping criterion, all 12 candidates are drafted
_SECTION = "speed_stopping"
_LANES = {
    f"never stops, γ {_LONG}": RunConfig(gamma=_LONG, temperature=1.0),
    "until unsure": RunConfig(gamma=_LONG, temperature=1.0, draft_until="confidence:0.4"),
    "while it pays": RunConfig(gamma=_LONG, temperature=1.0, draft_until="cost"),
}


def show_when_to_stop() -> None:
    runs = choose_methods(
        _SECTION, _has_both_kinds, _compared_with_oracle, recorded_methods().stops
    )
    found = runs.found
    st.markdown(f"{_count_sentence(found)} {_rules_sentence(found)}")
    note = (
        "Tokens per unit of time, as a share of the oracle’s rate. The lines are computed from "
        "the rounds of runs that always drafted γ candidates. Squares are runs with a stopping "
        "criterion."
    )
    show_chart(
        reach_over_drafted(found), note, "measured", key="speed_reach",
        alt="Tokens per unit of time relative to the oracle, against candidates drafted per "
        "emitted token.",
    )  # fmt: skip
    st.caption(_costs_sentence(found))
    show_about(runs, _LANES, _SECTION, "")
    show_formula(
        r"\text{rate} = \frac{\sum_r (\min(k_r, a_r) + 1)}{\sum_r (k_r\,c + v(k_r + 1))} \\"
        r" \text{oracle: } k_r = a_r",
        {
            "r": "a round",
            "k_r": "candidates drafted in round r",
            "a_r": "candidates that would be accepted in round r if γ were drafted",
            "c": "cost of a draft step",
            "v(n)": "cost of verifying n tokens; c and v are in target steps",
        },
        "On these rounds, the oracle is an upper bound: no criterion knows the verdicts in "
        "advance.",
    )


def _has_both_kinds(configs: Sequence[RunConfig]) -> bool:
    """Return whether some settings always draft γ candidates and others can stop earlier."""
    chains = [each for each in configs if each.is_chain and each.judging.deciding == "odds"]
    return any(_never_stops(each) for each in chains) and any(_stops(each) for each in chains)


def _never_stops(config: RunConfig) -> bool:
    return config.formulas_hold and config.draft_method.has_steps and config.gamma > 1


def _stops(config: RunConfig) -> bool:
    return config.draft_until != "count" and config.until.stopping.measured


def _compared_with_oracle(traces: Sequence[Trace]) -> ReachOverRuns | None:
    """Compare stopping criteria and fixed numbers of candidates with the oracle.

    Of the runs that always drafted γ candidates, only those with the greatest γ are used. Runs
    without step costs are left out. The result is None if no suitable run is left.
    """
    priced = [each for each in traces if each.drafting_costs or each.step_costs]
    longest = max((each.config.gamma for each in priced if _never_stops(each.config)), default=0)
    used = [
        each
        for each in priced
        if _stops(each.config) or (_never_stops(each.config) and each.config.gamma == longest)
    ]
    return reach_over_runs(used)


def _count_sentence(found: ReachOverRuns) -> str:
    best = found.counts[found.best_count - 1]
    return (
        "An oracle that knows the verdicts drafts exactly the candidates that will be accepted. "
        f"The best fixed number, **{found.best_count}** candidates per round, reaches "
        f"**{PERCENT.shown(best.share)}** of the oracle’s rate."
    )


def _rules_sentence(found: ReachOverRuns) -> str:
    best = max(found.unsure, key=lambda each: each.rate)
    own = "".join(
        f" Runs that drafted {_rule_text(each)} reached **{PERCENT.shown(each.share)}**."
        for each in found.own
    )
    return (
        f"Drafting {_rule_text(best)} would reach {PERCENT.shown(best.share)} of the oracle’s "
        f"rate on the same rounds.{own}"
    )


def _rule_text(reach: Reach) -> str:
    until = parse_stopping(reach.name)
    number = f" (threshold {until.threshold:g})" if until.stopping.takes_number else ""
    return f"{as_text(until.stopping.words)}{number}"


def _costs_sentence(found: ReachOverRuns) -> str:
    costs = found.costs
    tokens = min(6, len(costs.verify))
    return (
        f"In target steps, a draft step costs c = {COST.bare(costs.draft_next)}, and verifying "
        f"{tokens} tokens costs {STEPS.bare(costs.verify[tokens - 1])}. The oracle emits "
        f"{TOKENS.bare(found.oracle.rate)} tokens per target step."
    )
