"""The result of Tune for one candidate (``Finding``), as input for the settings of other engines.

An engine uses one of two acceptance rules, so a finding has acceptance rates under both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Literal

from specviz.errors import ConfigError
from specviz.record.conversations import Conversation, Message
from specviz.record.drafters import chosen_drafter
from specviz.record.numbers import TOKENS
from specviz.values import Value

ServingEngine = Literal["vLLM", "SGLang", "llama.cpp", "LM Studio", "transformers"]
Language = Literal["shell", "json", "python"]

# lossless: accepts a sampled candidate with probability min(1, target / draft).
# match: proposes the draft's likeliest token x and accepts x with probability target(x).
AcceptanceRule = Literal["lossless", "match"]

RATE_DIGITS = 4


class Finding(Value):
    """The models and settings for another engine. Models are folders or names on the Hub.

    ``prompt``: the first scored prompt. With ``chat``, it is the user message that follows the
    messages ``before``. ``cumulative``: for each acceptance rule, the probabilities that the first
    1, 2, …, γ candidates are all accepted. A rule with unknown probabilities is left out.
    ``tau``: the tokens per round in specviz.
    """

    target: str
    draft: str | None
    drafter: str
    prompt: str
    gamma: int
    temperature: float
    top_k: int = 0
    top_p: float = 1.0
    chat: bool = False
    before: tuple[Message, ...] = ()
    tau: float | None = None
    cumulative: Mapping[AcceptanceRule, tuple[float, ...]] = field(
        default_factory=dict[AcceptanceRule, tuple[float, ...]]
    )

    def __post_init__(self) -> None:
        assert self.gamma >= 1
        assert all(len(rates) == self.gamma for rates in self.cumulative.values())
        if chosen_drafter(self.drafter).method.needs_draft and self.draft is None:
            raise ConfigError(
                "There is no draft model.", remedy="Name a draft model, or use prompt lookup."
            )
        if any("\0" in name for name in (self.target, self.draft or "")):
            raise ConfigError(
                "A model name contains a NUL character, which no command can contain.",
                remedy="Rename its folder.",
            )

    def tau_by(self, rule: AcceptanceRule) -> float | None:
        """Return τ under a rule; without a draft model, τ is the same under both rules."""
        rates = self._rates(rule)
        return None if rates is None else 1 + sum(rates)

    def rates_by(self, rule: AcceptanceRule) -> list[float] | None:
        rates = self._rates(rule)
        return None if rates is None else tidy_rates(rates)

    def _rates(self, rule: AcceptanceRule) -> tuple[float, ...] | None:
        if self.draft_model is not None:
            return self.cumulative.get(rule)
        return self.cumulative.get("match", self.cumulative.get("lossless"))

    @property
    def messages(self) -> list[dict[str, str]]:
        """Return the conversation in the format of chat endpoints."""
        asked = Conversation(before=self.before, text=self.prompt)
        return [{"role": each.role, "content": each.content} for each in asked.messages]

    @property
    def draft_model(self) -> str | None:
        return self.draft if chosen_drafter(self.drafter).method.needs_draft else None

    def rule_note(self, engine: ServingEngine) -> str:
        """Return a note on how specviz differs from an engine with the acceptance rule "match"."""
        rule = (
            f"{engine} proposes the draft's likeliest token x and accepts x with probability "
            "target(x), which is also lossless"
        )
        if self.temperature == 0:
            return f"{rule}; at temperature 0 this equals specviz's rule."
        here, there = self.tau, self.tau_by("match")
        if here is None or there is None:
            return f"{rule}; the tokens per round may differ from specviz's."
        expected, own = TOKENS.shown(there), TOKENS.shown(here)
        return f"{rule}: expect {expected} tokens per round; specviz has {own}."


class Snippet(Value):
    """A text to paste, with the engine's acceptance rule and expected tokens per round.

    ``rule`` and ``tau`` are None if they are unknown, or if the text makes the engine accept
    candidates at given rates.
    """

    label: str
    language: Language
    text: str
    rule: AcceptanceRule | None = None
    tau: float | None = None


class EngineSettings(Value):
    """Snippets for an engine, and notes on what the engine cannot do or does differently."""

    engine: ServingEngine
    version: str  # of the source code that defines the flags and fields
    snippets: tuple[Snippet, ...]
    notes: tuple[str, ...]


def tidy_rates(cumulative: Iterable[float]) -> list[float]:
    """Return the rates rounded, clipped to 0 and 1 and made non-increasing, as engines require."""
    tidy, last = list[float](), 1.0
    for rate in cumulative:
        assert not math.isnan(rate)
        last = min(last, max(0.0, round(rate, RATE_DIGITS)))
        tidy.append(last)
    return tidy
