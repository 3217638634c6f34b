"""The figures of an answer, worked out on paper; what was not told is not worked out."""

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


def test_rounds_that_began_with_too_little_room_count_in_no_mean_whatever_they_gave() -> None:
    """15 tokens: 1, 4, 6, 1, 3. With room for 17 the last one begins with 5, and may want 6."""
    full = server_trace()
    assert server_metrics(replace(full, settings=limit(18))).tau == (4 + 6 + 1 + 3) / 4
    assert server_metrics(replace(full, settings=limit(17))).tau == (4 + 6 + 1) / 3
    counted = replace(full, settings=limit(16), grounds="counted")
    assert server_metrics(counted).tau == (4 + 6) / 2
    assert [cut_of(counted, each) for each in counted.rounds] == [None, None, None, *2 * ["length"]]


def test_whether_a_counted_round_was_cut_is_not_known_so_the_last_is_left_out() -> None:
    assert server_metrics(server_trace(grounds="counted")).tau == (4 + 6 + 1) / 3


def limit(tokens: int) -> ServerSettings:
    return ServerSettings(max_new_tokens=tokens)


def test_rates_by_position_are_those_of_the_counters() -> None:
    """A position counts as accepted there by what was accepted before it, as counters tell it."""
    trace = server_trace([(2, 2), (4, 3), (4, 1)], totals=ServerTotals())
    found = server_metrics(trace)
    assert found.alpha_by_position == (1.0, 2 / 3, 1 / 2, 0.0)
    counted = Counters(at=0.0, drafts=3, drafted=10, accepted=6, accepted_at=(3, 2, 1, 0))
    assert metrics_of_counters(counted).alpha_by_position == found.alpha_by_position
    assert metrics_of_counters(counted).draft_acceptance_rate == found.draft_acceptance_rate
    assert (found.num_drafted, found.num_accepted) == (10, 6)


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


def test_several_answers_count_together() -> None:
    one, two = (
        server_trace([(5, 3)], totals=ServerTotals()),
        server_trace([(5, 1), (5, 5)], totals=ServerTotals()),
    )
    found = pooled_metrics([one, two])
    assert (found.num_rounds, found.num_drafted, found.num_accepted) == (3, 15, 9)
    assert found.num_tokens == one.num_tokens + two.num_tokens
    assert pooled_metrics([one, untold(two)]).num_drafted is None
