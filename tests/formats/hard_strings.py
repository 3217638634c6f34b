"""Strings on which tokenizers differ: digits, code, emoji, scripts, white space, special tokens."""

from __future__ import annotations

import random
from collections.abc import Sequence

_PARTS = (
    "Hello", " world", "don't", "I'LL", "they've", "'S", "’s", "x", " A", "ab", "ABCdef", "eE",
    "0", "12", "123", "1234567", " 42", "3.14", "1,000", "٣٤", "²", "Ⅳ", "½",
    "\n", "\n\n", "\r\n", "\t", " ", "  ", "   ", "\u00a0", "\u3000", "\u200b", "\u2028", " \n ",
    "日本語", "中文字符", "한국어", "ひらがな", "ไทย", "हिन्दी", "русский",
    " Ελλάς", "العربية", "עברית",
    "é", "e\u0301", "ñ", "ß", "İ", "ﬁ", "Ω", "Å", "a\u0308b",
    "😀", "👩‍👩‍👧", "🇩🇪", "👍🏽", "☃", "𝒳", "🤦‍♂️",
    "def f(x):\n    return x", "a_b", "x+=1;", "//", "/* c */", "<div>", "{}", "[[", "==", "!=",
    "...",
    "--", "$", "€", "%", "@user", "#tag", "http://a.b/c?d=e", "a.b", ".", ",", "!?", "«»", "“”",
    "—",
    "\x00", "\x01", "\x7f", "\ufeff", "\ufffd", "\U0001f600\U0001f601", "\u0300", "ｆｕｌｌ",
)  # fmt: skip


def hard_strings(count: int, special: Sequence[str] = (), seed: int = 7) -> list[str]:
    """Return distinct strings, each of some of the parts; a third contain special tokens."""
    draw = random.Random(seed)
    parts = [*_PARTS, *(chr(draw.randrange(0x20, 0xD7FF)) for _ in range(60))]
    found = dict.fromkeys(
        each for each in (*_PARTS, "a" * 40, " " * 33, "\n" * 9) if each.strip("\0")
    )
    while len(found) < count:
        pieces = draw.choices(parts, k=draw.randint(1, 8))
        if special and draw.random() < 1 / 3:
            pieces.insert(draw.randint(0, len(pieces)), draw.choice(list(special)))
        found["".join(pieces).replace("\0", "")] = None
    found.pop("", None)
    return list(found)[:count]
