"""The optional capabilities of a model step beyond feeding and forgetting tokens.

Callers check ``StepCapabilities`` before they use a capability. If a step lacks the capability, the
step's method raises a ``PairError`` with the reason and remedy of ``Missing``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal, NoReturn, TypeAlias, TypeVar

from specviz.errors import PairError

_Offered = TypeVar("_Offered")


@dataclass(frozen=True, slots=True)
class Missing:
    """A capability that a step lacks: the reason (without a period) and the remedy. Falsy."""

    reason: str
    remedy: str

    def __bool__(self) -> bool:
        return False


Offered: TypeAlias = Literal[True] | Missing


class HiddenStates(Enum):
    """The hidden states that a drafter requests; a drafter class may write ``True`` for FINAL."""

    FINAL = True  # of the last layer, after the final norm


FINAL_ONLY = frozenset({HiddenStates.FINAL})


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCapabilities:
    hidden_states: frozenset[HiddenStates] | Missing
    trees: Offered
    exits: range | Missing  # numbers of layers after which the model can exit
    device_rounds: Offered  # whether rounds can run on the device


def require(offered: _Offered | Missing) -> _Offered:
    """Return ``offered``; raise PairError if it is ``Missing``."""
    if isinstance(offered, Missing):
        refuse(offered)
    return offered


def refuse(offered: object) -> NoReturn:
    """Raise PairError with the reason and remedy of a ``Missing`` capability."""
    assert isinstance(offered, Missing), "a declared capability is implemented"
    raise PairError(f"{offered.reason}.", remedy=offered.remedy)


def missing_reason(offered: object) -> str:
    """Return why a capability is missing, or "" if it is not missing."""
    return offered.reason if isinstance(offered, Missing) else ""
