"""The prompt as the text pane shows it: token texts and, in a chat, the role before each message.

A chat template puts markup around the messages, such as ``<|im_start|>user``. The prompt's tokens
include the markup; the pane shows the roles instead of the markup.
"""

from __future__ import annotations

from collections.abc import Iterator

from specviz.player.round_values import JsonObject, prompt_texts
from specviz.record.conversations import Conversation
from specviz.record.trace import Trace

_OWN_TEXT = 60  # characters before the first message; more are a message of the template itself

Part = str | JsonObject
_Span = tuple[str, int, int]  # a role, and where its message begins and ends


def prompt_parts(trace: Trace) -> list[Part]:
    """Return the texts of the prompt's tokens, with the role before each message.

    If the run is not a chat, or if the template changes a message, return only the tokens' texts.
    """
    texts = prompt_texts(trace)
    if not trace.config.chat:
        return [*texts]
    asked = Conversation(before=trace.prompt.before, text=trace.prompt.text)
    spans = _spans("".join(texts), asked)
    if spans is None:
        return [*texts]
    return [*_parts(texts, spans), {"role": "assistant"}]


def _spans(whole: str, asked: Conversation) -> list[_Span] | None:
    """Return each message's role, start and end in ``whole``; None if a message is not found."""
    spans: list[_Span] = []
    end = 0
    for message in asked.messages:
        content = message.content.strip()
        start = whole.find(content, end)
        if start < 0:
            return None
        end = start + len(content)
        spans.append((message.role, start, end))
    return spans


def _parts(texts: list[str], spans: list[_Span]) -> Iterator[Part]:
    first = spans[0][1]
    whole = "".join(texts)
    if first > _OWN_TEXT:
        yield {"role": "template", "text": whole[:first]}
    left, at = list(spans), 0
    begun = False  # whether the role of the first span in ``left`` was yielded
    for text in texts:
        end = at + len(text)
        while left and at < left[0][2] and end > left[0][1]:
            role, start, stop = left[0]
            if not begun:
                yield {"role": role}
                begun = True
            yield whole[max(at, start) : min(end, stop)]
            if end < stop:
                break
            left.pop(0)
            begun = False
        at = end
