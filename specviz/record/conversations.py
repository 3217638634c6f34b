"""Conversations with a chat model; a prompt ends with a user's message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from specviz.values import Value

Role = Literal["system", "user", "assistant"]


class Message(Value):
    """A message of a conversation; an empty assistant message is yet to be generated."""

    role: Role
    content: str
    rounds: int = 0  # number of rounds that generated the message; 0 for other messages


class Conversation(Value):
    """A user's message, and the messages before it."""

    before: tuple[Message, ...]
    text: str

    @property
    def messages(self) -> tuple[Message, ...]:
        return (*self.before, Message(role="user", content=self.text))

    @property
    def unanswered(self) -> int | None:
        """The index of the first empty assistant message; None if there is none."""
        places = (i for i, each in enumerate(self.before) if each.role == "assistant")
        return next((i for i in places if not self.before[i].content), None)

    def until(self, place: int) -> Conversation:
        """Return the conversation up to the user's message that message ``place`` answers."""
        return Conversation(before=self.before[: place - 1], text=self.before[place - 1].content)

    def with_answer(self, place: int, answer: str) -> Conversation:
        """Return the conversation with ``answer`` as the text of message ``place``."""
        written = replace(self.before[place], content=answer)
        return replace(self, before=(*self.before[:place], written, *self.before[place + 1 :]))


TypedPrompt: TypeAlias = str | Conversation
PromptLike: TypeAlias = TypedPrompt | Sequence[int]  # typed, or token ids
