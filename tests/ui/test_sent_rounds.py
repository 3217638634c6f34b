"""Each round is sent once, and again if the player requests it."""

from __future__ import annotations

from specviz.ui.session.sent_rounds import RoundRequest, SentRounds

NONE = RoundRequest()


def test_each_round_is_sent_once() -> None:
    sent = SentRounds()
    starts = [sent.next_start("a", total, NONE) for total in (3, 3, 8, 9)]
    assert starts == [0, 3, 3, 8]


def test_another_run_starts_at_its_first_round() -> None:
    sent = SentRounds()
    sent.next_start("a", 5, NONE)
    assert sent.next_start("b", 4, NONE) == 0
    assert sent.next_start("b", 6, NONE) == 4


def test_a_request_goes_back_once() -> None:
    sent = SentRounds()
    sent.next_start("a", 9, NONE)
    request = RoundRequest(run="a", start=4, number=7)
    assert sent.next_start("a", 12, request) == 4
    assert sent.next_start("a", 15, request) == 12  # already handled


def test_a_request_for_another_run_resends_all_rounds() -> None:
    sent = SentRounds()
    sent.next_start("a", 9, NONE)
    assert sent.next_start("b", 5, RoundRequest(run="a", start=4, number=7)) == 0


def test_a_start_beyond_the_end_is_clipped() -> None:
    sent = SentRounds()
    sent.next_start("a", 9, NONE)
    assert sent.next_start("a", 9, RoundRequest(run="a", start=40, number=7)) == 9
