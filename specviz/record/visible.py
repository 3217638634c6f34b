"""Text with nothing hidden in it: characters that cannot be seen, or that turn the order of
others, are shown as escapes. For whatever a model, a file or a link says.
"""

from __future__ import annotations

import unicodedata

INVISIBLE = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"  # of no width, and in no category below
UNSAFE_CATEGORIES = frozenset(("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"))


def visible(char: str) -> str:
    """The character, or its escape."""
    if unicodedata.category(char) not in UNSAFE_CATEGORIES and char not in INVISIBLE:
        return char
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
