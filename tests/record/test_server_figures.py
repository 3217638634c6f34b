"""The figures of an answer, worked out on paper; what was not told is not worked out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.record.server_figures import server_metrics
from specviz.record.server_run import ServerTotals
from tests.record.server_traces import server_rounds, server_trace, untold


def test_the_figures_of_an_answer_whose_rounds_were_told() -> None:
    found = server_metrics(server_trace())
    assert (found.num_tokens, found.num_rounds) == (15, 4)
    assert (found.num_drafted, found.num_accepted) == (20, 10)
    assert found.draft_acceptance_rate == 0.5
    assert found.tau == (4 + 6 + 1 + 3) / 4
    assert found.alpha_by_position == (3 / 4, 1.0, 2 / 3, 1 / 2, 1.0)
    assert found.tokens_per_second == pytest.approx(14 / 0.08)
    assert found.ttft == 0.1


def test_a_last_round_that_was_cut_short_counts_in_no_mean() -> None:
    whole = server_trace()
    last = whole.rounds[-1]
    cut = replace(last, num_tokens=2, texts=last.texts[:2], token_ids=last.token_ids[:2])
    found = server_metrics(replace(whole, rounds=(*whole.rounds[:-1], cut)))
    assert found.tau == (4 + 6 + 1) / 3
    assert found.num_accepted == 10


def test_whether_a_counted_round_was_cut_is_not_known_so_the_last_is_left_out() -> None:
    assert server_metrics(server_trace(grounds="counted")).tau == (4 + 6 + 1) / 3


def test_a_position_that_was_not_drafted_was_not_tested() -> None:
    trace = server_trace([(2, 2), (4, 3)], totals=ServerTotals())
    found = server_metrics(trace)
    assert found.alpha_by_position == (1.0, 1.0, 1.0, 0.0)
    assert (found.num_drafted, found.num_accepted) == (6, 5)


def test_a_server_that_tells_no_rounds_has_only_times() -> None:
    found = server_metrics(untold(server_trace()))
    nothing = (found.num_rounds, found.num_drafted, found.num_accepted, found.tau)
    assert nothing == (None, None, None, None)
    assert (found.draft_acceptance_rate, found.alpha_by_position) == (None, ())
    assert found.tokens_per_second == pytest.approx(14 / 0.08)


def test_an_answer_of_one_piece_has_no_rate() -> None:
    one = server_trace([(5, 3)])
    assert server_metrics(one).tokens_per_second is None
    assert server_metrics(replace(one, rounds=())).ttft is None
    assert server_metrics(replace(one, rounds=server_rounds([]))).tau is None
