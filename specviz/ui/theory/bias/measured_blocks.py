"""Block and token-by-token verification, compared on the same drafts of recorded runs."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from specviz.figures.method_checks import BlockCheck, block_check, counts_drafts
from specviz.figures.symbols import names_in_formula
from specviz.record.numbers import RATIO, TOKENS
from specviz.record.run_config import RunConfig
from specviz.record.trace import Trace
from specviz.ui.theory.bias.charts import accepted_means, rounds_by_both
from specviz.ui.theory.kept_methods import choose_methods, recorded_methods, show_about
from specviz.ui.widgets.page_parts import PROBABILITIES, show_chart, show_formula

_ROUNDING = 1e-9
_FIRM = 4.0  # standard deviations; larger differences are not sampling noise
_SECTION = "bias_measured"
_LANES = {
    "whole blocks": RunConfig(temperature=1.0, rule="block"),
    "token by token": RunConfig(temperature=1.0),
}


def show_measured_blocks() -> None:
    st.subheader("On the real pair", anchor=False)
    runs = choose_methods(_SECTION, _judges_blocks, _check, recorded_methods().blocks)
    check = runs.found
    st.markdown(f"{_rounds_sentence(check)} {_means_sentence(check)}")
    left, right = st.columns(2, gap="medium")
    with left:
        note = "Expected accepted candidates, one dot per round. No dot is below the diagonal."
        if _count_rounds_below(check):
            note = "Expected accepted candidates, one dot per round."
        made = rounds_by_both([(each.by_token, each.by_block) for each in check.rounds])
        show_chart(made, note, "measured", key="bias_block_rounds")
    with right:
        note = "Mean accepted candidates per round, expected and measured."
        show_chart(accepted_means(_bars(check)), note, "exact", "measured", key="bias_block_means")
    show_about(runs, _LANES, _SECTION, "")
    show_formula(
        r"\sum_{i=1}^{\gamma} w_i \;\ge\; \sum_{i=1}^{\gamma} \prod_{j \le i}"
        r" \min\!\left(1, \frac{p_{\text{target}}(x_j)}{p_{\text{draft}}(x_j)}\right)",
        {
            "w_i": "probability that block verification accepts at least i candidates",
            "x_j": "candidate j",
            **PROBABILITIES,
            **names_in_formula("gamma"),
            "i": "a position in the round",
        },
        "Sun et al. 2024. The left side is the expected number of accepted candidates with block "
        "verification. The right side is this number with token-by-token verification of the same "
        "candidates. The inequality holds in every round, not only on average.",
    )


def _judges_blocks(configs: Sequence[RunConfig]) -> bool:
    return any(each.rule == "block" and not each.greedy for each in configs)


def _check(traces: Sequence[Trace]) -> BlockCheck | None:
    """Compare how many candidates block verification accepted with how many were expected.

    The result also contains how many candidates token-by-token verification accepted, in runs with
    this γ. The result is None if token-by-token verification is expected to accept none of the
    candidates that block verification checked.
    """
    blocks = [each for each in traces if _judges_blocks([each.config])]
    gammas = {each.config.gamma for each in blocks}
    token_by_token = [
        each
        for each in traces
        if counts_drafts(each.config) and each.config.is_chain and {each.config.gamma} == gammas
    ]
    found = block_check(blocks, token_by_token)
    return found if found.by_token else None


def _count_rounds_below(check: BlockCheck) -> int:
    return sum(each.by_block < each.by_token - _ROUNDING for each in check.rounds)


def _rounds_sentence(check: BlockCheck) -> str:
    number = len(check.rounds)
    if below := _count_rounds_below(check):
        return (
            f"In {below:,} of {number:,} rounds, block verification did **worse** than "
            "token-by-token verification, which should never happen."
        )
    more = sum(each.by_block > each.by_token + _ROUNDING for each in check.rounds)
    return (
        f"In all {number:,} recorded rounds, block verification is expected to accept at least as "
        f"many candidates as token-by-token verification; in **{more:,}** of these rounds, it is "
        "expected to accept more."
    )


def _means_sentence(check: BlockCheck) -> str:
    number = len(check.rounds)
    agrees = (
        "the difference is sampling noise"
        if abs(check.z or 0.0) < _FIRM
        else "the difference exceeds sampling noise"
    )
    return (
        f"A round accepted **{TOKENS.bare(check.accepted / number)}** candidates on average; "
        f"{TOKENS.bare(check.by_block / number)} were expected ({agrees}). Token-by-token "
        f"verification of the same drafts is expected to accept "
        f"{TOKENS.bare(check.by_token / number)}, so block verification accepts "
        f"{RATIO.shown(check.by_block / check.by_token)} as many candidates."
    )


def _bars(check: BlockCheck) -> list[tuple[str, float, bool]]:
    """Return the bars as (name, mean accepted candidates per round, whether measured)."""
    number = len(check.rounds)
    bars = [
        ("token by token, expected", check.by_token / number, False),
        ("block, expected", check.by_block / number, False),
        ("block, measured", check.accepted / number, True),
    ]
    if check.token_runs is not None:
        bars.insert(1, ("token by token, other runs", check.token_runs, True))
    return bars
