"""JSON from an engine, reduced to values that the rest of the program can rely on.

Numbers are finite and fit into 64 bits, text holds no lone surrogates, and the key that was sent to
the engine is removed after decoding, so an escaped key is found, too. What cannot be used becomes
None, which readers already handle as a missing value.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from typing import Any

from specviz.record.server_run import ServerRound

_LONGEST_NUMBER = 19  # digits of a whole number
_SHORTEST_SECRET = 8  # characters
_LONGEST_NAME = 200
_REMOVED = "[key]"
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True)
class KeyRemover:
    """Removes one bearer key from everything that its engine sends back.

    It also finds a key whose characters are written as JSON or percent escapes. A key of fewer than
    8 characters could appear by chance; it is removed from errors only.
    """

    key: str | None

    def __repr__(self) -> str:
        return "KeyRemover()"

    def from_error(self, text: str) -> str:
        return _spelled(self.key).sub(_REMOVED, text) if self.key else text

    def from_text(self, text: str) -> str:
        return self.from_error(text) if self._long else text

    def from_value(self, value: Any) -> Any:
        """Return decoded JSON without the key, in names as well as in values."""
        match value:
            case str():
                return self.from_text(_without_surrogates(value))
            case list():
                return [self.from_value(each) for each in value]
            case dict():
                return {self.from_value(name): self.from_value(value[name]) for name in value}
            case _:
                return value

    def from_rounds(self, rounds: Sequence[ServerRound], *, over: bool) -> tuple[ServerRound, ...]:
        """Return the rounds without the key, even where it is split over several of them.

        Unless the answer is over, rounds at the end that may be the beginning of the key are held
        back: the result is shorter by them.
        """
        if not self._long or not rounds:
            return tuple(rounds)
        assert self.key is not None
        texts = ["".join(each.texts) for each in rounds]
        joined = "".join(texts)
        spans = [match.span() for match in _spelled(self.key).finditer(joined)]
        ends = list(accumulate(map(len, texts)))
        ready = len(joined) if over else _unfinished(joined, self.key, spans)
        count = sum(end <= ready for end in ends)
        # A key that is split over rounds is removed from all of them at once, or not yet.
        while any(low < _end(ends, count) < high for low, high in spans):
            count -= 1
        begins = [0, *ends]
        return tuple(
            _without_spans(entry, text, begin, spans)
            for entry, text, begin in zip(rounds[:count], texts, begins, strict=False)
        )

    @property
    def _long(self) -> bool:
        return self.key is not None and len(self.key) >= _SHORTEST_SECRET


def decoded(text: str, remover: KeyRemover) -> Any:
    """Decode JSON.

    Raises:
        ValueError: It is no JSON, or nested too deeply.
    """
    try:
        found = json.loads(
            text, parse_int=_whole_number, parse_float=_finite, parse_constant=lambda _: None
        )
        # Walking through a list of a whole vocabulary takes longer than decoding it.
        plain = remover.key is None and _SURROGATE.search(text) is None
        return found if plain else remover.from_value(found)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def one_line_name(text: str) -> str:
    """Return a name as one printable line of bounded length."""
    shown = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return shown if len(shown) <= _LONGEST_NAME else f"{shown[: _LONGEST_NAME - 1]}…"


def _whole_number(digits: str) -> int | None:
    return int(digits) if len(digits.lstrip("-")) <= _LONGEST_NUMBER else None


def _finite(digits: str) -> float | None:
    value = float(digits)
    return value if math.isfinite(value) else None


def _without_surrogates(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text


@cache
def _spelled(key: str) -> re.Pattern[str]:
    """Match the key, each character as itself or as an escape."""
    each = (rf"(?:{re.escape(c)}|\\+u(?i:{ord(c):04x})|%(?i:{ord(c):02x}))" for c in key)
    return re.compile("".join(each))


def _end(ends: Sequence[int], count: int) -> int:
    return ends[count - 1] if count else 0


def _unfinished(text: str, key: str, spans: Sequence[tuple[int, int]]) -> int:
    """Where the end of the text begins that may become the key; its length if none may."""
    earliest = max(spans[-1][1] if spans else 0, len(text) - len(key) + 1)
    starts = (place for place in range(earliest, len(text)) if key.startswith(text[place:]))
    return next(starts, len(text))


def _without_spans(
    entry: ServerRound, text: str, begin: int, spans: Sequence[tuple[int, int]]
) -> ServerRound:
    """A round that held a part of the key keeps its count, but neither ids nor texts by token."""
    end = begin + len(text)
    touched = [(low, high) for low, high in spans if low < end and high > begin]
    if not touched:
        return entry
    parts, place = list[str](), begin
    for low, high in touched:
        parts.append(text[place - begin : max(low, place) - begin])
        parts.append(_REMOVED if low >= begin else "")
        place = max(place, high)
    parts.append(text[place - begin :] if place < end else "")
    return replace(entry, texts=("".join(parts),), token_ids=(), logprobs=())
