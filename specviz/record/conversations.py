"""Conversations with a chat model: messages, and the prompts that end with a user's message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message of a conversation; the target writes an assistant's empty message in the run."""

    role: Role
    content: str
    rounds: int = 0  # the rounds that wrote an assistant's message here


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A user's message, and the messages before it."""

    before: tuple[Message, ...]
    text: str

    @property
    def messages(self) -> tuple[Message, ...]:
        return (*self.before, Message(role="user", content=self.text))

    @property
    def unanswered(self) -> int | None:
        """The place of the first answer that the target has yet to write."""
        places = (i for i, each in enumerate(self.before) if each.role == "assistant")
        return next((i for i in places if not self.before[i].content), None)

    def until(self, place: int) -> Conversation:
        """Return the conversation that ends with the user's message before an answer."""
        return Conversation(before=self.before[: place - 1], text=self.before[place - 1].content)

    def with_answer(self, place: int, answer: str) -> Conversation:
        """Return the conversation with an answer at this place."""
        written = replace(self.before[place], content=answer)
        return replace(self, before=(*self.before[:place], written, *self.before[place + 1 :]))


TypedPrompt: TypeAlias = str | Conversation
PromptLike: TypeAlias = TypedPrompt | Sequence[int]  # typed, or token ids
