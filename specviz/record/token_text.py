"""The text that each token adds, where a character may be split over several tokens.

``pieces`` (see ``Trace.pieces``) has the bytes of every token that contains only a part of some
character. If a character is split, its last token adds the whole character; the earlier tokens add
nothing.
"""

from __future__ import annotations

import re
from codecs import IncrementalDecoder, getincrementaldecoder
from collections.abc import Iterable, Iterator, Mapping, Sequence

from specviz.record.trace import Candidate, Extra, Round, Trace

# Index of the round and of the candidate in it; the extra token follows the last candidate.
TokenIndex = tuple[int, int]
# As in assets/player/token_text.js.
SPECIAL_TOKENS = {
    "<|endoftext|>": "end of text",
    "<|end_of_text|>": "end of text",
    "</s>": "end of text",
    "<eos>": "end of text",
    "<|im_end|>": "end of turn",
    "<|eot_id|>": "end of turn",
    "<end_of_turn>": "end of turn",
    "<|begin_of_text|>": "start of text",
    "<s>": "start of text",
    "<bos>": "start of text",
    "<|im_start|>": "start of turn",
    "<start_of_turn>": "start of turn",
    "<pad>": "padding",
    "<unk>": "unknown token",
}
_NO_CHARACTER = "\ufffd"
_STRAY = re.compile("[\udc80-\udcff]+")


def token_label(text: str) -> str:
    """Return a token's label: its name if it is special, else its text with visible whitespace."""
    name = SPECIAL_TOKENS.get(text)
    return f"⟨{name}⟩" if name else text.replace(" ", "·").replace("\n", "⏎")


def common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many leading tokens two texts have in common."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (own, its) in pairs if own != its), min(len(one), len(other)))


def emitted_tokens(rounds: Iterable[Round]) -> Iterator[tuple[TokenIndex, Candidate | Extra]]:
    """Yield the tokens of the text in order, each with its round and its index in the round."""
    for index, entry in enumerate(rounds):
        for place, candidate in enumerate(entry.candidates):
            if candidate.verdict == "accepted":
                yield (index, place), candidate
        if entry.extra:
            yield (index, len(entry.candidates)), entry.extra


def text_without_end(trace: Trace) -> str:
    """Return the text of a run without the token that ends it."""
    text = trace.text
    if trace.finish == "eos":
        *_, (_, last) = emitted_tokens(trace.rounds)
        text = text.removesuffix(last.text)
    return text


def alone(token_id: int, text: str, pieces: Mapping[str, str]) -> str:
    """Return the text of a single token; bytes that form no character are shown as ``⟨c3⟩``."""
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
    """Return the text that each token adds.

    Args:
        whole: The whole text, used if the bytes of the tokens are unknown.
    """
    if not pieces:
        return _found_in_text(list(texts), whole)
    decoder = getincrementaldecoder("utf-8")(errors="replace")
    return [
        _decoded(decoder, text, pieces.get(str(token_id)))
        for token_id, text in zip(token_ids, texts, strict=True)
    ]


def _decoded(decoder: IncrementalDecoder, text: str, piece: str | None) -> str:
    if piece is not None:
        return decoder.decode(bytes.fromhex(piece))
    return decoder.decode(b"", final=True) + text if text else ""


def _found_in_text(texts: Sequence[str], whole: str) -> list[str]:
    """Return the text that each token adds; characters split over tokens come from ``whole``."""
    found, position, pending = list(texts), 0, list[int]()
    for i, text in enumerate(texts):
        if _NO_CHARACTER in text:
            pending.append(i)
            continue
        start = whole.find(text, position) if pending else position
        if not whole.startswith(text, start) or start - position > _max_length(texts, pending):
            return found
        _give_to_last(found, pending, whole[position:start])
        position = start + len(text)
    if len(whole) - position <= _max_length(texts, pending):
        _give_to_last(found, pending, whole[position:])
    return found


def _max_length(texts: Sequence[str], pending: Sequence[int]) -> int:
    return sum(len(texts[i]) for i in pending)


def _give_to_last(found: list[str], pending: list[int], text: str) -> None:
    """Give ``text`` to the last pending token and "" to the others, then clear ``pending``."""
    for i in pending:
        found[i] = text if i == pending[-1] else ""
    pending.clear()
