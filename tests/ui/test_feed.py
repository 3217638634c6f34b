"""Each round is sent once, and again where the player misses some."""

from __future__ import annotations

from specviz.ui.session.feed import Feed, Wish

NONE = Wish()


def test_each_round_is_sent_once() -> None:
    feed = Feed()
    starts = [feed.take("a", total, NONE) for total in (3, 3, 8, 9)]
    assert starts == [0, 3, 3, 8]


def test_another_run_begins_at_its_beginning() -> None:
    feed = Feed()
    feed.take("a", 5, NONE)
    assert feed.take("b", 4, NONE) == 0
    assert feed.take("b", 6, NONE) == 4


def test_a_wish_goes_back_once() -> None:
    feed = Feed()
    feed.take("a", 9, NONE)
    wish = Wish(run="a", start=4, number=7)
    assert feed.take("a", 12, wish) == 4
    assert feed.take("a", 15, wish) == 12  # heard already


def test_a_wish_for_another_run_is_for_all_of_this_one() -> None:
    feed = Feed()
    feed.take("a", 9, NONE)
    assert feed.take("b", 5, Wish(run="a", start=4, number=7)) == 0


def test_no_more_is_promised_than_there_is() -> None:
    feed = Feed()
    feed.take("a", 9, NONE)
    assert feed.take("a", 9, Wish(run="a", start=40, number=7)) == 9
