"""When to stop drafting: what fixed counts and rules reach of an oracle that knows the verdicts."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from specviz.figures.stopping_reach import Reach, ReachOverRuns, reach_over_runs
from specviz.record.numbers import COST, PERCENT, STEPS, TOKENS
from specviz.record.run_config import RunConfig
from specviz.record.stopping import parse_stopping
from specviz.record.trace import Trace
from specviz.ui.theory.kept_methods import (
    Ways,
    choose_methods,
    recorded_about,
    recorded_methods,
    show_about,
)
from specviz.ui.theory.speed.charts import reach_over_drafted
from specviz.ui.widgets.page_parts import show_chart, show_distribution
from specviz.ui.widgets.plain_text import as_text

_LONG = 12  # candidates of a run that never stops
_SECTION = "speed_stopping"
_LANES = {
    f"never stops, γ {_LONG}": RunConfig(gamma=_LONG, temperature=1.0),
    "until unsure": RunConfig(gamma=_LONG, temperature=1.0, draft_until="confidence:0.4"),
    "while it pays": RunConfig(gamma=_LONG, temperature=1.0, draft_until="cost"),
}


def show_when_to_stop() -> None:
    known = recorded_methods().stops
    recorded = Ways(found=known.found, about=recorded_about(known.made))
    ways = choose_methods(_SECTION, _has_rules, _reached, recorded)
    found = ways.found
    st.markdown(f"{_count_sentence(found)} {_rules_sentence(found)}")
    note = (
        "Tokens for the time of a target’s step, as a share of the oracle’s. Both lines are over "
        "the same rounds, those of runs that never stopped; squares are runs that stopped of "
        "their own accord, so their rounds began elsewhere."
    )
    show_chart(
        reach_over_drafted(found), note, "measured", key="speed_reach",
        alt="Share of the oracle's pace over the candidates drafted for a token.",
    )  # fmt: skip
    st.caption(_costs_words(found))
    show_about(ways, _LANES, _SECTION, "")
    show_distribution(
        r"\text{pace} = \frac{\sum_r (\min(k_r, a_r) + 1)}{\sum_r (k_r\,c + v(k_r + 1))} \\"
        r" \text{oracle: } k_r = a_r",
        {
            "r": "a round",
            "k_r": "candidates drafted in it",
            "a_r": "how many of its candidates stand, had all been drafted",
            "c": "cost of a draft step",
            "v": "cost of a verification by its tokens, both in target steps",
        },
        "The oracle drafts just what stands, so it bounds every rule on these rounds. Nobody can "
        "know that beforehand: it is a bound and never a speed.",
    )


def _has_rules(configs: Sequence[RunConfig]) -> bool:
    """A lane that never stops, and one that does."""
    chains = [each for each in configs if each.is_chain and each.judging.deciding == "odds"]
    return any(_never(each) for each in chains) and any(_stops(each) for each in chains)


def _never(config: RunConfig) -> bool:
    return config.formulas_hold and config.draft_method.has_steps and config.gamma > 1


def _stops(config: RunConfig) -> bool:
    return config.draft_until != "count" and config.until.stopping.measured


def _reached(traces: Sequence[Trace]) -> ReachOverRuns | None:
    """Of the runs with the longest drafts; without step costs there is nothing to price by."""
    priced = [each for each in traces if each.drafting_costs or each.step_costs]
    longest = max((each.config.gamma for each in priced if _never(each.config)), default=0)
    used = [
        each
        for each in priced
        if _stops(each.config) or (_never(each.config) and each.config.gamma == longest)
    ]
    return reach_over_runs(used)


def _count_sentence(found: ReachOverRuns) -> str:
    best = found.counts[found.best_count - 1]
    return (
        f"The best fixed count drafts **{found.best_count}** candidates a round and reaches "
        f"**{PERCENT.shown(best.share)}** of what an oracle would."
    )


def _rules_sentence(found: ReachOverRuns) -> str:
    best = max(found.unsure, key=lambda each: each.rate)
    own = "".join(
        f" Runs that drafted {_words(each)}, of their own accord, reached "
        f"**{PERCENT.shown(each.share)}**."
        for each in found.own
    )
    return f"Drafting {_words(best)} would reach {PERCENT.shown(best.share)} there.{own}"


def _words(reach: Reach) -> str:
    until = parse_stopping(reach.name)
    number = f" (θ {until.threshold:g})" if until.stopping.takes_number else ""
    return f"{as_text(until.stopping.words)}{number}"


def _costs_words(found: ReachOverRuns) -> str:
    costs = found.costs
    tokens = min(6, len(costs.verify))
    return (
        f"Prices of these runs: a draft step c {COST.bare(costs.draft_next)}, verifying {tokens} "
        f"tokens {STEPS.bare(costs.verify[tokens - 1])}, both in steps of the target. The oracle "
        f"writes {TOKENS.bare(found.oracle.rate)} tokens a step."
    )
