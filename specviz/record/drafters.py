"""Who proposes candidates: one entry a way of drafting.

Whatever depends on the drafter asks here for what it is, not for its name. A new way is a name, one
entry (the first that fits a pair is its default), and a class with its case in ``make_drafter`` of
``engine/decoding/drafting.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DrafterName = Literal["model", "prompt-lookup"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftMethod:
    """``fills_rounds``: it drafts γ candidates where there is room, so formulas for one γ hold."""

    name: DrafterName
    words: str
    short: str
    does: str
    needs_draft: bool  # the pair's draft model proposes, so each candidate costs a step of it
    fills_rounds: bool


_METHODS = (
    DraftMethod(
        name="model",
        words="draft model",
        short="draft",
        does="the draft model",
        needs_draft=True,
        fills_rounds=True,
    ),
    DraftMethod(
        name="prompt-lookup",
        words="prompt lookup",
        short="lookup",
        does="prompt lookup, which needs no model: it copies what followed the same words earlier "
        "in the text",
        needs_draft=False,
        fills_rounds=False,
    ),
)
DRAFT_METHODS: dict[str, DraftMethod] = {method.name: method for method in _METHODS}
DRAFTERS_IN_WORDS = "; or ".join(method.does for method in _METHODS)


def first_method(*, has_draft: bool) -> DraftMethod:
    """What a pair is run with unless somebody chooses."""
    return next(each for each in _METHODS if has_draft or not each.needs_draft)


def methods_for(*, has_draft: bool) -> list[str]:
    return [each.name for each in _METHODS if has_draft or not each.needs_draft]
