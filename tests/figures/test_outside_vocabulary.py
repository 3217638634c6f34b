"""The share of rounds whose extra token a head cannot propose."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.figures.catalogue import CATALOGUE
from specviz.figures.metrics import metrics
from specviz.record.heads import HeadInfo
from specviz.record.trace import Trace
from tests.traces import make_round, make_trace


def trace_of(outside: tuple[bool, ...], proposable: int | None) -> Trace:
    rounds = []
    for each in outside:
        entry = make_round("r")
        assert entry.extra is not None
        rounds.append(replace(entry, extra=replace(entry.extra, outside=each)))
    trace = make_trace(rounds)
    draft = trace.pair.draft
    assert draft is not None
    head = HeadInfo(places=(1,), proposable=proposable)
    pair = replace(trace.pair, draft=replace(draft, head=head))
    return replace(trace, pair=pair, config=replace(trace.config, drafter="eagle"))


def test_the_share_counts_rounds_with_an_extra_token() -> None:
    found = metrics(trace_of((True, False, False, True, False), 9))
    assert found.outside_share == pytest.approx(0.4)
    assert CATALOGUE["outside_share"].note(found) == "in 2 of 5 rounds"


def test_it_is_unknown_for_a_whole_vocabulary_and_for_models() -> None:
    assert metrics(trace_of((False, False), None)).outside_share is None
    other = trace_of((False, False), 9)
    chosen = replace(other, config=replace(other.config, drafter="prompt-lookup"))
    assert metrics(chosen).outside_share is None
