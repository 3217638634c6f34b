"""Escape invisible characters and characters that reorder text.

Use ``visible`` for all text from models, files and links.
"""

from __future__ import annotations

import unicodedata

INVISIBLE = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"  # no width, other categories
UNSAFE_CATEGORIES = frozenset(("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"))


def visible(char: str) -> str:
    """Return the character, or an escape if it is invisible or unsafe."""
    if unicodedata.category(char) not in UNSAFE_CATEGORIES and char not in INVISIBLE:
        return char
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
