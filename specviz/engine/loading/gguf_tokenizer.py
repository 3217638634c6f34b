"""Rebuild the tokenizer that a GGUF file describes, so that its ids equal those of llama.cpp.

A file contains the vocabulary, and either merges (byte-level tokenizers) or scores (SentencePiece).
The file only names the other rules, which this module implements: how a text is split into words,
how spaces are written, and how special tokens are handled.
"""

from __future__ import annotations

from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from specviz.errors import PairError
from specviz.formats.gguf_header import GgufHeader
from specviz.formats.pre_tokenizers import PRE_TOKENIZERS, PreTokenizer
from specviz.formats.token_bytes import (
    CONTROL,
    END_TEXTS,
    NORMAL,
    SENTENCE_PIECE,
    UNKNOWN,
    USER_DEFINED,
)

_KEY = "tokenizer.ggml."
_SPACE = "\u2581"
SPECIAL_NAMES = {
    "bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"
}  # fmt: skip


def read_tokenizer(header: GgufHeader) -> PreTrainedTokenizerFast:
    """Return the tokenizer of a file whose header was checked by ``gguf_support.refusal_of``.

    Raises:
        PairError: The vocabulary is inconsistent.
    """
    tokens = header.strings(f"{_KEY}tokens")
    kinds = [int(each) for each in header.numbers(f"{_KEY}token_type")]
    kinds = kinds or [NORMAL] * len(tokens)
    special = {place for place, text in enumerate(tokens) if text in END_TEXTS}
    for place in special.union(_named_places(header, len(kinds))):  # as in llama.cpp
        kinds[place] = CONTROL if kinds[place] == USER_DEFINED else kinds[place]
    vocabulary = {text: place for place, text in enumerate(tokens)}
    if len(vocabulary) < len(tokens) or len(kinds) != len(tokens):
        raise PairError(
            f"The vocabulary of {header.path.name} has a token twice, or lacks token types.",
            remedy="Convert the model again with a current llama.cpp.",
        )
    if header.text(f"{_KEY}model") == SENTENCE_PIECE:
        backend, adds_bos = _sentence_piece(header, vocabulary, kinds), True
    else:
        rules = PRE_TOKENIZERS[header.text(f"{_KEY}pre")]
        backend, adds_bos = _byte_level(header, vocabulary, rules), rules.adds_bos
    _add_special_tokens(backend, tokens, kinds)
    return _finished(header, backend, tokens, adds_bos=adds_bos)


def _named_places(header: GgufHeader, count: int) -> list[int]:
    """Return the ids of the special tokens that the header names, such as EOS."""
    found = [header.number(f"{_KEY}{key}_token_id") for key in (*SPECIAL_NAMES.values(), "eot")]
    return [int(each) for each in found if each is not None and 0 <= each < count]


def _byte_level(header: GgufHeader, vocabulary: dict[str, int], rules: PreTokenizer) -> Tokenizer:
    merges = [_pair(each) for each in header.strings(f"{_KEY}merges")]
    model = BPE(vocabulary, _known(merges, vocabulary), ignore_merges=rules.ignores_merges)
    backend = Tokenizer(model)
    backend.pre_tokenizer = splitter_of(rules)  # pyright: ignore
    backend.decoder = decoders.ByteLevel()  # pyright: ignore
    return backend


def splitter_of(rules: PreTokenizer) -> pre_tokenizers.PreTokenizer:
    """Return the pre-tokenizer of a byte-level tokenizer with these rules."""
    splits = [pre_tokenizers.Split(Regex(each), "isolated") for each in rules.splits]
    letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([*splits, letters])


def _pair(merge: str) -> tuple[str, str]:
    first, _, second = merge.partition(" ")
    return first, second


def _known(merges: list[tuple[str, str]], vocabulary: dict[str, int]) -> list[tuple[str, str]]:
    """Return the merges whose parts and result are tokens; llama.cpp ignores all other merges."""
    return [
        (first, second)
        for first, second in merges
        if first in vocabulary and second in vocabulary and first + second in vocabulary
    ]


def _sentence_piece(header: GgufHeader, vocabulary: dict[str, int], kinds: list[int]) -> Tokenizer:
    scores = header.numbers(f"{_KEY}scores")
    if len(scores) != len(kinds):
        raise PairError(
            f"The vocabulary of {header.path.name} has no scores.",
            remedy="Convert the model again with a current llama.cpp.",
        )
    unknown = next((text for text, place in vocabulary.items() if kinds[place] == UNKNOWN), None)
    model = BPE(
        vocabulary, _merges_of(vocabulary, kinds, scores), unk_token=unknown,
        fuse_unk=True, byte_fallback=True,
    )  # fmt: skip
    backend = Tokenizer(model)
    prefix = header.values.get(f"{_KEY}add_space_prefix", True)
    before = [normalizers.Prepend(_SPACE)] if prefix else []
    spelling = [*before, normalizers.Replace(" ", _SPACE)]
    backend.normalizer = normalizers.Sequence(spelling)  # pyright: ignore
    after = [decoders.Strip(" ", 1, 0)] if prefix else []
    spaces = decoders.Replace(_SPACE, " ")
    backend.decoder = decoders.Sequence(  # pyright: ignore
        [spaces, decoders.ByteFallback(), decoders.Fuse(), *after]
    )
    return backend


def _merges_of(
    vocabulary: dict[str, int], kinds: list[int], scores: list[float]
) -> list[tuple[str, str]]:
    """Return all merges, sorted by the score of the merged token, the highest first.

    SentencePiece joins the neighbours whose merged token has the highest score. BPE applies the
    merge that is first in the list. With this order, BPE and SentencePiece join the same
    neighbours.
    """
    found: list[tuple[float, int, str, str]] = []
    for text, place in vocabulary.items():
        if kinds[place] not in (NORMAL, USER_DEFINED) or len(text) < 2:
            continue
        for cut in range(1, len(text)):
            first, second = text[:cut], text[cut:]
            if first in vocabulary and second in vocabulary:
                found.append((-scores[place], place, first, second))
    found.sort(key=lambda each: each[:2])
    return [(first, second) for _, _, first, second in found]


def _add_special_tokens(backend: Tokenizer, tokens: list[str], kinds: list[int]) -> None:
    """Add the control and user-defined tokens, which the tokenizer matches as a whole."""
    both = list(zip(tokens, kinds, strict=True))
    backend.add_special_tokens(
        [AddedToken(text, normalized=False, special=True) for text, kind in both if kind == CONTROL]
    )
    backend.add_tokens(
        [AddedToken(text, normalized=False) for text, kind in both if kind == USER_DEFINED]
    )


def _finished(
    header: GgufHeader, backend: Tokenizer, tokens: list[str], *, adds_bos: bool
) -> PreTrainedTokenizerFast:
    names: dict[str, str] = {}
    for name, key in SPECIAL_NAMES.items():
        place = header.number(f"{_KEY}{key}_token_id")
        if place is not None and 0 <= place < len(tokens):
            names[name] = tokens[int(place)]
    if header.values.get(f"{_KEY}add_bos_token", adds_bos) and "bos_token" in names:
        bos = names["bos_token"]
        backend.post_processor = TemplateProcessing(  # pyright: ignore
            single=[bos, "$A"], special_tokens=[(bos, tokens.index(bos))]
        )
    made: Any = PreTrainedTokenizerFast(
        tokenizer_object=backend, clean_up_tokenization_spaces=False, **names
    )
    made.chat_template = header.text("tokenizer.chat_template") or None
    return made
