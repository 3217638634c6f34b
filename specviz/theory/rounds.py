"""The exact distribution of the tokens that one round emits, by enumeration.

A kernel is a function that returns the distribution of the next token after a text. A round emits
the accepted candidates and one more token, so the texts that rounds emit differ in length. A rule
is exact if these texts, continued by sampling from the target, have the target's distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from specviz.errors import TheoryError
from specviz.theory.tradeoff import (
    Chances,
    Distribution,
    as_distribution,
    distribution_pair,
    lossless,
    residual_distribution,
)
from specviz.values import Value

Text = tuple[int, ...]
Kernel = Callable[[Text], Chances]  # the tokens so far -> the distribution of the next
Emitted = dict[Text, float]
Stops = Callable[[Text], bool]  # whether drafting ends after these candidates

_MAX_TEXTS = 300_000


class PositionOutcome(Value, eq=False):
    """For each token, the probability that this token is emitted at a certain position.

    ``accepted``: the token is an accepted candidate. ``recovered``: the token replaces a rejected
    or missing candidate.
    """

    accepted: Distribution
    recovered: Distribution

    @property
    def emitted(self) -> Distribution:
        return self.accepted + self.recovered


PositionRule = Callable[[Chances, Chances], PositionOutcome]  # (draft, target) at a position
Acceptance = Callable[[Chances, Chances], Distribution]


def rule_from(accept: Acceptance, recover: Acceptance) -> PositionRule:
    """Return the rule: accept with probability ``accept``, otherwise draw from ``recover``.

    Both functions compute their result from the draft and target distributions at a position.
    """

    def decide(draft: Chances, target: Chances) -> PositionOutcome:
        accepted = as_distribution(draft, "draft") * accept(draft, target)
        fallen = max(0.0, 1.0 - float(accepted.sum()))
        return PositionOutcome(accepted=accepted, recovered=fallen * recover(draft, target))

    return decide


def token_verification(draft: Chances, target: Chances) -> PositionOutcome:
    """Return the probabilities that the lossless rule emits each token, accepted or recovered.

    A candidate is accepted with probability min(1, target / draft) (Leviathan et al. 2023).
    """
    return rule_from(lossless, residual_distribution)(draft, target)


def never(candidates: Text) -> bool:
    """Return False: drafting never stops early."""
    del candidates
    return False


def chain_distribution(
    draft: Kernel,
    target: Kernel,
    gamma: int,
    rule: PositionRule = token_verification,
    stops: Stops = never,
) -> Emitted:
    """Return the distribution of a round's tokens if candidates are drafted one after another.

    At every position, ``rule`` verifies the candidate.
    """
    check_size(len(target(())), gamma)
    return round_distribution(draft, target, [rule] * gamma, stops)


def round_distribution(
    draft: Kernel, target: Kernel, rules: Sequence[PositionRule], stops: Stops = never
) -> Emitted:
    """Return the distribution of a round's tokens; ``rules[i]`` verifies the i-th position.

    ``stops`` decides before each draw whether drafting ends. It receives the candidates so far, but
    not the next one, so stopping never biases the text.
    """
    emitted: Emitted = {}
    open_: Emitted = {(): 1.0}
    check_size(len(target(())), len(rules))
    for rule in rules:
        standing: Emitted = {}
        for text, chance in open_.items():
            if stops(text):
                _add(emitted, text, chance * as_distribution(target(text), "target"))
                continue
            found = rule(*distribution_pair(draft(text), target(text)))
            _add(emitted, text, chance * found.recovered)
            _add(standing, text, chance * found.accepted)
        open_ = standing
    for text, chance in open_.items():
        _add(emitted, text, chance * as_distribution(target(text), "target"))
    return emitted


def continued(emitted: Emitted, target: Kernel, length: int) -> Emitted:
    """Return the distribution of the first ``length`` tokens of the continued texts.

    Each emitted text is continued by sampling from the target.
    """
    begun: Emitted = {}
    for text, chance in emitted.items():
        begun[text[:length]] = begun.get(text[:length], 0.0) + chance
    return {text: chance for text, chance, _ in _texts(begun, target, length)}


def round_bias(emitted: Emitted, target: Kernel) -> float:
    """Return the total variation between the distribution of a round's text and the target's.

    Shorter texts are continued by the target, so that all texts are equally long. For exact rules
    the result is 0 up to rounding.
    """
    length = max(map(len, emitted))
    return sum(abs(chance - own) for _, chance, own in _texts(emitted, target, length)) / 2.0


def mean_accepted(emitted: Emitted) -> float:
    """Return the mean number of accepted candidates of a round."""
    return sum((len(text) - 1) * chance for text, chance in emitted.items())


def check_size(vocabulary: int, depth: int) -> None:
    """Check that the texts are few enough to enumerate.

    Raises:
        TheoryError: There are too many texts, or ``depth`` is negative.
    """
    if depth < 0:
        raise TheoryError(f"γ is {depth}.", remedy="Give 0 or more.")
    if vocabulary ** (depth + 1) > _MAX_TEXTS:
        raise TheoryError("Too many texts to enumerate.", remedy="Use a smaller γ.")


def _texts(begun: Emitted, target: Kernel, length: int) -> list[tuple[Text, float, float]]:
    """Return every text of this length with its probability under two ways to generate it.

    In the first, the target continues the texts in ``begun``; in the second, the target generates
    the whole text.
    """
    rows: list[tuple[Text, float, float]] = [((), begun.get((), 0.0), 1.0)]
    check_size(len(target(())), length - 1)
    for _ in range(length):
        rows = [
            ((*text, token), chance * odds + begun.get((*text, token), 0.0), own * odds)
            for text, chance, own in rows
            for token, odds in enumerate(as_distribution(target(text), "target").tolist())
        ]
    return rows


def _add(emitted: Emitted, text: Text, chances: Distribution) -> None:
    for token in np.flatnonzero(chances).tolist():
        key = (*text, token)
        emitted[key] = emitted.get(key, 0.0) + float(chances[token])
