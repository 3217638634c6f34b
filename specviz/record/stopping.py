"""Stopping criteria of drafting: after γ candidates, or earlier.

The text of a criterion is its name. For a criterion with a number, the name is followed by a colon
and the number: ``confidence:0.4``.
"""

from __future__ import annotations

from typing import Literal

from specviz.errors import ConfigError
from specviz.values import Value

Reason = Literal["count", "confidence", "cost", "oracle"]


class Stopping(Value):
    """A stopping criterion.

    ``measured``: runs with this criterion have real times. The oracle's times are not real,
    because it knows the verdicts in advance.
    """

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
        does="stops after a candidate with a draft probability below θ; that candidate is still "
        "verified",
        takes_number=True,
    ),
    Stopping(
        name="cost",
        words="while it pays",
        does="drafts at most γ candidates, and stops before one that is not expected to pay off",
    ),
    Stopping(
        name="oracle",
        words="oracle",
        does="knows the verdicts and drafts only accepted candidates: a bound, not a real speed",
        measured=False,
    ),
)
STOPPINGS: dict[str, Stopping] = {each.name: each for each in _STOPPINGS}
STOPPINGS_IN_WORDS = "; ".join(
    f"{each.name}{':θ' if each.takes_number else ''} {each.does}" for each in _STOPPINGS
)


class DraftUntil(Value):
    stopping: Stopping
    threshold: float = 0.0


def parse_stopping(text: str) -> DraftUntil:
    """Parse the text of a criterion.

    Raises:
        ConfigError: The criterion is unknown, or its number is missing, unexpected or out of range.
    """
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
