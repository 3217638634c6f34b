"""Decode JSON from an engine to values that the rest of the program can rely on.

Numbers are finite and fit into 64 bits, and text has no lone surrogates. The key that was sent to
the engine is removed after decoding, so an escaped key is also found. Unusable values become None,
which readers treat as missing.
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

_LONGEST_NUMBER = 19  # most digits of a whole number
_SHORTEST_SECRET = 8  # characters
_LONGEST_NAME = 200
_LONGEST_READ = 10_000  # characters; the rest of a name is not read
_REMOVED = "[key]"
_QUOTED = "\"'\\/"  # JSON and Python may write a backslash before these
_LONGEST_ESCAPE = 12  # most characters in a usual escape of one character
_BEGUN = re.compile(r"\\+(?:u[0-9a-f]{0,3})?|%[0-9a-f]{0,3}|&(?:\#x?[0-9a-f]{0,6})?", re.IGNORECASE)
_RUN_BEGINS = r"(?<!\\)"  # the start of a run of backslashes
_MOST_VALUES = 4_000_000  # in one JSON text; each value takes about 60 bytes of memory
_LOWEST, _ROUNDING = -1e6, 1e-5  # bounds of log-probabilities
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True)
class KeyRemover:
    """Removes one bearer key from everything that the engine sends back.

    It also finds a key in upper or lower case, or written with escapes of JSON, URLs or HTML. A key
    of fewer than 8 characters could appear by chance, so it is removed only from errors.
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
        """Return the rounds without the key, even if the key is split over several rounds.

        If the answer is not ``over``, its last rounds may contain the beginning of the key. Such
        rounds are left out.
        """
        if not self._long or not rounds:
            return tuple(rounds)
        assert self.key is not None
        texts = ["".join(each.texts) for each in rounds]
        joined = "".join(texts)
        spans = self._spans(joined)
        ends = list(accumulate(map(len, texts)))
        ready = len(joined) if over else _unfinished(joined, self.key, spans)
        count = sum(end <= ready for end in ends)
        # If a key is split over rounds, none of them is returned before the last has arrived.
        while any(low < _end(ends, count) < high for low, high in spans):
            count -= 1
        parts = _without_spans(texts[:count], spans)
        return tuple(
            entry if part is None else replace(entry, texts=(part,), token_ids=(), logprobs=())
            for entry, part in zip(rounds[:count], parts, strict=True)
        )

    def from_tokens(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Return the texts of tokens without the key, even if the key is split over tokens."""
        spans = self._spans("".join(texts)) if self._long else []
        parts = _without_spans(texts, spans)
        return tuple(
            each if part is None else part for each, part in zip(texts, parts, strict=True)
        )

    def from_cut(self, text: str) -> str:
        """Return ``text`` without an end that may be the beginning of the key.

        ``text`` was truncated, possibly within the key.
        """
        if self.key is None:
            return text
        return text[: _unfinished(text, self.key, self._spans(text))]

    def _spans(self, text: str) -> list[tuple[int, int]]:
        assert self.key is not None
        return [match.span() for match in _spelled(self.key).finditer(text)]

    @property
    def _long(self) -> bool:
        return self.key is not None and len(self.key) >= _SHORTEST_SECRET


def decoded(text: str, remover: KeyRemover) -> Any:
    """Decode JSON.

    Raises:
        ValueError: The text is not JSON, is nested too deeply, or has too many values for memory.
    """
    if text.count(",") + text.count("[") + text.count("{") > _MOST_VALUES:
        raise ValueError("too many values")
    try:
        found = json.loads(
            text, parse_int=_whole_number, parse_float=_finite, parse_constant=lambda _: None
        )
        # Walking through a large list takes longer than decoding it, so skip it if possible.
        plain = remover.key is None and _SURROGATE.search(text) is None
        return found if plain else remover.from_value(found)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def one_line_name(text: str) -> str:
    """Return a name as one printable line of bounded length."""
    text = text[:_LONGEST_READ]
    shown = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return shown if len(shown) <= _LONGEST_NAME else f"{shown[: _LONGEST_NAME - 1]}…"


def whole(value: Any) -> int | None:
    """Return ``value`` if it is a valid count, else None."""
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53
    return value if good else None


def logprob(value: Any) -> float | None:
    """Return ``value`` as a float if it is a valid log-probability, else None.

    Valid values include slightly positive ones, because engines round to float32, and very low
    ones: some engines send -9999 for minus infinity.
    """
    good = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if good and _LOWEST <= value <= _ROUNDING else None


def wholes(values: Any) -> tuple[int, ...]:
    """Return the values as a tuple if they are a list of valid counts, else ()."""
    if not isinstance(values, list) or any(whole(each) is None for each in values):
        return ()
    return tuple(values)


def inside(value: Any, *names: str) -> Any:
    """Return ``value[name_1][name_2]…``, or None if a name is missing."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


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
    """Return a pattern for the key in upper or lower case, with each character plain or escaped."""
    # Only the first backslash of a run may begin a match: the search stays linear in the text.
    first = rf"(?:{re.escape(key[0])}|{_escapes(key[0], run=_RUN_BEGINS)})"
    rest = (_character(each) for each in key[1:])
    return re.compile("".join([first, *rest]), re.IGNORECASE)


def _character(each: str) -> str:
    """Return a pattern for one character, plain or escaped."""
    plain = rf"\\*{re.escape(each)}" if each in _QUOTED else re.escape(each)
    return f"(?:{plain}|{_escapes(each)})"


def _escapes(each: str, *, run: str = "") -> str:
    """Return a pattern for the JSON, URL and HTML escapes of one character.

    ``run`` is a pattern to put before the backslashes of a JSON escape.
    """
    code = ord(each)
    return rf"(?:{run}\\++u{code:04x}|%(?:25)*{code:02x}|&\#(?:0*{code}|x0*{code:x});)"


@cache
def _alone(each: str) -> re.Pattern[str]:
    return re.compile(_character(each), re.IGNORECASE)


def _end(ends: Sequence[int], count: int) -> int:
    return ends[count - 1] if count else 0


def _unfinished(text: str, key: str, spans: Sequence[tuple[int, int]]) -> int:
    """Return the index from which the rest of ``text`` may be the beginning of the key.

    If there is no such index, return the length of ``text``. ``spans``: where the whole key occurs.
    """
    earliest = max(spans[-1][1] if spans else 0, len(text) - _LONGEST_ESCAPE * len(key))
    starts = (place for place in range(earliest, len(text)) if _may_become(key, text, place))
    return next(starts, len(text))


def _may_become(key: str, text: str, place: int) -> bool:
    """Return whether the text from ``place`` on may be the beginning of the key, escaped or not."""
    for each in key:
        if place == len(text):
            return True
        if (found := _alone(each).match(text, place)) is None:
            return _BEGUN.fullmatch(text, place) is not None
        place = found.end()
    return False


def _without_spans(texts: Sequence[str], spans: Sequence[tuple[int, int]]) -> list[str | None]:
    """Return the texts with ``[key]`` in place of the spans.

    In the result, None replaces each text that contains no part of a span.

    ``spans`` are index ranges of the concatenated texts. If a span extends over several texts,
    ``[key]`` is in the first of them.
    """
    found, begin, first = list[str | None](), 0, 0
    for text in texts:
        end = begin + len(text)
        while first < len(spans) and spans[first][1] <= begin:
            first += 1
        parts, place, index = list[str](), begin, first
        while index < len(spans) and spans[index][0] < end:
            low, high = spans[index]
            parts.append(text[place - begin : max(low, place) - begin])
            parts.append(_REMOVED if low >= begin else "")
            place, index = max(place, high), index + 1
        left = text[place - begin :] if place < end else ""
        found.append("".join([*parts, left]) if parts else None)
        begin = end
    return found
