"""Demo mode: recorded runs only. Nothing is computed by a model, requested, or written."""

from __future__ import annotations

from specviz.errors import SpecvizError
from specviz.folders import is_demo

__all__ = ["is_demo", "refuse_in_demo"]


def refuse_in_demo(what: str) -> None:
    """Raise SpecvizError in demo mode; ``what`` completes the sentence "The demo does not …"."""
    if is_demo():
        raise SpecvizError(
            f"This is a demo, which does not {what}.",
            remedy="Start specviz on your own machine.",
        )
