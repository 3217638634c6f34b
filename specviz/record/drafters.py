"""The draft methods, with a ``DraftMethod`` for each.

Other code reads the attributes of a ``DraftMethod`` and does not compare names. To add a method,
add a ``DraftMethod`` here and a drafter class. Then add a case for the class in ``make_drafter`` of
``engine/decoding/drafting.py``; a new kind of head needs no case. By default, a pair uses the
method for its kind of draft. A custom class is named ``module:Class``. Only the command line or a
file may name a custom class, never a link.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from specviz.errors import ConfigError
from specviz.values import Value

MODEL = "model"
_OWN = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_NUMBER = re.compile(r"[1-9]\d{0,3}")


class DraftMethod(Value):
    """A draft method.

    ``drafts_with``: what the pair must have: ``MODEL`` for a draft model, a kind of head such as
    ``eagle``, or empty if the method needs neither. ``fills_rounds``: the method drafts γ
    candidates whenever the length limit allows, so formulas for one γ apply.
    """

    name: str
    words: str
    short: str
    does: str
    drafts_with: str = ""
    has_steps: bool = False  # each candidate costs a step of a model
    fills_rounds: bool = False
    trees: bool = False  # can also draft several chains, and trees
    takes_number: bool = False
    takes_texts: bool = False  # can use texts besides the run's own
    own: bool = False  # a custom class

    @property
    def needs_draft(self) -> bool:
        """Whether the method drafts with a separate draft model."""
        return self.drafts_with == MODEL

    @property
    def needs_head(self) -> bool:
        return self.drafts_with not in ("", MODEL)

    def fits(self, draft: str) -> bool:
        """Return whether the method works with ``MODEL``, a kind of head, or no draft ("")."""
        return self.drafts_with in ("", draft)


_METHODS = (
    DraftMethod(
        name="model",
        words="draft model",
        short="draft",
        does="the draft model",
        drafts_with=MODEL,
        has_steps=True,
        fills_rounds=True,
        trees=True,
    ),
    DraftMethod(
        name="prompt-lookup",
        words="prompt lookup",
        short="lookup",
        does="prompt lookup, which needs no model: it searches the earlier text, chat template "
        "included, for the last tokens, and proposes the tokens that followed them there",
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
        does="early exit (early-exit:N), which drafts with the target's first N layers and its "
        "output head",
        has_steps=True,
        fills_rounds=True,
        takes_number=True,
    ),
)
_HEADS = (  # the last two values: whether a head drafts any number of candidates; trees
    ("eagle", "EAGLE", "an EAGLE head, which reads the target's hidden states", True, True),
    ("mtp", "MTP", "the target's own layers for multi-token prediction (MTP)", True, True),
    ("medusa", "Medusa", "Medusa heads, one for each candidate", False, True),
    ("dflash", "DFlash", "a DFlash head, which drafts a block in one pass", False, False),
)
_METHODS += tuple(
    DraftMethod(
        name=name,
        words=f"{short} head",
        short=short,
        does=does,
        drafts_with=name,
        has_steps=True,
        fills_rounds=fills,
        trees=trees,
    )
    for name, short, does, fills, trees in _HEADS
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
DRAFTER_KEYS = {
    kind: "drafter" if kind == MODEL else f"drafter_{kind or 'alone'}"
    for kind in dict.fromkeys(method.drafts_with for method in _METHODS)
}
"""For each kind of draft, the name of the link parameter that holds the drafter.

With a parameter of its own, each kind of draft keeps its own default and its own choice.
"""
DRAFTERS_IN_WORDS = "; or ".join(method.does for method in _KNOWN.values())


def head_method(kind: str) -> str:
    """Return the name of the draft method for a kind of head; EAGLE-3 heads use EAGLE's method."""
    return "eagle" if kind == "eagle3" else kind


def drafters_list(names: Iterable[str] = tuple(_KNOWN)) -> str:
    """Return a Markdown list that describes the draft methods."""
    return "\n".join(["How candidates are drafted:", "", *(f"- {_KNOWN[n].does}" for n in names)])


class ChosenDrafter(Value):
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
    """Return the names of the draft methods in the form that a user types, as ``early-exit:N``."""
    return [f"{each.name}:N" if each.takes_number else each.name for each in _METHODS]


def first_method(draft: str) -> DraftMethod:
    """Return the default method for ``MODEL``, a kind of head, or "" for a pair without draft."""
    fitting = [each for each in _METHODS if each.drafts_with in ("", draft)]
    return next((each for each in fitting if each.drafts_with), fitting[0])


def methods_for(draft: str) -> list[str]:
    """Return the names of the methods that fit this kind of draft, default first.

    Methods that take a number, such as early exit, are left out.
    """
    others = (each for each in _METHODS if not each.drafts_with and not each.takes_number)
    return list(dict.fromkeys(each.name for each in (first_method(draft), *others)))
