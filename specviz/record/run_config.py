"""The settings of a run and their valid combinations."""

from __future__ import annotations

import math
from typing import Any, Literal, Never, get_args

from specviz.errors import ConfigError
from specviz.record.drafters import DraftMethod, chosen_drafter
from specviz.record.forks import Fork, check_forks
from specviz.record.limits import LIMITS, MAX_GAMMA, check_one_of
from specviz.record.rules import RULES, Rule, RuleName
from specviz.record.run_facts import sampling_words
from specviz.record.shapes import (
    Shape,
    check_dynamic_tree,
    check_shape,
    num_nodes,
    shape_text,
)
from specviz.record.stopping import DraftUntil, parse_stopping
from specviz.values import Value

ResidualName = Literal["leftover", "target", "draft"]


class RunConfig(Value):
    """The settings of a run. ``top_k`` 0 and ``top_p`` 1 mean off; temperature 0 is greedy.

    A round drafts one of three: ``num_drafts`` chains, which are sequences of ``gamma`` candidates;
    a tree, where ``branching`` gives the children per node at each depth and its length replaces
    ``gamma``; or a dynamic tree of depth ``gamma``. ``dynamic_tree`` holds the width of the dynamic
    tree and its largest number of candidates. The width limits two numbers: the nodes expanded at
    each depth, and the children of each node. ``replacement``: whether parallel chains may begin
    with the same token. The children of a tree node always differ.
    """

    gamma: int = 5
    temperature: float = 0.7
    top_k: int = 0
    top_p: float = 1.0
    max_new_tokens: int = 128
    seed: int = 0
    drafter: str = "model"
    draft_until: str = "count"
    num_drafts: int = 1
    replacement: bool = True
    branching: Shape = ()
    dynamic_tree: Shape = ()
    rule: RuleName = "lossless"
    epsilon: float = 0.0
    residual: ResidualName = "leftover"
    ignore_eos: bool = False
    stop: tuple[str, ...] = ()
    chat: bool = False
    record: bool = True
    forks: tuple[Fork, ...] = ()

    def __post_init__(self) -> None:
        for name in ("gamma", "top_k", "max_new_tokens", "seed", "num_drafts"):
            _whole(name, getattr(self, name))
        for name in ("temperature", "top_p", "epsilon"):
            _real(name, getattr(self, name))
        if self.top_p == 0.0:
            raise ConfigError("top_p is 0.", remedy="Give a number above 0, at most 1.")
        chosen_drafter(self.drafter)
        check_one_of("rule", self.rule, tuple(RULES))
        check_one_of("residual", self.residual, get_args(ResidualName))
        if any(not text for text in self.stop):
            raise ConfigError("A stop string is empty.", remedy="Give at least one character.")
        if any(not _is_utf8(text) for text in self.stop):
            raise ConfigError("A stop string is not UTF-8.", remedy="Give it in UTF-8.")
        check_shape(self.branching, MAX_GAMMA)
        check_dynamic_tree(self.dynamic_tree)
        parse_stopping(self.draft_until)
        _check_combination(self)
        check_forks(self.forks, by_draws=not (self.greedy and self.exact))

    @property
    def draft_method(self) -> DraftMethod:
        return chosen_drafter(self.drafter).method

    @property
    def judging(self) -> Rule:
        return RULES[self.rule]

    @property
    def until(self) -> DraftUntil:
        return parse_stopping(self.draft_until)

    @property
    def greedy(self) -> bool:
        return self.temperature == 0.0

    @property
    def exact(self) -> bool:
        """Return whether the text has the target's distribution."""
        return self.judging.exact

    @property
    def by_odds(self) -> bool:
        """Return whether a round drafts one sequence and tests it with min(1, target/draft).

        Forecasts assume such rounds, and so do the acceptance probabilities along a text.
        """
        return self.rule == "lossless" and self.is_chain

    @property
    def shape(self) -> Shape:
        """The children per node, depth by depth: (1, 1, 1) is a chain of γ = 3.

        For a dynamic tree, only the length is meaningful.
        """
        return self.branching or (self.num_drafts, *(1 for _ in range(self.gamma - 1)))

    @property
    def is_chain(self) -> bool:
        single = self.num_drafts == 1 and all(each == 1 for each in self.branching)
        return single and not self.dynamic_tree

    @property
    def depth(self) -> int:
        """The largest number of candidates that a round can accept."""
        return len(self.branching) or self.gamma

    @property
    def most_candidates(self) -> int:
        """The largest number of candidates in a round."""
        return self.candidates_within(self.depth)

    def candidates_within(self, depth: int) -> int:
        """Return the largest number of candidates in a round of at most this depth."""
        if not self.dynamic_tree:
            return num_nodes(self.shape[:depth])
        width, candidates = self.dynamic_tree
        return min(candidates, width + max(0, depth - 1) * width**2) if depth else 0

    @property
    def spare_rows(self) -> int:
        """The number of KV-cache rows that a round fills beyond the length of its longest path."""
        if not self.dynamic_tree:
            return self.most_candidates - self.depth
        # The draft also processes nodes that do not become candidates.
        return max(self.most_candidates, self.dynamic_tree[0] * (self.depth - 1))

    @property
    def without_alpha(self) -> str:
        """The reason why α (accepted divided by tested candidates) is undefined; else empty."""
        if not self.judging.one_by_one:
            return f"with {self.judging.words}, candidates have no verdicts of their own"
        return "" if self.is_chain else "a position has several candidates"

    @property
    def has_alpha(self) -> bool:
        """Return whether α is defined: each position has one candidate and one verdict."""
        return not self.without_alpha

    @property
    def fixed_length(self) -> bool:
        """Return whether all rounds draft the same number of candidates.

        Rounds near the length limit may draft fewer.
        """
        fixed = self.draft_until == "count" and not self.dynamic_tree
        return fixed and self.draft_method.fills_rounds

    @property
    def has_ideal(self) -> bool:
        """Return whether the textbook speedup, computed from α and c alone, applies."""
        by_odds = self.judging.deciding == "odds" and not self.draft_method.own
        return self.is_chain and by_odds and self.draft_until == "count"

    @property
    def formulas_hold(self) -> bool:
        """Return whether formulas for one γ apply.

        They need rounds of γ candidates in one sequence, each with an acceptance probability.
        """
        return self.is_chain and self.fixed_length and self.judging.deciding == "odds"


def _check_combination(config: RunConfig) -> None:
    """Raise ConfigError for settings that contradict each other."""
    several, method, until = not config.is_chain, config.draft_method, config.until
    given = {
        "num_drafts": config.num_drafts > 1,
        "branching": config.branching,
        "dynamic_tree": config.dynamic_tree,
    }
    if len(both := [name for name, value in given.items() if value]) > 1:
        _refuse(f"{both[0]} and {both[1]} exclude each other.", "Give one of them.")
    rule = config.judging
    if several and not (rule.several if config.num_drafts > 1 else rule.trees):
        _refuse(
            f"rule={config.rule} verifies only one chain.",
            "Use rule=lossless with several drafts or a tree.",
        )
    if several and not (method.trees and config.draft_until == "count"):
        _refuse(
            "Several drafts and trees need drafter=model, eagle, mtp or medusa, and "
            "draft_until=count.",
            "Use a draft model or one of these heads and no draft_until, or draft one chain.",
        )
    if until.stopping.name != "count" and not (method.has_steps or method.own):
        _refuse(
            f"draft_until={config.draft_until} does not work with {method.words}.",
            "Use a draft model, or drafter=early-exit:N.",
        )
    if not until.stopping.measured and not config.judging.one_by_one:
        _refuse(
            "The oracle needs a verdict on each candidate.",
            f"Use a rule other than {config.rule}.",
        )
    if config.rule == "typical" and config.epsilon == 0.0:
        _refuse("rule=typical needs epsilon.", "Give an epsilon above 0; Medusa uses 0.09.")
    chain_by_odds = config.is_chain and config.judging.deciding == "odds"
    if config.forks and not (chain_by_odds and until.stopping.measured):
        _refuse(
            "A fork needs rounds of one chain, verdicts by acceptance probability, and drafting "
            "without the oracle.",
            "Leave out the fork.",
        )


def _refuse(culprit: str, remedy: str) -> Never:
    raise ConfigError(culprit, remedy=remedy)


def refuse_without_effect(config: RunConfig, whose: str) -> None:
    """Raise ConfigError if a setting differs from its default but has no effect.

    Args:
        whose: The subject of the message, such as "The run".
    """
    for name, default in settings_without_effect(config).items():
        if getattr(config, name) != default:
            rules = " or ".join(rule.name for rule in RULES.values() if name in rule.takes)
            affected = f"rule={rules}" if rules else "several drafts"
            _refuse(f"{whose} has {name}, which only affects {affected}.", "Leave it out.")


def settings_without_effect(config: RunConfig) -> dict[str, Any]:
    """Return the settings that the method of ``config`` does not use, with their defaults."""
    of_rules = {"epsilon": 0.0, "residual": "leftover"}
    unused: dict[str, Any] = {
        name: default for name, default in of_rules.items() if name not in config.judging.takes
    }
    return unused | ({"replacement": True} if config.num_drafts == 1 else {})


def refuse_own_drafter(config: RunConfig) -> None:
    """Raise ConfigError for a custom drafter: links and pages must not choose code to run here."""
    if config.draft_method.own:
        _refuse(
            "Pages do not run custom drafters.",
            "Use `python -m specviz run`, which stores the run for the pages.",
        )


def method_words(config: RunConfig) -> tuple[str, ...]:
    """Return how a run's method differs from the default, as labels such as "tree 3x2x1"."""
    labels = [] if config.rule == "lossless" else [config.judging.words]
    if config.branching:
        labels.append(f"tree {shape_text(config.branching)}")
    if config.dynamic_tree:
        labels.append(f"dynamic tree {shape_text(config.dynamic_tree)}")
    if config.num_drafts > 1:
        kind = "" if config.replacement else " without replacement"
        labels.append(f"{config.num_drafts} drafts{kind}")
    if config.draft_until != "count":
        labels.append(config.draft_until)
    return tuple(labels)


def settings_words(config: RunConfig) -> tuple[str, ...]:
    """Return γ, sampling, method, drafter and forks as short labels; defaults are left out."""
    gamma = () if config.branching else (f"γ {config.gamma}",)
    drafter = () if config.drafter == RunConfig().drafter else (config.draft_method.words,)
    forks = (f"forked at {each.words}" for each in config.forks)
    return (*gamma, sampling_words(config.temperature), *method_words(config), *drafter, *forks)


def _is_utf8(text: str) -> bool:
    """Return whether the text was decoded from valid UTF-8.

    Python decodes invalid bytes to lone surrogates, so a text with a lone surrogate was not valid.
    """
    return not any("\ud800" <= each <= "\udfff" for each in text)


def _whole(name: str, value: object) -> None:
    low, high = LIMITS[name].ends
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ConfigError(
            f"{name} is {value}.", remedy=f"Give a whole number from {low} to {high}."
        )


def _real(name: str, value: object) -> None:
    low, high = LIMITS[name].ends
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{name} is {value!r}.", remedy=f"Give a number from {low} to {high}.")
    if not (math.isfinite(value) and low <= value <= high):
        raise ConfigError(f"{name} is {value}.", remedy=f"Give a number from {low:g} to {high:g}.")
