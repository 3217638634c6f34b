"""The optional capabilities of a model step beyond feeding and forgetting tokens.

Callers check ``StepCapabilities`` before they use a capability. If a step lacks the capability, the
step's method raises a ``PairError`` with the reason and remedy of ``Missing``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn, TypeAlias, TypeVar

import torch

from specviz.errors import PairError
from specviz.values import Value

_Offered = TypeVar("_Offered")


@dataclass(frozen=True, slots=True)
class Missing:
    """The reason (without a period) why a capability is missing, and the remedy.

    ``bool`` of this value is False.
    """

    reason: str
    remedy: str

    def __bool__(self) -> bool:
        return False


Offered: TypeAlias = Literal[True] | Missing


AFTER_NORM = -1  # the place after the final norm


@dataclass(frozen=True, slots=True)
class HiddenStates:
    """The hidden states that a drafter requests, concatenated in the order of ``places``.

    Place i is the residual stream that enters layer i. In a model of n layers, place n is the
    residual stream before the final norm, and place ``AFTER_NORM`` is the output of this norm.
    """

    places: tuple[int, ...]


FINAL = HiddenStates((AFTER_NORM,))


def joined(states: Sequence[torch.Tensor]) -> torch.Tensor:
    """Concatenate the hidden states of several layers along the last dimension."""
    return states[0] if len(states) == 1 else torch.cat(list(states), -1)


class StepCapabilities(Value):
    hidden_states: range | Missing  # places whose hidden states the step can keep
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


def require_places(offered: range | Missing, states: HiddenStates) -> None:
    """Raise PairError if ``states`` names a layer whose states the step does not offer."""
    layers = require(offered).stop - 1
    if outside := [place for place in states.places if place not in require(offered)]:
        raise PairError(
            f"The drafter reads layer {outside[0]} of the target, whose last layer is {layers}.",
            remedy="Choose a drafter made for this target.",
        )


def missing_reason(offered: object) -> str:
    """Return why a capability is missing, or "" if it is not missing."""
    return offered.reason if isinstance(offered, Missing) else ""
