"""What an engine's adapter makes: a request, and the rounds of the events that answer it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from specviz.record.server_run import Grounds, ServerRound, ServerTotals
from specviz.record.trace import Finish

_LOWEST, _ROUNDING = -1e6, 1e-5  # of log-probabilities
Prompt = str | tuple[int, ...]
Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A model in a server's list, and whom the list says it is owned by."""

    model: str
    owner: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    path: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What is known of an answer so far. ``finish`` is None while it is under way."""

    rounds: tuple[ServerRound, ...]
    grounds: Grounds
    finish: Finish | None = None
    prompt_tokens: int | None = None
    totals: ServerTotals = field(default_factory=ServerTotals)
    notices: tuple[str, ...] = ()


class Reading(Protocol):
    """Reads the events of one answer. One thread at a time may call it."""

    def take(self, event: Event, at: float) -> Sequence[ServerRound]:
        """The rounds that are complete with this event, as far as they are known by then."""
        ...

    def close(self) -> Sequence[ServerRound]:
        """No event follows: what was held back."""
        ...

    def outcome(self) -> Outcome: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One event's part of the text. ``num_tokens`` is 0 where the engine does not tell it."""

    text: str
    at: float
    num_tokens: int = 0
    token_ids: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()  # of its tokens, where they are told and make up the text
    logprobs: tuple[float, ...] = ()

    def cut(self, sizes: Sequence[int]) -> list[Piece]:
        """Into parts of so many tokens; a text that is not told by token stays with the first."""
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


def whole(value: Any) -> int | None:
    """A count as engines send it; None of anything else."""
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53
    return value if good else None


def logprob(value: Any) -> float | None:
    """Return a log-probability as engines send it; None of anything else.

    The logarithm of a float32 probability may end a hair above 0; some engines write -9999 for
    minus infinity.
    """
    good = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if good and _LOWEST <= value <= _ROUNDING else None


def wholes(values: Any) -> tuple[int, ...]:
    """A list of counts; empty where it is none."""
    if not isinstance(values, list) or any(whole(each) is None for each in values):
        return ()
    return tuple(values)


def inside(value: Any, *names: str) -> Any:
    """What is found under these names one within the other; None where one is missing."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value
