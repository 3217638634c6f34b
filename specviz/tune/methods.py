"""Ways to speculate as candidates: which may be asked about, and how each one's speed is found.

Along a text that the target wrote, most ways have chances of their own for every token, and so
expected rounds (``theory.own_odds``); a drafter that copies leaves nothing to chance. Of others
only a bound is known: of candidates that are judged together, and of a tree, never fewer stand in
the mean than of one chain token by token. Drafting while it pays has no form along a text at all.
Where the costs of steps do not tell what a round takes, the speed comes from short runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from specviz.errors import ConfigError
from specviz.figures.expectation import Floats, chances_along
from specviz.record.drafters import chosen_drafter
from specviz.record.run_config import RunConfig, method_words
from specviz.record.scores import ScoredText

Form = Literal["exact", "at least", "none"]
Basis = Literal["expected", "at least", "measured"]  # what a speed is

# What a candidate may set for itself.
OWN_SETTINGS = ("drafter", "rule", "num_drafts", "replacement", "branching", "draft_until")


def check_method(config: RunConfig) -> None:
    """Raises ConfigError for what Tune cannot tell anything of."""
    if not config.exact:
        raise ConfigError(
            f"Expectations are along the target's own words, which rule={config.rule} changes.",
            remedy="Choose a rule that keeps the target's law.",
        )
    if config.draft_method.own:
        raise ConfigError(
            "Tune knows nothing of a drafter of your own.",
            remedy="Run it with `run`, or put it beside others with `compare`.",
        )
    if not config.until.stopping.measured:
        raise ConfigError("The oracle is a bound and has no speed.", remedy="Leave it out.")


def same_method(one: RunConfig, other: RunConfig) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in OWN_SETTINGS)


def form_of(config: RunConfig) -> Form:
    """What a text says of the tokens a round."""
    if not config.draft_method.has_steps:
        return "exact"  # whatever the rule: a copied token stands if the text goes on with it
    if config.draft_until == "cost":
        return "none"
    several = config.num_drafts > 1
    if config.rule == "block" or not (config.is_chain or (several and config.replacement)):
        return "at least"
    return "exact"


def is_plain(config: RunConfig) -> bool:
    """Whether it is the usual way, which every serving engine has."""
    fixed = config.by_odds and config.draft_until == "count" and not config.branching
    return fixed and config.drafter in ("model", "prompt-lookup")


def gammas_of(config: RunConfig, gammas: tuple[int, ...]) -> tuple[int, ...]:
    """Those of a surface; a tree has one depth."""
    return (config.depth,) if config.branching else gammas


def chances_of(config: RunConfig, text: ScoredText) -> Floats:
    """Of a text that a model drafts along; ``theory.along`` says what they are."""
    assert text.scores is not None
    return chances_along(text.scores, config.until.threshold)


def method_text(config: RunConfig) -> str:
    """How it speculates, in a few words; nothing for a draft model judged token by token."""
    drafter = chosen_drafter(config.drafter)
    words = [] if config.draft_method.needs_draft else [drafter.words]
    return ", ".join((*words, *method_words(config)))


@dataclass(frozen=True, slots=True, kw_only=True)
class WayRun:
    """A short run: tokens of its whole rounds, and its speed in the target's own."""

    gamma: int
    temperature: float
    rounds: int
    tokens: int
    speedup: float
