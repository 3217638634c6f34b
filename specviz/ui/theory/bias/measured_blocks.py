"""Whole blocks on the real pair: each recorded round judged both ways on the same drafts."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from specviz.figures.method_checks import BlockCheck, block_check, counts_drafts
from specviz.record.numbers import RATIO, TOKENS
from specviz.record.run_config import RunConfig
from specviz.record.trace import Trace
from specviz.ui.theory.bias.charts import accepted_means, rounds_by_both
from specviz.ui.theory.kept_methods import (
    Ways,
    choose_methods,
    recorded_about,
    recorded_methods,
    show_about,
)
from specviz.ui.widgets.page_parts import show_chart, show_distribution

_ROUNDING = 1e-9
_FIRM = 4.0  # standard deviations: more is not chance
_SECTION = "bias_measured"
_LANES = {
    "whole blocks": RunConfig(temperature=1.0, rule="block"),
    "token by token": RunConfig(temperature=1.0),
}


def show_measured_blocks() -> None:
    st.subheader("On the real pair", anchor=False)
    known = recorded_methods().blocks
    recorded = Ways(found=known.found, about=recorded_about(known.made))
    ways = choose_methods(_SECTION, _judges_blocks, _check, recorded)
    check = ways.found
    st.markdown(f"{_every_round(check)} {_means(check)}")
    left, right = st.columns(2, gap="medium")
    with left:
        note = "A dot for each round. No dot lies below the line."
        if _below(check):
            note = "A dot for each round."
        made = rounds_by_both([(each.by_token, each.by_block) for each in check.rounds])
        show_chart(made, note, "measured", key="bias_block_rounds")
    with right:
        note = "Candidates that stood a round, and how many should on average."
        show_chart(accepted_means(_bars(check)), note, "exact", "measured", key="bias_block_means")
    show_about(ways, _LANES, _SECTION, "")
    show_distribution(
        r"\sum_{i=1}^{\gamma} w_i \;\ge\; \sum_{i=1}^{\gamma} \prod_{j \le i}"
        r" \min\!\left(1, \frac{q(x_j)}{p(x_j)}\right)",
        {
            "w_i": "the chance that at least i candidates stand as a block, as above",
            "x_j": "candidate j",
            "p,\\, q": "its chance by draft and target",
            r"\gamma": "candidates a round",
            "i": "a place of the round",
        },
        "Sun et al. 2024. On the right: the same candidates judged token by token. It holds in "
        "every round, not only in the mean.",
    )


def _judges_blocks(configs: Sequence[RunConfig]) -> bool:
    return any(each.rule == "block" and not each.greedy for each in configs)


def _check(traces: Sequence[Trace]) -> BlockCheck | None:
    """The lanes that judged token by token stand beside it if they drafted alike."""
    blocks = [each for each in traces if _judges_blocks([each.config])]
    gammas = {each.config.gamma for each in blocks}
    beside = [
        each
        for each in traces
        if counts_drafts(each.config) and each.config.is_chain and {each.config.gamma} == gammas
    ]
    found = block_check(blocks, beside)
    return found if found.by_token else None


def _below(check: BlockCheck) -> int:
    return sum(each.by_block < each.by_token - _ROUNDING for each in check.rounds)


def _every_round(check: BlockCheck) -> str:
    number = len(check.rounds)
    if below := _below(check):
        return f"In {below:,} of {number:,} rounds the block did **worse**, which it never should."
    more = sum(each.by_block > each.by_token + _ROUNDING for each in check.rounds)
    return (
        f"In each of {number:,} recorded rounds the block’s expectation is at least that of token "
        f"by token; in **{more:,}** of them it is greater."
    )


def _means(check: BlockCheck) -> str:
    number = len(check.rounds)
    agrees = "within chance" if abs(check.z or 0.0) < _FIRM else "more than chance allows"
    return (
        f"A round accepted **{TOKENS.bare(check.accepted / number)}** candidates; "
        f"{TOKENS.bare(check.by_block / number)} were to be expected ({agrees}), and "
        f"{TOKENS.bare(check.by_token / number)} token by token on the same drafts: "
        f"{RATIO.shown(check.by_block / check.by_token)} as many."
    )


def _bars(check: BlockCheck) -> list[tuple[str, float, bool]]:
    """A name, a mean a round, and whether it was measured."""
    number = len(check.rounds)
    bars = [
        ("token by token, expected", check.by_token / number, False),
        ("block, expected", check.by_block / number, False),
        ("block, measured", check.accepted / number, True),
    ]
    if check.token_runs is not None:
        bars.insert(1, ("token by token, other runs", check.token_runs, True))
    return bars
