"""What a run records of a drafting head."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadInfo:
    """What a drafting head reads, and what it can propose.

    ``places``: the target's hidden states: i is the stream that enters layer i, -1 the final state.
    """

    places: tuple[int, ...]
    proposable: int | None  # number of tokens that it can propose; None if all
