"""Prompts of a given length: presets of one kind, repeated to fill the length."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specviz.bench.timing import Text
from specviz.record.prompts import Preset, read_presets

if TYPE_CHECKING:
    from specviz.engine import Pair

_BETWEEN = "\n\n"


def texts_of(pair: Pair, context: int, count: int, num_tokens: int) -> tuple[Text, ...]:
    """Return ``count`` texts of different kinds, each with a prompt of ``context`` tokens."""
    by_kind: dict[str, list[Preset]] = {}
    for preset in read_presets():
        by_kind.setdefault(preset.kind, []).append(preset)
    return tuple(
        Text(kind=kind, ids=_prompt(pair, presets, context), num_tokens=num_tokens)
        for kind, presets in list(by_kind.items())[:count]
    )


def _prompt(pair: Pair, presets: list[Preset], context: int) -> tuple[int, ...]:
    """Return a prompt of ``context`` tokens: repeated presets, ending with the first preset."""
    from specviz.engine.model.chat import encode_prompt

    last = encode_prompt(pair, presets[0].text, chat=False)
    block = encode_prompt(pair, "".join(each.text + _BETWEEN for each in presets), chat=False)
    return tuple((block * (1 + context // len(block)) + last)[-context:])
