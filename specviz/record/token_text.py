"""What tokens add to a text, where a character may be split over several of them.

``pieces``, as in ``Trace.pieces``, holds the bytes of the tokens that are no whole characters. A
split character is shown at the last of its tokens; those before it add nothing.
"""

from __future__ import annotations

import re
from codecs import IncrementalDecoder, getincrementaldecoder
from collections.abc import Iterable, Iterator, Mapping, Sequence

from specviz.record.trace import Candidate, Extra, Round

# The round's index, then the candidate's in it; the extra token follows the last candidate.
TokenIndex = tuple[int, int]
_NO_CHARACTER = "\ufffd"
_STRAY = re.compile("[\udc80-\udcff]+")


def emitted_tokens(rounds: Iterable[Round]) -> Iterator[tuple[TokenIndex, Candidate | Extra]]:
    """The tokens that the text is made of."""
    for index, entry in enumerate(rounds):
        for place, candidate in enumerate(entry.candidates):
            if candidate.verdict == "accepted":
                yield (index, place), candidate
        if entry.extra:
            yield (index, len(entry.candidates)), entry.extra


def alone(token_id: int, text: str, pieces: Mapping[str, str]) -> str:
    """The text of a token by itself; bytes that make no character are shown as ``⟨c3⟩``."""
    piece = pieces.get(str(token_id))
    if piece is None:
        return text
    decoded = bytes.fromhex(piece).decode("utf-8", errors="surrogateescape")
    return _STRAY.sub(lambda found: f"⟨{_hex(found[0])}⟩", decoded)


def _hex(stray: str) -> str:
    return stray.encode("utf-8", errors="surrogateescape").hex(" ")


def added_texts(
    token_ids: Iterable[int], texts: Iterable[str], pieces: Mapping[str, str], whole: str = ""
) -> list[str]:
    """What each token adds to the text; ``whole`` is that text, used if no bytes are known."""
    if not pieces:
        return _read_off(list(texts), whole)
    decoder = getincrementaldecoder("utf-8")(errors="replace")
    return [
        _decoded(decoder, text, pieces.get(str(token_id)))
        for token_id, text in zip(token_ids, texts, strict=True)
    ]


def _decoded(decoder: IncrementalDecoder, text: str, piece: str | None) -> str:
    if piece is not None:
        return decoder.decode(bytes.fromhex(piece))
    return decoder.decode(b"", final=True) + text if text else ""


def _read_off(texts: Sequence[str], whole: str) -> list[str]:
    """What split tokens add lies between the whole tokens that are found in the text."""
    found, position, waiting = list(texts), 0, list[int]()
    for i, text in enumerate(texts):
        if _NO_CHARACTER in text:
            waiting.append(i)
            continue
        start = whole.find(text, position) if waiting else position
        if not whole.startswith(text, start) or start - position > _most(texts, waiting):
            return found
        _give_to_last(found, waiting, whole[position:start])
        position = start + len(text)
    if len(whole) - position <= _most(texts, waiting):
        _give_to_last(found, waiting, whole[position:])
    return found


def _most(texts: Sequence[str], waiting: Sequence[int]) -> int:
    return sum(len(texts[i]) for i in waiting)


def _give_to_last(found: list[str], waiting: list[int], text: str) -> None:
    """The last of the tokens takes what all of them add."""
    for i in waiting:
        found[i] = text if i == waiting[-1] else ""
    waiting.clear()
