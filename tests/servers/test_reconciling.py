"""Matching steps with chunks: merged chunks give the same rounds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from specviz.servers.pieces import Piece
from specviz.servers.reconciling import Step, aligned, rounds_of

GAMMA = 5


@st.composite
def answers(draw: st.DrawFn) -> tuple[list[Step | None], int]:
    """Steps like those of engines, and the number of tokens cut from the last."""
    accepted = draw(st.lists(st.integers(0, GAMMA), max_size=30))
    drafted = [Step(drafted=GAMMA, accepted=each) for each in accepted]
    plain = draw(st.integers(0, GAMMA))
    may_cut = accepted[-1] if accepted and plain == 0 else 0
    return [None, *drafted, *(None for _ in range(plain))], draw(st.integers(0, may_cut))


def sizes_of(steps: list[Step | None], cut: int) -> list[int]:
    sizes = [1 if step is None else step.accepted + 1 for step in steps]
    sizes[-1] -= cut
    return sizes


def merged(sizes: list[int], joins: list[bool]) -> list[int]:
    found = [sizes[0]]
    for size, joined in zip(sizes[1:], joins, strict=False):
        if joined:
            found[-1] += size
        else:
            found.append(size)
    return found


@given(answers(), st.data())
def test_splits_merged_chunks_into_the_same_rounds(
    answer: tuple[list[Step | None], int], data: st.DataObject
) -> None:
    steps, cut = answer
    sizes = sizes_of(steps, cut)
    joins = data.draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)))
    pieces = [
        Piece(text="x" * size, at=float(place), num_tokens=size, texts=("x",) * size)
        for place, size in enumerate(merged(sizes, joins))
    ]
    rounds = rounds_of(pieces, [step for step in steps if step is not None])
    assert rounds is not None
    assert [each.num_tokens for each in rounds] == sizes
    assert [(each.drafted, each.accepted) for each in rounds] == [
        (None, None) if step is None else (step.drafted, step.accepted) for step in steps
    ]
    assert sum(not each.merged for each in rounds) == len(pieces)
    assert [each.index for each in rounds] == list(range(len(rounds)))


@given(st.lists(st.integers(1, 12), max_size=20), st.lists(st.integers(0, GAMMA), max_size=20))
def test_alignments_use_every_token_and_step(sizes: list[int], accepted: list[int]) -> None:
    found = aligned(sizes, [Step(drafted=GAMMA, accepted=each) for each in accepted])
    if found is None:
        return
    assert [sum(part.num_tokens for part in held) for held in found] == sizes
    reported = [part for held in found for part in held if part.step is not None]
    assert [part.step.accepted for part in reported if part.step] == accepted
    for part in reported[:-1]:
        assert part.step is not None
        assert part.num_tokens == part.step.accepted + 1


def test_rejects_a_step_across_two_chunks() -> None:
    steps = [Step(drafted=5, accepted=3), Step(drafted=5, accepted=0)]
    assert aligned([1, 2, 2], steps) is None


def test_rejects_a_chunk_of_unknown_size() -> None:
    assert aligned([1, 0], []) is None


def test_gives_up_soon_on_a_long_answer() -> None:
    steps = [*(Step(drafted=5, accepted=2) for _ in range(1990)), Step(drafted=5, accepted=4)]
    assert aligned([1, *[3] * 1990, 2, 2, 4], [*steps, steps[0]]) is None
