"""Runs of a tiny pair, one for every speculation method that pages show differently."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from specviz.record.heads import HeadInfo
from specviz.record.trace import RunConfig, Trace
from tests.engine.heads.test_head_runs import SHORT, head_pair
from tests.engine.playing import llama_pair, play
from tests.traces import make_model, make_trace

_BASE = RunConfig(gamma=4, temperature=1.0, max_new_tokens=40, ignore_eos=True)
METHODS = {
    "block": replace(_BASE, rule="block"),
    "coupled": replace(_BASE, rule="coupled"),
    "match": replace(_BASE, rule="match"),
    "typical": replace(_BASE, rule="typical", epsilon=0.09),
    "drafts": replace(_BASE, num_drafts=3),
    "tree": replace(_BASE, branching=(3, 2, 1)),
    "wide": replace(_BASE, branching=(8, 3, 1)),
    "dynamic": replace(_BASE, dynamic_tree=(4, 14)),
    "dynamic by matching": replace(_BASE, dynamic_tree=(4, 14), rule="match"),
    "sure": replace(_BASE, draft_until="confidence:0.5"),
    "head": replace(_BASE, drafter="eagle"),
}


@cache
def method_trace(method: str) -> Trace:
    config = METHODS[method]
    if method != "head":
        return make_trace(play(llama_pair("lean"), config), config=config)
    pair = head_pair("eagle3")
    head = pair.head
    assert head is not None
    assert head.proposable is not None
    trace = make_trace(play(pair, config, SHORT), config=config)
    info = HeadInfo(places=head.states.places, proposable=len(head.proposable))
    return replace(
        trace, pair=replace(trace.pair, draft=replace(make_model("toy-head"), head=info))
    )
