"""What sort of text each token is, and how the odds of acceptance differ between the sorts.

Texts are what tokens add to one text, in order (`token_text.added_texts`). A token is of the kind
of its first visible character. A word starts where blank text or none goes before it: at a token
with a leading space, after a line end, and at the beginning. Scripts that write no blanks between
words therefore have hardly a word start. Symbols and emoji count as punctuation.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, get_args

from specviz.record.visible import INVISIBLE
from specviz.theory.student import t_quantile

TokenKind = Literal["word start", "continuation", "punctuation", "digit", "blank"]
TOKEN_KINDS: tuple[TokenKind, ...] = get_args(TokenKind)

MIN_BLOCKS = 5  # that hold the kind; with fewer an interval would claim more than it knows
_UNFINISHED = "\ufffd"
_JOINED = frozenset(("Cf", "Mn", "Me"))  # these belong to what goes before them


@dataclass(frozen=True, slots=True, kw_only=True)
class KindShare:
    """The tokens of one kind, and the mean of their odds.

    ``low`` and ``high`` hold the mean with 95 % confidence: Student's t over blocks of neighbouring
    tokens, as acceptance clusters. None where fewer than five blocks have the kind, or where
    nothing varies.
    """

    kind: TokenKind
    count: int
    odds: float
    low: float | None
    high: float | None


def token_kinds(texts: Iterable[str]) -> Iterator[TokenKind]:
    before = ""
    for text in texts:
        yield kind_of(text, before=before)
        before = text or before


def kind_of(text: str, *, before: str = "") -> TokenKind:
    """``before``: what the text says just before the token; empty at its beginning.

    A token that adds nothing, or no whole character, holds bytes of one that is not finished yet.
    """
    if not text:
        return "continuation"
    place = next((i for i, char in enumerate(text) if _is_seen(char)), None)
    if place is None:
        return "blank" if all(_is_blank(char) for char in text) else "continuation"
    return _kind_of_character(text[place], before=before[-1:] + text[:place])


def by_token_kind(texts: Sequence[str], odds: Sequence[float]) -> tuple[KindShare, ...]:
    """In the order of ``TOKEN_KINDS``; a kind that the text does not have is left out."""
    assert len(texts) == len(odds)
    kinds = list(token_kinds(texts))
    size = max(1, math.isqrt(len(kinds)))  # long enough for neighbours to resemble each other
    blocks = [
        list(zip(kinds[i : i + size], odds[i : i + size], strict=True))
        for i in range(0, len(kinds), size)
    ]
    shares = (_share(kind, blocks) for kind in TOKEN_KINDS)
    return tuple(share for share in shares if share is not None)


def _share(
    kind: TokenKind, blocks: Sequence[Sequence[tuple[TokenKind, float]]]
) -> KindShare | None:
    held = [[odd for each, odd in block if each == kind] for block in blocks]
    held = [odds for odds in held if odds]
    if not held:
        return None
    pooled = [odd for odds in held for odd in odds]
    mean, half = fmean(pooled), _half_interval(held)
    return KindShare(
        kind=kind,
        count=len(pooled),
        odds=mean,
        low=None if half is None else max(0.0, mean - half),
        high=None if half is None else min(1.0, mean + half),
    )


def _half_interval(held: Sequence[Sequence[float]]) -> float | None:
    """Of a mean of blocks that hold unequal numbers: a block weighs by what it adds to it."""
    pooled = [odd for odds in held for odd in odds]
    number, mean = len(held), fmean(pooled)
    if number < MIN_BLOCKS or min(pooled) == max(pooled):
        return None
    squares = math.fsum(math.fsum(odd - mean for odd in odds) ** 2 for odds in held)
    error = math.sqrt(squares * number / (number - 1)) / len(pooled)
    return t_quantile(0.975, number - 1) * error


# Characters


def _is_blank(char: str) -> bool:
    return char.isspace() or unicodedata.category(char) in ("Cc", "Zs") or char in INVISIBLE


def _is_seen(char: str) -> bool:
    """Something that a reader sees by itself. A mark alone is not: it sits on what it follows."""
    return not _is_blank(char) and unicodedata.category(char) not in _JOINED


def _kind_of_character(char: str, *, before: str) -> TokenKind:
    category = unicodedata.category(char)
    if char == _UNFINISHED or category == "Cs":
        return "continuation"
    if category.startswith("N"):
        return "digit"
    if category[0] in "PS":
        return "punctuation"
    return "word start" if not before or _is_blank(before[-1]) else "continuation"
