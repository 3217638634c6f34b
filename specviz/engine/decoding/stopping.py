"""When drafting ends before γ candidates.

Whether to go on may depend on what was drafted so far and on rounds that are over, never on what
would be drafted next; a candidate that was drafted is judged. So the text keeps the target's law.
"""

from __future__ import annotations

from typing import Protocol

import torch

from specviz.record.run_config import RunConfig
from specviz.record.trace import DraftingCosts


class Stopper(Protocol):
    def goes_on(self, drafted: int) -> bool:
        """Whether to draft one more after so many candidates of this round."""
        ...

    def saw(self, logits: torch.Tensor, law: torch.Tensor, token: torch.Tensor) -> None:
        """A candidate [1] was drafted, of this law [1, vocabulary]."""
        ...

    def learn(self, index: int, accepted: int, emitted: int) -> None:
        """What became of the round of this index."""
        ...

    def go_back(self, index: int) -> None:
        """To the moment before the round of this index."""
        ...


class WhileSure:
    """Ends after a candidate that the draft gives less than the threshold.

    At temperature 0 the draft's law is a one-hot, which is always sure; there it is the law at 1.
    """

    def __init__(self, threshold: float, *, greedy: bool) -> None:
        self._threshold = threshold
        self._greedy = greedy
        self._sure = True

    def goes_on(self, drafted: int) -> bool:
        return drafted == 0 or self._sure

    def saw(self, logits: torch.Tensor, law: torch.Tensor, token: torch.Tensor) -> None:
        shown = logits.softmax(-1) if self._greedy else law
        self._sure = float(shown[0, token[0]]) >= self._threshold

    def learn(self, index: int, accepted: int, emitted: int) -> None:
        """It knows only the round it is in."""

    def go_back(self, index: int) -> None:
        """It knows only the round it is in."""


def make_stopper(config: RunConfig, costs: DraftingCosts | None) -> Stopper | None:
    """None where nothing ends drafting before γ."""
    del costs
    until = config.until
    if until.stopping.name == "confidence":
        return WhileSure(until.threshold, greedy=config.greedy)
    return None
