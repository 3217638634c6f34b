"""A run of somebody's serving engine, as values: only what that engine told, or what follows.

An engine tells far less than our own loop. What it keeps to itself is None, never guessed. A round
that is counted from something else says from what (``grounds``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from specviz.record.trace import Finish, Trace

EngineName = Literal["vllm", "llama.cpp", "sglang", "lmstudio", "openai"]
ENGINES: dict[EngineName, str] = {
    "vllm": "vLLM",
    "llama.cpp": "llama.cpp",
    "sglang": "SGLang",
    "lmstudio": "LM Studio",
    "openai": "OpenAI-compatible server",
}
# What makes a piece of an answer a round.
Grounds = Literal[
    "told",  # the engine tells accepted and drafted of every step
    "counted",  # its running totals change at every round
    "chunks",  # it sends one chunk a round; nothing else checks that
    "checked chunks",  # the same, and their number agrees with the totals it tells
    "none",  # it tells no rounds: pieces of text as they came
]
GROUNDS: dict[Grounds, str] = {
    "told": "The engine tells of every step how many candidates it drafted and accepted.",
    "counted": "Rounds are counted from the engine's running totals of this answer.",
    "chunks": "Every piece of the answer is taken for a round; the engine tells nothing to check "
    "that by, and pieces merge when the reader is slow.",
    "checked chunks": "Every piece of the answer is a round: their number agrees with the "
    "engine's own totals.",
    "none": "This engine tells no rounds: the pieces are those in which the text came.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What an engine can tell. False means that nobody knows it to."""

    token_ids: bool = False
    rounds: bool = False  # accepted and drafted of every round, or what they follow from
    totals: bool = False  # accepted and drafted of a request
    counters: bool = False  # of everything that it serves
    prompt_laws: bool = False  # log-probabilities of the tokens of a prompt
    speculates: bool | None = None  # None: it does not say
    can_switch_off: bool = False  # a request can be answered without speculation


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """Which engine answers at an address. The address holds neither key nor password."""

    address: str
    engine: EngineName
    version: str | None
    model: str
    gamma: int | None  # candidates a round, where it says
    capabilities: Capabilities

    @property
    def title(self) -> str:
        """The engine and its version."""
        name = ENGINES[self.engine]
        return f"{name} {self.version}" if self.version else name


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """What was asked of an engine besides the prompt."""

    max_new_tokens: int = 128
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    chat: bool = False
    ignore_eos: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRound:
    """Tokens that came together. ``drafted`` and ``accepted`` are the engine's own numbers."""

    index: int
    texts: tuple[str, ...]  # of the tokens; one text of all where the engine does not divide it
    token_ids: tuple[int, ...] = ()  # empty where it does not tell them
    num_tokens: int  # 0 where it does not tell how many
    at: float  # seconds from the request to their coming
    drafted: int | None = None
    accepted: int | None = None
    merged: bool = False  # came in one piece with the round before
    logprobs: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTotals:
    """An engine's own totals of one answer."""

    rounds: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    tokens: int | None = None  # of the whole answer


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedAnswer:
    """One answer of a comparison with the target alone: decoding only, after the first token."""

    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerBlock:
    """Answers to the same prompt in the order A B B A: alone, speculative twice, alone."""

    alone: tuple[TimedAnswer, ...]
    speculative: tuple[TimedAnswer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTrace:
    """A whole answer. Tokens that came with no drafts, as the first one after the prompt, are
    among the rounds with ``drafted`` None. ``prompt`` is empty if ids were given."""

    info: ServerInfo
    settings: ServerSettings
    prompt: str
    prompt_tokens: int | None
    rounds: tuple[ServerRound, ...]
    grounds: Grounds
    text: str
    finish: Finish
    created: str
    seconds: float  # from the request to the last token
    totals: ServerTotals = ServerTotals()
    baseline: tuple[ServerBlock, ...] = ()
    baseline_address: str | None = None
    notices: tuple[str, ...] = ()
    prompt_ids: tuple[int, ...] = ()

    @property
    def token_ids(self) -> tuple[int, ...]:
        return tuple(token for each in self.rounds for token in each.token_ids)

    @property
    def num_tokens(self) -> int:
        return sum(each.num_tokens for each in self.rounds)


AnyTrace = Trace | ServerTrace


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """An engine's counters of everything that it served, at one moment."""

    at: float  # seconds, of a clock that only goes forward; of a log its own times
    drafts: float | None = None
    drafted: float | None = None
    accepted: float | None = None
    accepted_at: tuple[float, ...] = ()  # by position
    generated: float | None = None  # tokens
    notices: tuple[str, ...] = ()  # what was left out of it, and why


def alpha_by_position(accepted_at: Sequence[float], drafts: float) -> tuple[float | None, ...]:
    """Accepted at a position, of what was accepted at the one before it; the first of drafts."""
    before = [drafts, *accepted_at]
    return tuple(
        each / base if base > 0 else None for each, base in zip(accepted_at, before, strict=False)
    )
