"""What one round emits, exactly: every course that it can take, for small instances.

A kernel gives the law of the next token behind a text. A round's law is over texts of different
lengths: the candidates that stand, and one token more. A rule is exact if that law, continued by
the target, is the target's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from specviz.errors import TheoryError
from specviz.theory.tradeoff import Chances, Law, distribution_pair, law, leftover, lossless

Text = tuple[int, ...]
Kernel = Callable[[Text], Chances]  # the tokens before -> the law of the next
Emitted = dict[Text, float]
Stops = Callable[[Text], bool]  # whether drafting ends behind these candidates

_MAX_TEXTS = 300_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judged:
    """One place: the chances that each token is emitted there, as a candidate that stands, and in
    the place of one that falls (or of none)."""

    stands: Law
    instead: Law

    @property
    def emitted(self) -> Law:
        return self.stands + self.instead


Judging = Callable[[Chances, Chances], Judged]  # of draft and target at a place
Acceptance = Callable[[Chances, Chances], Law]


def by_rule(accept: Acceptance, recover: Acceptance) -> Judging:
    """Candidates stand with the chances ``accept``; else the token is drawn from ``recover``."""

    def judged(draft: Chances, target: Chances) -> Judged:
        stands = law(draft, "draft") * accept(draft, target)
        fallen = max(0.0, 1.0 - float(stands.sum()))
        return Judged(stands=stands, instead=fallen * recover(draft, target))

    return judged


def by_odds(draft: Chances, target: Chances) -> Judged:
    """Token by token with min(1, target / draft): Leviathan et al. 2023, Chen et al. 2023."""
    return by_rule(lossless, leftover)(draft, target)


def drawn_otherwise(assumed: Chances) -> Judging:
    """A deliberate fault: the rule takes candidates to be drawn from ``assumed``."""

    def judged(draft: Chances, target: Chances) -> Judged:
        stands = law(draft, "draft") * lossless(assumed, target)
        rest = max(0.0, 1.0 - float(stands.sum())) * leftover(assumed, target)
        return Judged(stands=stands, instead=rest)

    return judged


def never(candidates: Text) -> bool:
    """Drafting goes on to the last candidate."""
    del candidates
    return False


def chain_distribution(
    draft: Kernel, target: Kernel, gamma: int, judging: Judging = by_odds, stops: Stops = never
) -> Emitted:
    """Of a round of one chain, up to the first candidate that falls."""
    check_size(len(target(())), gamma)
    return round_distribution(draft, target, [judging] * gamma, stops)


def round_distribution(
    draft: Kernel, target: Kernel, rules: Sequence[Judging], stops: Stops = never
) -> Emitted:
    """Of a round whose places are judged by these rules, one behind the other.

    What ``stops`` looks at was known before the next draw, so no such reason biases the text.
    """
    emitted: Emitted = {}
    open_: Emitted = {(): 1.0}
    check_size(len(target(())), len(rules))
    for judging in rules:
        standing: Emitted = {}
        for text, chance in open_.items():
            if stops(text):
                _add(emitted, text, chance * law(target(text), "target"))
                continue
            found = judging(*distribution_pair(draft(text), target(text)))
            _add(emitted, text, chance * found.instead)
            _add(standing, text, chance * found.stands)
        open_ = standing
    for text, chance in open_.items():
        _add(emitted, text, chance * law(target(text), "target"))
    return emitted


def continued(emitted: Emitted, target: Kernel, length: int) -> Emitted:
    """The law of the first ``length`` tokens where the target goes on behind the round."""
    begun: Emitted = {}
    for text, chance in emitted.items():
        begun[text[:length]] = begun.get(text[:length], 0.0) + chance
    return {text: chance for text, chance, _ in _texts(begun, target, length)}


def target_distribution(target: Kernel, length: int) -> Emitted:
    """Of its first tokens, written alone."""
    return continued({(): 1.0}, target, length)


def round_bias(emitted: Emitted, target: Kernel) -> float:
    """Total variation of the text from the target's; 0 but for rounding if the rule is exact."""
    length = max(map(len, emitted))
    return sum(abs(chance - own) for _, chance, own in _texts(emitted, target, length)) / 2.0


def mean_accepted(emitted: Emitted) -> float:
    """Candidates that stand in a round."""
    return sum((len(text) - 1) * chance for text, chance in emitted.items())


def check_size(vocabulary: int, depth: int) -> None:
    """Raises TheoryError where there are too many texts to count."""
    if depth < 0:
        raise TheoryError(f"γ is {depth}.", remedy="Give 0 or more.")
    if vocabulary ** (depth + 1) > _MAX_TEXTS:
        raise TheoryError("That is too many texts to count.", remedy="Take a smaller γ.")


def _texts(begun: Emitted, target: Kernel, length: int) -> list[tuple[Text, float, float]]:
    """Every text of this length, its chance, and its chance by the target alone."""
    rows: list[tuple[Text, float, float]] = [((), begun.get((), 0.0), 1.0)]
    check_size(len(target(())), length - 1)
    for _ in range(length):
        rows = [
            ((*text, token), chance * odds + begun.get((*text, token), 0.0), own * odds)
            for text, chance, own in rows
            for token, odds in enumerate(law(target(text), "target").tolist())
        ]
    return rows


def _add(emitted: Emitted, text: Text, chances: Law) -> None:
    for token in np.flatnonzero(chances).tolist():
        key = (*text, token)
        emitted[key] = emitted.get(key, 0.0) + float(chances[token])
