"""Types that the engine adapters share: requests, text chunks and readers of an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from specviz.record.limits import MAX_DRAFTED
from specviz.record.server_run import Grounds, ServerRound, ServerTotals
from specviz.record.trace import Finish
from specviz.values import Value

Prompt = str | tuple[int, ...]
Event = Mapping[str, Any]


class Listed(Value):
    """A model in a server's list, and its owner according to the list."""

    model: str
    owner: str | None


class Request(Value):
    path: str
    body: dict[str, Any]


class Outcome(Value):
    """What is known of an answer so far. ``finish`` is None while the answer is in progress."""

    rounds: tuple[ServerRound, ...]
    grounds: Grounds
    finish: Finish | None = None
    prompt_tokens: int | None = None
    totals: ServerTotals = field(default_factory=ServerTotals)
    notices: tuple[str, ...] = ()


class Reading(Protocol):
    """A reader of the events of one answer. Only one thread at a time may call its methods."""

    def take(self, event: Event, at: float) -> Sequence[ServerRound]:
        """Read an event; return the rounds that are known to be complete after this event."""
        ...

    def close(self) -> Sequence[ServerRound]:
        """Return the remaining rounds; call this after the last event."""
        ...

    def outcome(self) -> Outcome: ...


class Piece(Value):
    """One chunk of the text, from one event. ``num_tokens`` is 0 if it is not reported."""

    text: str
    at: float
    num_tokens: int = 0
    token_ids: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()  # the tokens' texts; empty if they do not make up ``text``
    logprobs: tuple[float, ...] = ()

    def cut(self, sizes: Sequence[int]) -> list[Piece]:
        """Split the chunk into parts with these numbers of tokens.

        Without token texts, the first part gets the whole text.
        """
        parts, start = list[Piece](), 0
        for size in sizes:
            end = start + size
            texts = self.texts[start:end]
            parts.append(
                Piece(
                    text="".join(texts) if self.texts else "" if start else self.text,
                    at=self.at,
                    num_tokens=size,
                    token_ids=self.token_ids[start:end],
                    texts=texts,
                    logprobs=self.logprobs[start:end],
                )
            )
            start = end
        return parts

    def as_round(
        self, index: int, *, drafted: int | None, accepted: int | None, merged: bool = False
    ) -> ServerRound:
        return ServerRound(
            index=index,
            texts=self.texts or (self.text,),
            token_ids=self.token_ids,
            num_tokens=self.num_tokens,
            at=self.at,
            drafted=drafted,
            accepted=accepted,
            merged=merged,
            logprobs=self.logprobs,
        )

    def as_step(self, index: int, *, speculates: bool) -> ServerRound:
        """Return the chunk as one step; all of its tokens but the last are accepted candidates.

        A first chunk with a single token comes from the prefill, so it is a step without drafts.
        """
        drafts = speculates and 0 < self.num_tokens <= MAX_DRAFTED + 1
        if not drafts or (index == 0 and self.num_tokens == 1):
            return self.as_round(index, drafted=None, accepted=None)
        return self.as_round(index, drafted=None, accepted=self.num_tokens - 1)
