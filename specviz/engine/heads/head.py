"""The interface of drafting heads.

A head's row pairs the target's hidden state at a token of the text with the *next* token. The rows
of a text of n tokens are 0 to n - 2: the target has not read the newest token yet. A head reads
each row once, from the target's states; rows that it computed from its own states while drafting
are dropped before the next round.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch

from specviz.engine.model.product import Product
from specviz.engine.model.products import product_of
from specviz.engine.model.step_capabilities import HiddenStates, Missing, Offered, refuse

HeadKind = Literal["eagle", "eagle3", "mtp", "medusa", "dflash"]
NO_TREES = Missing("This head does not draft trees", "Draft a chain of candidates.")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TargetParts:
    """What a head uses of its target."""

    name: str
    layers: int
    width: int  # of the hidden states
    vocabulary: int  # rows of the embedding; some may be padding
    config: Any  # of transformers, or a ``PlainConfig``
    embed: Callable[[torch.Tensor], torch.Tensor]  # token ids [n] to [n, width]
    output: Callable[[torch.Tensor], torch.Tensor]  # [n, width] to logits [n, vocabulary]
    like: torch.Tensor  # any tensor of the head's device and dtype
    product: Callable[[torch.Tensor, torch.Tensor | None], Product] = product_of


class Head(ABC):
    """A head's weights and settings, shared by all runs of a pair."""

    kind: ClassVar[HeadKind]
    method: ClassVar[str]  # the draft method, as in ``record.drafters``
    target: TargetParts
    settings: Any  # frozen: the choices of this kind of head that its files may state wrongly
    notices: tuple[str, ...] = ()  # about what its files left open
    made_for: str = ""  # the target that its files name; empty if they name none

    @property
    @abstractmethod
    def states(self) -> HiddenStates:
        """Return the target's hidden states that the head reads."""

    @property
    @abstractmethod
    def parameters(self) -> Sequence[torch.Tensor]:
        """Return the head's own weights that a step reads, all but an embedding."""

    @property
    def products(self) -> Sequence[Product]:
        """Return the products that were made by ``target.product``."""
        return ()

    @property
    def reads_own_output(self) -> bool:
        """Return whether each candidate is a step with all of ``parameters`` and no others."""
        return False

    @property
    @abstractmethod
    def most_candidates(self) -> int | None:
        """Return how many candidates one round can have; None if there is no limit."""

    @property
    @abstractmethod
    def proposable(self) -> torch.Tensor | None:
        """Return the target's token ids that the head can propose; None if it can propose all."""

    @property
    def trees(self) -> Offered:
        """Return whether the head's runs have ``branch``."""
        return NO_TREES

    @abstractmethod
    def with_settings(self, settings: Any) -> Head:
        """Return a head with other settings and the same weights."""

    @abstractmethod
    def start(self, capacity: int) -> HeadRun:
        """Return the head with empty caches for a text of at most ``capacity`` tokens."""


class HeadRun(ABC):
    """A head in one run, with its caches.

    Logits are float32 ``[1, target.vocabulary]`` in the target's token ids; -inf for tokens that
    the head cannot propose. The caller cuts off padding.
    """

    @property
    @abstractmethod
    def length(self) -> int:
        """Return the number of rows in the cache that were read from the target's states."""

    @abstractmethod
    def begin(self, token_ids: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        """Drop the speculative rows, read new rows, and return logits for the first candidate.

        Args:
            token_ids: `[rows]`, the tokens *after* those of ``states``; the last one is the text's
                newest token.
            states: `[rows, width * len(places)]`, the target's hidden states, oldest first.
        """

    @abstractmethod
    def go_on(self, token_id: torch.Tensor) -> torch.Tensor:
        """Return logits for the next candidate, given the one just chosen, `[1]`."""

    def branch(self, token_ids: torch.Tensor, parents: Sequence[int]) -> torch.Tensor:
        """Read speculative nodes of a tree, and return the logits `[num_nodes, vocabulary]`.

        A node attends to the rows of the text and to its ancestors; its position follows its
        parent's. It continues from the state of its parent.

        Args:
            parents: for each node the index of its parent among all nodes since ``begin``; -1 for
                the text's newest token. A parent was read in an earlier call.
        """
        del token_ids, parents
        refuse(NO_TREES)

    @abstractmethod
    def forget(self, count: int) -> None:
        """Drop the speculative rows and the last ``count`` rows read from the target's states."""
