"""The draft's reading of a text: its own tokens, the same bytes, dependent on the text only."""

from __future__ import annotations

import itertools
import random

import pytest

from specviz.engine.model.draft_reading import DraftReading
from specviz.engine.model.shared_tokens import SharedTokens
from tests.engine.two_vocabularies import sharing, tokenizers

PAIRS = tuple(itertools.permutations(tokenizers(), 2))
TEXT = "Once upon a time, naïve 日本 🙂 dogs ran.\n\n\tdef f(x):  return 1"


def read_of(shared: SharedTokens, tokens: list[int]) -> list[int]:
    reading = DraftReading(shared)
    for token_id in tokens:
        reading.append(token_id)
    return reading.ids


def written(shared: SharedTokens, ids: list[int]) -> bytes:
    draft = shared.draft
    text = b"".join(draft.table.pieces[each] for each in ids if each not in draft.marks)
    return text.removeprefix(draft.opening)


@pytest.mark.parametrize(("target", "draft"), PAIRS)
def test_a_prompt_is_read_as_the_draft_would_read_its_text(target: str, draft: str) -> None:
    shared = sharing(target, draft)
    reading = DraftReading(shared)
    tokens = tokenizers()[target](TEXT)["input_ids"]
    reading.read(tokens)
    assert reading.ids == tokenizers()[draft](TEXT)["input_ids"]
    assert reading.length == len(tokens)


@pytest.mark.parametrize(("target", "draft"), PAIRS)
def test_every_appended_token_preserves_the_bytes(target: str, draft: str) -> None:
    shared = sharing(target, draft)
    own = shared.target
    reading = DraftReading(shared)
    text = b""
    for token_id in own.tokenizer(TEXT)["input_ids"]:
        reading.append(token_id)
        if token_id not in own.marks:
            text += own.table.pieces[token_id]
        assert written(shared, reading.ids) == text.removeprefix(own.opening)


def test_an_unshared_token_rereads_its_word() -> None:
    shared = sharing("words", "other words")
    own, other = shared.target, shared.draft
    begun = own.by_bytes[b" t"]
    rest = next(  # a piece that only the target has, inside the word
        each
        for piece, each in own.by_bytes.items()
        if each not in shared.to_draft and piece.isalpha()
    )
    before = read_of(shared, [begun])
    assert before == [shared.to_draft[begun]]
    word = own.table.join([begun, rest])
    assert read_of(shared, [begun, rest]) == other.tokenizer.encode(word)


@pytest.mark.parametrize(("target", "draft"), PAIRS)
def test_the_reading_depends_on_the_text_only(target: str, draft: str) -> None:
    """Repeatedly forgetting and reading gives the same tokens as reading the text once."""
    shared = sharing(target, draft)
    rng = random.Random(0)
    prompt = shared.target.tokenizer(TEXT)["input_ids"]
    reading, tokens = DraftReading(shared), list[int]()
    reading.read(prompt)
    for _ in range(60):
        gone = rng.randint(0, min(4, len(tokens)))
        reading.forget(gone)
        tokens = tokens[: len(tokens) - gone]
        for _ in range(rng.randint(0, 5)):
            tokens.append(rng.randrange(shared.target.size))
            reading.append(tokens[-1])
        fresh = DraftReading(shared)
        fresh.read(prompt)
        for token_id in tokens:
            fresh.append(token_id)
        assert reading.ids == fresh.ids
        assert reading.length == len(prompt) + len(tokens)


def test_a_prompt_may_be_forgotten_in_its_middle() -> None:
    shared = sharing("words", "pieces")
    tokens = shared.target.tokenizer(TEXT)["input_ids"]
    reading, shorter = DraftReading(shared), DraftReading(shared)
    reading.read(tokens)
    reading.forget(20)
    shorter.read(tokens[:-20])
    assert (reading.ids, reading.length) == (shorter.ids, shorter.length)


def test_typed_marks_are_text_and_real_marks_are_translated() -> None:
    shared = sharing("pieces", "words")
    end = shared.draft.tokenizer.eos_token
    typed = shared.target.tokenizer(f"a {end} b", add_special_tokens=False)["input_ids"]
    reading = DraftReading(shared)
    reading.read(typed)
    assert not shared.draft.marks & set(reading.ids)
    assert written(shared, reading.ids).decode() == f"a {end} b"
    reading.append(shared.target.tokenizer.eos_token_id)
    assert reading.ids[-1] == shared.draft.tokenizer.eos_token_id


def test_the_begin_mark_is_never_shared() -> None:
    from_pieces, to_pieces = sharing("pieces", "words"), sharing("words", "pieces")
    begin = to_pieces.draft.tokenizer.bos_token_id
    assert begin not in from_pieces.to_draft
    assert begin not in to_pieces.to_draft.values()
    assert from_pieces.lead == ()
    assert read_of(to_pieces, []) == [begin]
    tokens = from_pieces.target.tokenizer("a")["input_ids"]
    assert tokens[0] == begin
    reading = DraftReading(from_pieces)
    reading.read(tokens)
    assert written(from_pieces, reading.ids) == b"a"
