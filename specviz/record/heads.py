"""What a run records about its drafting head."""

from __future__ import annotations

from specviz.values import Value


class HeadInfo(Value):
    """The hidden states that a drafting head reads, and the tokens that it can propose.

    ``places`` lists which of the target's hidden states the head reads: i means the input of
    layer i, -1 means the final state. ``named_target`` is the target that the head's files name, if
    the run used another target; else it is empty.
    """

    places: tuple[int, ...]
    proposable: int | None  # number of tokens that it can propose; None if all
    named_target: str = ""
