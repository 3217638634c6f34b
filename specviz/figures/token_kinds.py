"""The kind of each token, and the acceptance probability by kind.

Arguments named ``texts`` contain the text that each token adds (`token_text.added_texts`). The
first visible character of a token decides its kind. A letter is a word start at the beginning of
the text and after a space or line end. This space or line end may be in the letter's token or just
before the token. Scripts without spaces between words have hardly any word starts. Symbols and
emoji count as punctuation.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean
from typing import Literal, get_args

from specviz.record.visible import INVISIBLE
from specviz.theory.student import t_quantile
from specviz.values import Value

TokenKind = Literal["word start", "continuation", "punctuation", "digit", "blank"]
TOKEN_KINDS: tuple[TokenKind, ...] = get_args(TokenKind)

MIN_BLOCKS = 5  # blocks with the kind; fewer give intervals that are too narrow
_UNFINISHED = "\ufffd"
_JOINED = frozenset(("Cf", "Mn", "Me"))  # categories that belong to the character before


class KindShare(Value):
    """The number of tokens of one kind, and their mean acceptance probability, ``odds``.

    ``low`` and ``high`` are the 95 % interval of the mean: Student's t over blocks of neighbouring
    tokens, because acceptance clusters. Both are None if fewer than five blocks contain the kind,
    or if all odds are equal.
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
    """Return the kind of a token.

    A token that adds only a part of a character is a continuation.

    Args:
        text: What the token adds to the text.
        before: The text just before the token; empty at the beginning.
    """
    if not text:
        return "continuation"
    place = next((i for i, char in enumerate(text) if _is_seen(char)), None)
    if place is None:
        return "blank" if all(_is_blank(char) for char in text) else "continuation"
    return _kind_of_character(text[place], before=before[-1:] + text[:place])


def by_token_kind(texts: Sequence[str], odds: Sequence[float]) -> tuple[KindShare, ...]:
    """Return the count and mean odds of each kind, in the order of ``TOKEN_KINDS``."""
    assert len(texts) == len(odds)
    kinds = list(token_kinds(texts))
    size = max(1, math.isqrt(len(kinds)))  # tokens of a block
    blocks = [
        list(zip(kinds[i : i + size], odds[i : i + size], strict=True))
        for i in range(0, len(kinds), size)
    ]
    shares = (_share(kind, blocks) for kind in TOKEN_KINDS)
    return tuple(share for share in shares if share is not None)


def _share(
    kind: TokenKind, blocks: Sequence[Sequence[tuple[TokenKind, float]]]
) -> KindShare | None:
    by_block = [[odd for each, odd in block if each == kind] for block in blocks]
    by_block = [odds for odds in by_block if odds]
    if not by_block:
        return None
    pooled = [odd for odds in by_block for odd in odds]
    mean, half = fmean(pooled), _half_interval(by_block)
    return KindShare(
        kind=kind,
        count=len(pooled),
        odds=mean,
        low=None if half is None else max(0.0, mean - half),
        high=None if half is None else min(1.0, mean + half),
    )


def _half_interval(by_block: Sequence[Sequence[float]]) -> float | None:
    """Return the half-width of the interval of the mean odds; blocks may differ in length."""
    pooled = [odd for odds in by_block for odd in odds]
    number, mean = len(by_block), fmean(pooled)
    if number < MIN_BLOCKS or min(pooled) == max(pooled):
        return None
    squares = math.fsum(math.fsum(odd - mean for odd in odds) ** 2 for odds in by_block)
    error = math.sqrt(squares * number / (number - 1)) / len(pooled)
    return t_quantile(0.975, number - 1) * error


# Characters


def _is_blank(char: str) -> bool:
    return char.isspace() or unicodedata.category(char) in ("Cc", "Zs") or char in INVISIBLE


def _is_seen(char: str) -> bool:
    """Return whether a character is visible by itself; combining marks are not."""
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
