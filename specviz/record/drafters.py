"""The draft methods, one entry each.

Code that depends on the drafter reads the entry, not the name. To add a method, add an entry (the
first entry that fits a pair is the default of the pair) and a class with its case in
``make_drafter`` of ``engine/decoding/drafting.py``. A custom class is named ``module:Class``; it
comes from the command line or a file, never from a link.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from specviz.errors import ConfigError

_OWN = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_NUMBER = re.compile(r"[1-9]\d{0,3}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftMethod:
    """A draft method.

    ``fills_rounds``: the method drafts γ candidates whenever the length limit allows, so formulas
    for one γ apply.
    """

    name: str
    words: str
    short: str
    does: str
    needs_draft: bool = False  # the pair's draft model proposes
    has_steps: bool = False  # each candidate costs a step of a model
    fills_rounds: bool = False
    takes_number: bool = False
    takes_texts: bool = False  # can use texts besides the run's own
    own: bool = False  # a custom class


_METHODS = (
    DraftMethod(
        name="model",
        words="draft model",
        short="draft",
        does="the draft model",
        needs_draft=True,
        has_steps=True,
        fills_rounds=True,
    ),
    DraftMethod(
        name="prompt-lookup",
        words="prompt lookup",
        short="lookup",
        does="prompt lookup, which needs no model: it proposes the tokens that followed the same "
        "tokens earlier in the text, chat template included",
    ),
    DraftMethod(
        name="suffix",
        words="suffix lookup",
        short="suffix",
        does="suffix lookup, which proposes the tokens that most often followed the longest "
        "matching suffix; a longer match gives more candidates",
        takes_texts=True,
    ),
    DraftMethod(
        name="early-exit",
        words="early exit",
        short="early exit",
        does="early exit, early-exit:N, which drafts with the target's first N layers and its head",
        has_steps=True,
        fills_rounds=True,
        takes_number=True,
    ),
)
_OWN_METHOD = DraftMethod(
    name="own",
    words="custom drafter",
    short="custom",
    does="a custom class, MODULE:CLASS",
    own=True,
)
DRAFT_METHODS: dict[str, DraftMethod] = {method.name: method for method in _METHODS}
_KNOWN = {method.name: method for method in (*_METHODS, _OWN_METHOD)}
DRAFTERS_IN_WORDS = "; or ".join(method.does for method in _KNOWN.values())


def drafters_list(names: Iterable[str] = tuple(_KNOWN)) -> str:
    """Return what the methods do, as a list in Markdown."""
    return "\n".join(["How candidates are drafted:", "", *(f"- {_KNOWN[n].does}" for n in names)])


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenDrafter:
    """A chosen drafter: its method and, for early exit, its number of layers."""

    method: DraftMethod
    number: int = 0

    @property
    def words(self) -> str:
        if not self.number:
            return self.method.words
        return f"{self.method.words} after {self.number} layer{'s' * (self.number != 1)}"


def chosen_drafter(name: str) -> ChosenDrafter:
    """Return the drafter with this name, such as ``model`` or ``early-exit:2``.

    Raises:
        ConfigError: The name is unknown.
    """
    plain, colon, number = name.partition(":")
    method = DRAFT_METHODS.get(plain)
    if method is not None and not method.takes_number and not colon:
        return ChosenDrafter(method=method)
    if method is not None and method.takes_number and _NUMBER.fullmatch(number):
        return ChosenDrafter(method=method, number=int(number))
    if method is None and _OWN.fullmatch(name):
        return ChosenDrafter(method=_OWN_METHOD)
    raise ConfigError(
        f"drafter is {name[:60]!r}.",
        remedy=f"Choose one of {', '.join(drafter_names())}, or MODULE:CLASS.",
    )


def drafter_names() -> list[str]:
    """Return the names of the draft methods as a user types them, such as ``early-exit:N``."""
    return [f"{each.name}:N" if each.takes_number else each.name for each in _METHODS]


def first_method(*, has_draft: bool) -> DraftMethod:
    """Return the default method of a pair."""
    return next(each for each in _METHODS if has_draft or not each.needs_draft)


def methods_for(*, has_draft: bool) -> list[str]:
    """Return the names of the methods that fit a pair, without those that take a number."""
    fitting = (each for each in _METHODS if has_draft or not each.needs_draft)
    return [each.name for each in fitting if not each.takes_number]
