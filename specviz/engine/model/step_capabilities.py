"""What a step offers beyond feeding and forgetting, declared as a value.

Callers ask this value before they need a capability. A step that lacks one refuses with the error
that the value names.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal, NoReturn, TypeAlias, TypeVar

from specviz.errors import PairError

_Offered = TypeVar("_Offered")


@dataclass(frozen=True, slots=True)
class Missing:
    """Why a step lacks a capability, without a period, and what to do. False in a condition."""

    reason: str
    remedy: str

    def __bool__(self) -> bool:
        return False


Offered: TypeAlias = Literal[True] | Missing


class HiddenStates(Enum):
    """The hidden states that a drafter reads. Its class may also write the value, ``True``."""

    FINAL = True  # of the last layer, after the final norm


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCapabilities:
    hidden_states: Offered  # those of ``HiddenStates``
    trees: Offered
    exits: range | Missing  # numbers of first layers after which the model can exit
    device_rounds: Offered  # its model's rounds can be played on the device


def require(offered: _Offered | Missing) -> _Offered:
    """Return what a step offers; raise PairError if it lacks it."""
    if isinstance(offered, Missing):
        refuse(offered)
    return offered


def refuse(offered: object) -> NoReturn:
    """Raise PairError for a capability that a step does not implement and does not declare."""
    assert isinstance(offered, Missing), "a declared capability is implemented"
    raise PairError(f"{offered.reason}.", remedy=offered.remedy)


def missing_reason(offered: object) -> str:
    """Return why a capability is missing; empty if it is not."""
    return offered.reason if isinstance(offered, Missing) else ""
