"""Parts of model cards in Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def card_of(*sections: str) -> str:
    return "\n\n".join(sections) + "\n"


def table(head: str, rows: Sequence[str]) -> str:
    return "\n".join([head, *rows])
