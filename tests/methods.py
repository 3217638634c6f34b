"""Runs of a tiny pair, one for every way to speculate that a page shows differently."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from specviz.record.trace import RunConfig, Trace
from tests.engine.playing import llama_pair, play
from tests.traces import make_trace

_USUAL = RunConfig(gamma=4, temperature=1.0, max_new_tokens=40, ignore_eos=True)
WAYS = {
    "block": replace(_USUAL, rule="block"),
    "coupled": replace(_USUAL, rule="coupled"),
    "match": replace(_USUAL, rule="match"),
    "typical": replace(_USUAL, rule="typical", epsilon=0.09),
    "drafts": replace(_USUAL, num_drafts=3),
    "tree": replace(_USUAL, branching=(3, 2, 1)),
    "wide": replace(_USUAL, branching=(8, 3, 1)),
    "sure": replace(_USUAL, draft_until="confidence:0.5"),
}


@cache
def way_trace(way: str) -> Trace:
    return make_trace(play(llama_pair("lean"), WAYS[way]), config=WAYS[way])
