"""Timing lanes in turn: same tokens, opposite orders, and texts cut where lanes diverge."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from specviz.bench.lanes import BenchLane, Written
from specviz.bench.timing import SHORTEST, Text, TimedLanes, time_lanes
from specviz.engine.model.pair import Pair

IDS, LENGTH = (5, 6, 7), 40


class Scripted:
    """Lanes that write known tokens in known seconds, and record the order of calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    def lane(self, key: str, seconds: float, parts_at: Sequence[int] = ()) -> BenchLane:
        """``parts_at``: where the lane diverges in each text, by the first id of its prompt."""

        def write(ids: Sequence[int], num_tokens: int) -> Written:
            self.calls.append((key, num_tokens))
            tokens = [1] * num_tokens
            part = parts_at[ids[0] - IDS[0]] if parts_at else num_tokens
            tokens[part:] = [2] * (num_tokens - part)
            return Written(seconds=seconds * num_tokens, token_ids=tuple(tokens))

        return BenchLane(key=key, name=key.title(), write=write, must_agree=not parts_at)

    def order(self) -> list[str]:
        return [key for key, _ in self.calls]


def timed(pair: Pair, lanes: Sequence[BenchLane], texts: int = 1, repeats: int = 1) -> TimedLanes:
    kinds = ("story", "list", "code")
    asked = [
        Text(kind=kinds[i], ids=(IDS[0] + i, *IDS[1:]), num_tokens=LENGTH) for i in range(texts)
    ]
    return time_lanes(pair, lanes, asked, repeats, lambda _: None)


def test_every_other_repeat_runs_in_the_opposite_order(pair: Pair) -> None:
    script = Scripted()
    result = timed(pair, [script.lane("plain", 1.0), script.lane("other", 2.0)], repeats=3)
    there, back = ["plain", "other"], ["other", "plain"]
    assert script.order() == [*there, *there, *back, *there]
    assert result.seconds == {"plain": [LENGTH] * 3, "other": [2 * LENGTH] * 3}
    assert result.notices == ()
    assert result.rows() == [
        {"lane": "Plain", "tokens_per_second": 1.0, "seconds": LENGTH},
        {"lane": "Other", "tokens_per_second": 0.5, "seconds": 2 * LENGTH},
    ]


def test_cuts_a_text_for_all_lanes_where_one_diverges(pair: Pair) -> None:
    script = Scripted()
    lanes = [script.lane("plain", 1.0), script.lane("rival", 3.0, parts_at=(30, LENGTH))]
    result = timed(pair, lanes, texts=2)
    assert [text.num_tokens for text in result.texts] == [30, LENGTH]
    assert result.seconds == {"plain": [30 + LENGTH], "rival": [3 * (30 + LENGTH)]}
    (parted,) = result.parted
    assert (parted.lane, parted.kind, parted.position) == ("Rival", "story", 30)
    assert parted.margin >= 0


def test_skips_a_text_that_diverges_at_once(pair: Pair) -> None:
    script = Scripted()
    lanes = [script.lane("plain", 1.0), script.lane("rival", 1.0, parts_at=(3, LENGTH, 5))]
    result = timed(pair, lanes, texts=3)
    assert [text.kind for text in result.texts] == ["list"]
    assert result.notices == (
        f"Not timed, since lanes diverge within {SHORTEST} tokens: story, code.",
    )
    assert result.seconds["rival"] == [LENGTH]


def test_skips_a_lane_that_always_diverges_at_once(pair: Pair) -> None:
    script = Scripted()
    lanes = [script.lane("plain", 1.0), script.lane("rival", 1.0, parts_at=(3, 4))]
    result = timed(pair, lanes, texts=2)
    assert set(result.seconds) == set(result.names) == {"plain"}
    assert [text.num_tokens for text in result.texts] == [LENGTH, LENGTH]
    assert result.notices == (f"Rival: not timed, every text diverges within {SHORTEST} tokens.",)
    assert len(result.parted) == 2


@pytest.mark.parametrize("repeats", [1, 4])
def test_does_not_time_the_warm_up(pair: Pair, repeats: int) -> None:
    result = timed(pair, [Scripted().lane("plain", 1.0)], repeats=repeats)
    assert [len(each) for each in result.seconds.values()] == [repeats]
