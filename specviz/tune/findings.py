"""A finding that is to be run by another engine, and what its settings are made of.

Engines do not all accept by the same rule, so a finding has the rates of both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from specviz.errors import ConfigError
from specviz.record.drafters import chosen_drafter

ServingEngine = Literal["vLLM", "SGLang", "llama.cpp", "transformers"]
Language = Literal["shell", "json", "python"]

# lossless: a drawn candidate with min(1, target / draft). match: the draft's likeliest token, with
# the target's own chance of it.
AcceptanceRule = Literal["lossless", "match"]

RATE_DIGITS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is to be run elsewhere. Models are folders or names on the Hub.

    ``cumulative``: by rule, for each position the chance that all candidates up to it are accepted,
    as far as it is known. ``tau`` is what was found here.
    """

    target: str
    draft: str | None
    drafter: str
    gamma: int
    temperature: float
    top_k: int = 0
    top_p: float = 1.0
    tau: float | None = None
    cumulative: Mapping[AcceptanceRule, tuple[float, ...]] = field(
        default_factory=dict[AcceptanceRule, tuple[float, ...]]
    )

    def __post_init__(self) -> None:
        assert self.gamma >= 1
        assert all(len(rates) == self.gamma for rates in self.cumulative.values())
        if chosen_drafter(self.drafter).method.needs_draft and self.draft is None:
            raise ConfigError("No draft model is named.", remedy="Name one, or use prompt lookup.")
        if any("\0" in name for name in (self.target, self.draft or "")):
            raise ConfigError(
                "The name of a model has a NUL in it, which no command can hold.",
                remedy="Rename its folder.",
            )

    def tau_by(self, rule: AcceptanceRule) -> float | None:
        """Tokens a round by the rule; a certain draft, as of prompt lookup, makes both the same."""
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
    def draft_model(self) -> str | None:
        return self.draft if chosen_drafter(self.drafter).method.needs_draft else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """``rule``: by which a run of it accepts; ``tau``: the tokens a round to expect by that. None
    where acceptance is imposed, or not known."""

    label: str
    language: Language
    text: str
    rule: AcceptanceRule | None = None
    tau: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """``notes``: what the engine cannot express, or does otherwise; a sentence each."""

    engine: ServingEngine
    version: str  # in whose sources the names were read
    snippets: tuple[Snippet, ...]
    notes: tuple[str, ...]


def tidy_rates(cumulative: Iterable[float]) -> list[float]:
    """Rounded, within 0 and 1, never rising: engines refuse any other."""
    tidy, last = list[float](), 1.0
    for rate in cumulative:
        assert not math.isnan(rate)
        last = min(last, max(0.0, round(rate, RATE_DIGITS)))
        tidy.append(last)
    return tidy
