"""Each round is sent once, and again where the player misses some."""

from __future__ import annotations

from specviz.ui.session.sent_rounds import SentRounds, Wish

NONE = Wish()


def test_each_round_is_sent_once() -> None:
    sent = SentRounds()
    starts = [sent.next_start("a", total, NONE) for total in (3, 3, 8, 9)]
    assert starts == [0, 3, 3, 8]


def test_another_run_begins_at_its_beginning() -> None:
    sent = SentRounds()
    sent.next_start("a", 5, NONE)
    assert sent.next_start("b", 4, NONE) == 0
    assert sent.next_start("b", 6, NONE) == 4


def test_a_wish_goes_back_once() -> None:
    sent = SentRounds()
    sent.next_start("a", 9, NONE)
    wish = Wish(run="a", start=4, number=7)
    assert sent.next_start("a", 12, wish) == 4
    assert sent.next_start("a", 15, wish) == 12  # heard already


def test_a_wish_for_another_run_is_for_all_of_this_one() -> None:
    sent = SentRounds()
    sent.next_start("a", 9, NONE)
    assert sent.next_start("b", 5, Wish(run="a", start=4, number=7)) == 0


def test_no_more_is_promised_than_there_is() -> None:
    sent = SentRounds()
    sent.next_start("a", 9, NONE)
    assert sent.next_start("a", 9, Wish(run="a", start=40, number=7)) == 9
