"""When drafting ends: after γ candidates, or before that for a reason.

As a text a reason is its name, and its number behind a colon where it takes one:
``confidence:0.4``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from specviz.errors import ConfigError

Reason = Literal["count", "confidence", "cost", "oracle"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopping:
    """``measured``: a run's times are its own; the oracle knows what nobody can."""

    name: Reason
    words: str
    does: str
    takes_number: bool = False
    measured: bool = True


_STOPPINGS = (
    Stopping(name="count", words="γ candidates", does="drafts γ candidates"),
    Stopping(
        name="confidence",
        words="until unsure",
        does="ends after a candidate that the draft gives less than θ, which is still judged",
        takes_number=True,
    ),
    Stopping(
        name="cost",
        words="while it pays",
        does="goes on while some number of further candidates, up to γ, is expected to be worth "
        "its cost",
    ),
    Stopping(
        name="oracle",
        words="oracle",
        does="knows the verdicts and drafts nothing that is rejected: a bound, never a speed",
        measured=False,
    ),
)
STOPPINGS: dict[str, Stopping] = {each.name: each for each in _STOPPINGS}
STOPPINGS_IN_WORDS = "; ".join(
    f"{each.name}{':θ' if each.takes_number else ''} {each.does}" for each in _STOPPINGS
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftUntil:
    stopping: Stopping
    threshold: float = 0.0


def parse_stopping(text: str) -> DraftUntil:
    """Raises ConfigError for an unknown reason, or a number where none belongs."""
    name, colon, number = text.partition(":")
    stopping = STOPPINGS.get(name)
    if stopping is None or bool(colon) != stopping.takes_number:
        raise ConfigError(
            f"draft_until is {text[:40]!r}.",
            remedy="Choose one of count, confidence:0.4 (any share), cost, oracle.",
        )
    return DraftUntil(stopping=stopping, threshold=_share(number) if colon else 0.0)


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 < value < 1.0:
        raise ConfigError(
            f"draft_until has the confidence {text[:40]!r}.",
            remedy="Give a number between 0 and 1, such as confidence:0.4.",
        )
    return value
