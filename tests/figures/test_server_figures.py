"""The figures of an answer against values by hand; unreported values stay None."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.figures.server_figures import (
    cut_of,
    metrics_of_counters,
    pooled_metrics,
    server_metrics,
)
from specviz.record.server_run import Counters, ServerSettings, ServerTotals
from tests.record.server_traces import server_rounds, server_trace, without_rounds


def test_the_figures_of_an_answer_with_reported_rounds() -> None:
    found = server_metrics(server_trace())
    assert (found.num_tokens, found.num_rounds) == (15, 4)
    assert (found.num_drafted, found.num_accepted) == (20, 10)
    assert found.draft_acceptance_rate == 0.5
    assert found.tau == (4 + 6 + 1 + 3) / 4
    assert found.alpha_by_position == (3 / 4, 1.0, 2 / 3, 1 / 2, 1.0)
    assert found.tokens_per_second == pytest.approx(14 / 0.08)
    assert found.ttft == 0.1


def test_means_leave_out_a_cut_last_round() -> None:
    whole = server_trace()
    last = whole.rounds[-1]
    cut = replace(last, num_tokens=2, texts=last.texts[:2], token_ids=last.token_ids[:2])
    found = server_metrics(replace(whole, rounds=(*whole.rounds[:-1], cut)))
    assert found.tau == (4 + 6 + 1) / 3
    assert found.num_accepted == 10


def test_means_leave_out_rounds_that_the_length_limit_could_cut() -> None:
    """15 tokens: 1, 4, 6, 1, 3. With a limit of 17, the last begins with 5 left and may need 6."""
    full = server_trace()
    assert server_metrics(replace(full, settings=limit(18))).tau == (4 + 6 + 1 + 3) / 4
    assert server_metrics(replace(full, settings=limit(17))).tau == (4 + 6 + 1) / 3
    counted = replace(full, settings=limit(16), grounds="counted")
    assert server_metrics(counted).tau == (4 + 6) / 2
    assert [cut_of(counted, each) for each in counted.rounds] == [None, None, None, *2 * ["length"]]


def test_counted_rounds_leave_out_the_last_which_may_be_cut() -> None:
    assert server_metrics(server_trace(grounds="counted")).tau == (4 + 6 + 1) / 3


def limit(tokens: int) -> ServerSettings:
    return ServerSettings(max_new_tokens=tokens)


def test_rates_by_position_match_the_counters() -> None:
    """The rate of a position is accepted there over accepted at the position before."""
    trace = server_trace([(2, 2), (4, 3), (4, 1)], totals=ServerTotals())
    found = server_metrics(trace)
    assert found.alpha_by_position == (1.0, 2 / 3, 1 / 2, 0.0)
    counted = Counters(at=0.0, drafts=3, drafted=10, accepted=6, accepted_at=(3, 2, 1, 0))
    assert metrics_of_counters(counted).alpha_by_position == found.alpha_by_position
    assert metrics_of_counters(counted).draft_acceptance_rate == found.draft_acceptance_rate
    assert (found.num_drafted, found.num_accepted) == (10, 6)


def test_a_server_without_rounds_has_only_times() -> None:
    found = server_metrics(without_rounds(server_trace()))
    nothing = (found.num_rounds, found.num_drafted, found.num_accepted, found.tau)
    assert nothing == (None, None, None, None)
    assert (found.draft_acceptance_rate, found.alpha_by_position) == (None, ())
    assert found.tokens_per_second == pytest.approx(14 / 0.08)


def test_an_answer_of_one_chunk_has_no_rate() -> None:
    one = server_trace([(5, 3)])
    assert server_metrics(one).tokens_per_second is None
    assert server_metrics(replace(one, rounds=())).ttft is None
    assert server_metrics(replace(one, rounds=server_rounds([]))).tau is None


def test_pools_several_answers() -> None:
    one, two = (
        server_trace([(5, 3)], totals=ServerTotals()),
        server_trace([(5, 1), (5, 5)], totals=ServerTotals()),
    )
    found = pooled_metrics([one, two])
    assert (found.num_rounds, found.num_drafted, found.num_accepted) == (3, 15, 9)
    assert found.num_tokens == one.num_tokens + two.num_tokens
    assert pooled_metrics([one, without_rounds(two)]).num_drafted is None
