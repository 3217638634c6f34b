"""What a step can do beyond feeding and forgetting, declared as a value.

Callers check this value before they use a capability. If a step lacks the capability, its method
raises the error that the value contains.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal, NoReturn, TypeAlias, TypeVar

from specviz.errors import PairError

_Offered = TypeVar("_Offered")


@dataclass(frozen=True, slots=True)
class Missing:
    """Why a step lacks a capability (without a period), and what to do. Always falsy."""

    reason: str
    remedy: str

    def __bool__(self) -> bool:
        return False


Offered: TypeAlias = Literal[True] | Missing


class HiddenStates(Enum):
    """The hidden states that a drafter requests. A drafter class may write the value ``True``."""

    FINAL = True  # of the last layer, after the final norm


FINAL_ONLY = frozenset({HiddenStates.FINAL})


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCapabilities:
    hidden_states: frozenset[HiddenStates] | Missing
    trees: Offered
    exits: range | Missing  # numbers of first layers after which the model can exit
    device_rounds: Offered  # rounds of this model that run on the device


def require(offered: _Offered | Missing) -> _Offered:
    """Return ``offered``; raise PairError if it is ``Missing``."""
    if isinstance(offered, Missing):
        refuse(offered)
    return offered


def refuse(offered: object) -> NoReturn:
    """Raise the PairError of a ``Missing`` capability."""
    assert isinstance(offered, Missing), "a declared capability is implemented"
    raise PairError(f"{offered.reason}.", remedy=offered.remedy)


def missing_reason(offered: object) -> str:
    """Return why a capability is missing, or "" if it is not missing."""
    return offered.reason if isinstance(offered, Missing) else ""
