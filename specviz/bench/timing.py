"""Run lanes in turn on the same texts: once to warm up and compare the output, then timed.

A lane is an engine with a method. If a lane without ``must_agree`` diverges from plain decoding,
the text ends there for every lane, so that all lanes are timed over the same number of tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any

from specviz.bench.divergence import Divergence, divergences, exact
from specviz.bench.lanes import BenchLane, Written, transformers
from specviz.bench.rivals import Assistance
from specviz.errors import PairError
from specviz.measure.slice_timing import undisturbed
from specviz.values import Value

if TYPE_CHECKING:
    from specviz.engine import Pair

SHORTEST = 24  # tokens. A lane's first pass is not timed; no lane emits this many in it.
_PLAIN, _SAME_PASSES = "plain", ("bare", "hf_fixed")


class Text(Value):
    kind: str  # of the prompt
    ids: tuple[int, ...]
    num_tokens: int


class TimedLanes(Value):
    """Times of lanes: ``seconds[key][i]`` is the time of a lane in repeat i, over all texts."""

    names: dict[str, str]
    texts: tuple[Text, ...]
    seconds: dict[str, list[float]]
    parted: tuple[Divergence, ...]
    notices: tuple[str, ...]

    def rows(self) -> list[dict[str, Any]]:
        tokens = sum(text.num_tokens for text in self.texts)
        medians = [(name, median(self.seconds[key])) for key, name in self.names.items()]
        return [
            {"lane": name, "tokens_per_second": tokens / each, "seconds": each}
            for name, each in medians
        ]


def time_lanes(
    pair: Pair,
    lanes: Sequence[BenchLane],
    texts: Sequence[Text],
    repeats: int,
    say: Callable[[str], None],
) -> TimedLanes:
    """Compare the lanes' texts, then time the lanes; every other repeat reverses their order."""
    say("warming up and comparing the texts")
    parted: list[Divergence] = []
    agreed: list[Text] = []
    for text in texts:
        found, cut = _compared(pair, lanes, text)
        parted += found
        agreed.append(cut)
    kept, shared, notices = _worth_timing(lanes, texts, agreed)
    seconds: dict[str, list[float]] = {lane.key: [] for lane in kept}
    for repeat in range(1, repeats + 1):
        say(f"interleaved repeat {repeat} of {repeats}")
        for key, total in _one_repeat(kept if repeat % 2 else kept[::-1], shared).items():
            seconds[key].append(total)
    return TimedLanes(
        names={lane.key: lane.name for lane in kept},
        texts=shared,
        seconds=seconds,
        parted=tuple(parted),
        notices=notices,
    )


def best_assistance(
    pair: Pair, texts: Sequence[Text], grid: Sequence[Assistance], say: Callable[[str], None]
) -> Assistance:
    """Return the settings of ``grid`` with which transformers is fastest over all texts."""
    say(f"searching for the fastest of {len(grid)} settings of transformers")
    seconds = dict.fromkeys(grid, 0.0)
    for text in texts:
        for assistance in grid:
            write = transformers(pair, assistance)
            seconds[assistance] += min(write(text.ids, text.num_tokens).seconds for _ in range(2))
    return min(seconds, key=lambda assistance: seconds[assistance])


def _one_repeat(lanes: Sequence[BenchLane], texts: Sequence[Text]) -> dict[str, float]:
    totals = {lane.key: 0.0 for lane in lanes}
    for text in texts:
        with undisturbed():
            for lane in lanes:
                totals[lane.key] += lane.write(text.ids, text.num_tokens).seconds
    return totals


def _compared(pair: Pair, lanes: Sequence[BenchLane], text: Text) -> tuple[list[Divergence], Text]:
    """Return where lanes diverge from plain decoding, and the part of the text to time."""
    written = {lane.key: lane.write(text.ids, text.num_tokens) for lane in lanes}
    _check_passes(pair, written)
    tokens = {lane.name: written[lane.key].token_ids for lane in lanes}
    reference = written[_PLAIN if _PLAIN in written else lanes[0].key].token_ids
    strict = {lane.name for lane in lanes if lane.must_agree} if exact(pair) else set[str]()
    found = divergences(pair, text.kind, text.ids, tokens, reference, strict)
    return found, replace(text, num_tokens=_agreed(lanes, found, text.num_tokens))


def _agreed(lanes: Sequence[BenchLane], found: Sequence[Divergence], num_tokens: int) -> int:
    """Return how many tokens to time.

    The text ends at the first divergence of a lane without ``must_agree``. A lane with
    ``must_agree`` never shortens the text, even if it diverges in half precision.
    """
    free = {lane.name for lane in lanes if not lane.must_agree}
    return min([num_tokens, *(each.position for each in found if each.lane in free)])


def _worth_timing(
    lanes: Sequence[BenchLane], texts: Sequence[Text], agreed: Sequence[Text]
) -> tuple[tuple[BenchLane, ...], tuple[Text, ...], tuple[str, ...]]:
    """Return the lanes and texts that are worth timing, and notices.

    Texts on which lanes diverge too early are left out. If that would leave no text, the lanes
    without ``must_agree`` are left out instead.
    """
    long_enough = tuple(text for text in agreed if text.num_tokens >= SHORTEST)
    if not long_enough:
        free = [lane.name for lane in lanes if not lane.must_agree]
        notice = f"{', '.join(free)}: not timed, every text diverges within {SHORTEST} tokens."
        return tuple(lane for lane in lanes if lane.must_agree), tuple(texts), (notice,)
    early = [text.kind for text in agreed if text.num_tokens < SHORTEST]
    notice = f"Not timed, since lanes diverge within {SHORTEST} tokens: {', '.join(early)}."
    return tuple(lanes), long_enough, (notice,) if early else ()


def _check_passes(pair: Pair, written: dict[str, Written]) -> None:
    """Raise PairError if specviz and transformers made different numbers of target passes.

    Only float32 pairs are checked, and only if both engines wrote the same text with the same γ.
    """
    if not exact(pair) or any(key not in written for key in _SAME_PASSES):
        return
    ours, theirs = (written[key] for key in _SAME_PASSES)
    if ours.token_ids == theirs.token_ids and ours.target_passes != theirs.target_passes:
        raise PairError(
            f"With the same drafts, specviz made {ours.target_passes} target passes and "
            f"transformers {theirs.target_passes}.",
            remedy="The lanes are not comparable: try `--step library`, or bench another pair.",
        )
