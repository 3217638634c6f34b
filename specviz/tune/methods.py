"""Which methods Tune supports, and how it finds the speed of each.

The target writes a text. For most methods, every token of the text has an acceptance probability.
The expected rounds along the text follow from these probabilities (``theory.along``). With prompt
lookup, the text determines the rounds. For block verification and trees, the text gives only a
lower bound: on average, they accept at least as many candidates as one chain with token-by-token
verification. For ``draft_until="cost"``, dynamic trees and heads, the text gives no expected
rounds. If step costs do not cover a method's rounds, short runs measure the speed
(``method_runs``).
"""

from __future__ import annotations

from typing import Literal

from specviz.errors import ConfigError
from specviz.figures.expectation import Floats, acceptance_along
from specviz.record.drafters import chosen_drafter
from specviz.record.run_config import RunConfig, method_words
from specviz.record.scores import ScoredText
from specviz.values import Value

Form = Literal["exact", "at least", "none"]
Basis = Literal["expected", "at least", "measured"]  # what kind of value a speed is

# The settings that may differ between candidates.
OWN_SETTINGS = (
    "drafter", "rule", "num_drafts", "replacement", "branching", "dynamic_tree", "draft_until",
)  # fmt: skip


def check_method(config: RunConfig) -> None:
    """Raise ConfigError for a method that Tune does not support."""
    if not config.exact:
        raise ConfigError(
            f"Tune scores text of the target, but rule={config.rule} changes the text's "
            "distribution.",
            remedy="Choose a lossless rule.",
        )
    if config.draft_method.own:
        raise ConfigError(
            "Tune does not support custom drafters.",
            remedy="Use `run` or `compare` for a custom drafter.",
        )
    if not config.until.stopping.measured:
        raise ConfigError(
            "The oracle is a bound that no engine can reach, so it has no speed.",
            remedy="Leave the oracle out.",
        )


def same_method(one: RunConfig, other: RunConfig) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in OWN_SETTINGS)


def form_of(config: RunConfig) -> Form:
    """Return how exactly scored texts give this method's expected tokens per round.

    The result says: exactly, as a lower bound ("at least"), or not at all ("none").
    """
    if not config.draft_method.has_steps:
        return "exact"  # under any rule: a copied token is accepted if it is the text's next token
    if config.draft_until == "cost" or config.draft_method.needs_head:
        return "none"  # a head's distribution depends on where the round began
    if config.dynamic_tree:
        return "none"  # it may lack the deep candidates of a chain
    several = config.num_drafts > 1
    if config.rule == "block" or not (config.is_chain or (several and config.replacement)):
        return "at least"
    return "exact"


def is_plain(config: RunConfig) -> bool:
    """Return whether the method is the standard one, which every serving engine supports."""
    fixed = config.by_odds and config.draft_until == "count" and not config.branching
    return fixed and config.drafter in ("model", "prompt-lookup")


def gammas_of(config: RunConfig, gammas: tuple[int, ...]) -> tuple[int, ...]:
    """Return the values of γ to compute for a method; for a tree, only its depth."""
    return (config.depth,) if config.branching else gammas


def chances_of(config: RunConfig, text: ScoredText) -> Floats:
    """Return each token's acceptance probability along a text, as input to ``theory.along``."""
    assert text.scores is not None
    return acceptance_along(text.scores, config.until.threshold)


def method_text(config: RunConfig) -> str:
    """Return a short name of the method; "" for a draft model with token-by-token verification."""
    drafter = chosen_drafter(config.drafter)
    words = [] if config.draft_method.needs_draft else [drafter.words]
    return ", ".join((*words, *method_words(config)))


class ShortRun(Value):
    """The result of a short run: its whole rounds, the tokens in these rounds, and the speedup."""

    gamma: int
    temperature: float
    rounds: int
    tokens: int
    speedup: float
