"""The record of a serving engine's answer: reported values, and values that follow from them.

An engine reports far less than specviz records of its own runs. Unreported values are None, never
guessed. ``grounds`` names the evidence by which rounds were counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

from specviz.record.run_facts import RunFacts, sampling_words
from specviz.record.trace import Finish, Trace
from specviz.values import Value

EngineName = Literal["vllm", "llama.cpp", "sglang", "lmstudio", "openai"]
ENGINES: dict[EngineName, str] = {
    "vllm": "vLLM",
    "llama.cpp": "llama.cpp",
    "sglang": "SGLang",
    "lmstudio": "LM Studio",
    "openai": "OpenAI-compatible server",
}
# The evidence that a chunk of an answer is a round.
Grounds = Literal[
    "told",  # the engine reports accepted and drafted for every step
    "counted",  # the engine's running totals change at every round
    "chunks",  # one chunk per round is assumed, without confirmation
    "checked chunks",  # one chunk per round, confirmed by the engine's totals
    "none",  # the engine reports no rounds: chunks of text as received
]
GROUNDS: dict[Grounds, str] = {
    "told": "The engine reports drafted and accepted candidates for every step.",
    "counted": "Rounds are counted from the engine's running totals of this answer.",
    "chunks": "Every chunk of the answer counts as a round. The engine reports nothing to confirm "
    "this, and chunks merge if they are read slowly.",
    "checked chunks": "Every chunk of the answer is a round: the number of chunks agrees with the "
    "engine's totals.",
    "none": "This engine reports no rounds: chunks of text are shown as received.",
}


class Capabilities(Value):
    """Which values an engine can report; False if the engine is not known to report the value."""

    token_ids: bool = False
    rounds: bool = False  # accepted and drafted of every round, or values that imply them
    totals: bool = False  # accepted and drafted of a request
    counters: bool = False  # accepted and drafted of all requests
    prompt_laws: bool = False  # log-probabilities of the tokens of a prompt
    speculates: bool | None = None  # None: not reported
    can_switch_off: bool = False  # a request can turn speculation off


class ServerInfo(Value):
    """The engine at an address. The address contains neither key nor password."""

    address: str
    engine: EngineName
    version: str | None = None
    model: str
    gamma: int | None = None  # candidates per round, if reported
    capabilities: Capabilities

    @property
    def title(self) -> str:
        """The engine and its version."""
        name = ENGINES[self.engine]
        return f"{name} {self.version}" if self.version else name


class ServerSettings(Value):
    """The settings of a request besides the prompt."""

    max_new_tokens: int = 128
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    chat: bool = False
    ignore_eos: bool = False


class ServerRound(Value):
    """Tokens that arrived together. ``drafted`` and ``accepted`` are the engine's counts."""

    index: int
    texts: tuple[str, ...]  # one per token; a single text if the engine does not split it
    token_ids: tuple[int, ...] = ()  # empty if not reported
    num_tokens: int  # 0 if not reported
    at: float  # seconds from the request to their arrival
    drafted: int | None = None
    accepted: int | None = None
    merged: bool = False  # arrived in one chunk with the round before
    logprobs: tuple[float, ...] = ()


class ServerTotals(Value):
    """The numbers of rounds, candidates and tokens that an engine reports for one answer."""

    rounds: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    tokens: int | None = None  # of the whole answer


class TimedAnswer(Value):
    """The tokens of one answer after its first chunk, and the seconds to decode them."""

    tokens: int
    seconds: float


class ServerBlock(Value):
    """Four answers to one prompt, in this order: target alone, speculative twice, target alone."""

    alone: tuple[TimedAnswer, ...]
    speculative: tuple[TimedAnswer, ...]


class ServerTrace(Value):
    """A complete answer of a serving engine.

    A token without a draft, such as the first one after the prompt, is a round with ``drafted``
    None. ``prompt`` is empty if token ids were sent.
    """

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

    @property
    def reported_tokens(self) -> int | None:
        """The number of tokens in the answer, if the engine reports it."""
        if self.totals.tokens is not None:
            return self.totals.tokens
        return self.num_tokens if all(each.num_tokens for each in self.rounds) else None

    @property
    def facts(self) -> RunFacts:
        info, settings = self.info, self.settings
        gamma = () if info.gamma is None else (f"γ {info.gamma}",)
        return RunFacts(
            name=info.model,
            engine=info.title,
            place=info.address,
            environment=(info.title,),
            settings=(*gamma, sampling_words(settings.temperature)),
            prompt=self.prompt,
            prompt_ids=self.prompt_ids,
            gamma=info.gamma,
            temperature=settings.temperature,
            seed=settings.seed,
            num_tokens=self.reported_tokens,
        )


AnyTrace = Trace | ServerTrace
_Result = TypeVar("_Result")


def dispatch(
    trace: AnyTrace, own: Callable[[Trace], _Result], answer: Callable[[ServerTrace], _Result]
) -> _Result:
    """Return ``own(trace)`` for a specviz run, ``answer(trace)`` for a serving engine's answer."""
    return answer(trace) if isinstance(trace, ServerTrace) else own(trace)


class Counters(Value):
    """An engine's counters at one moment, over all requests that the engine has served."""

    at: float  # seconds of a monotonic clock, or the time in a log
    drafts: float | None = None
    drafted: float | None = None
    accepted: float | None = None
    accepted_at: tuple[float, ...] = ()  # by position
    generated: float | None = None  # tokens
    notices: tuple[str, ...] = ()  # what was left out, and why


def alpha_by_position(accepted_at: Sequence[float], drafts: float) -> tuple[float | None, ...]:
    """Return the acceptance rate α at every position of a round.

    α at position i is the number of candidates accepted at i, divided by the number accepted at
    i - 1. At the first position, the divisor is ``drafts``, the number of rounds with a draft.
    """
    before = [drafts, *accepted_at]
    return tuple(
        each / base if base > 0 else None for each, base in zip(accepted_at, before, strict=False)
    )
