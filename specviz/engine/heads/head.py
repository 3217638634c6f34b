"""The interface of drafting heads.

Row t of a head pairs the target's hidden state at token t with token t + 1. In heads with
``shift_ids`` 0, row t pairs the state with token t, as in the training of these heads. A text of n
tokens has rows 0 to n - 2, since the target has not processed the newest token yet. The head
computes each of these rows once, from the target's states. While drafting, it computes further rows
from its own states. These rows are speculative: they are dropped before the next round.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, Literal, Protocol, Self, TypeVar

import torch

from specviz.engine.model.product import Product
from specviz.engine.model.products import product_of
from specviz.engine.model.step_capabilities import HiddenStates, Missing, Offered, refuse
from specviz.values import Value

HeadKind = Literal["eagle", "eagle3", "mtp", "medusa", "dflash"]
NO_TREES = Missing("This head does not draft trees", "Draft a chain of candidates.")


class TargetParts(Value, eq=False):
    """The parts and sizes of a target that its heads use."""

    name: str
    layers: int
    width: int  # of the hidden states
    vocabulary: int  # rows of the embedding; some may be padding
    config: Any  # of transformers, or a ``PlainConfig``
    embed: Callable[[torch.Tensor], torch.Tensor]  # token ids [n] to [n, width]
    output: Callable[[torch.Tensor], torch.Tensor]  # [n, width] to logits [n, vocabulary]
    like: torch.Tensor  # any tensor of the head's device and dtype
    product: Callable[[torch.Tensor, torch.Tensor | None], Product] = product_of


class HeadWeights(Protocol):
    @property
    def parameters(self) -> Sequence[torch.Tensor]:
        """Return the head's own weights that a step reads, without its embedding."""
        ...


class HeadSettings(Protocol):
    """Immutable settings that a head's files may omit or misstate."""

    @property
    def states(self) -> HiddenStates:
        """Return the target's hidden states that the head reads."""
        ...


Weights = TypeVar("Weights", bound=HeadWeights)
Settings = TypeVar("Settings", bound=HeadSettings)


class Head(ABC, Generic[Weights, Settings]):
    """A head's weights and settings, shared by all runs of a pair.

    ``notices``: sentences about settings that the head's files leave open.
    """

    kind: ClassVar[HeadKind]
    method: ClassVar[str]  # the draft method, as in ``record.drafters``

    def __init__(
        self,
        weights: Weights,
        target: TargetParts,
        settings: Settings,
        notices: tuple[str, ...] = (),
    ) -> None:
        self.weights = weights
        self.target = target
        self.settings = settings
        self.notices = notices
        self._check_settings()

    def _check_settings(self) -> None:
        """Raise PairError if the weights or the target do not fit the settings."""

    @property
    def states(self) -> HiddenStates:
        return self.settings.states

    @property
    def parameters(self) -> Sequence[torch.Tensor]:
        return self.weights.parameters

    @property
    def products(self) -> Sequence[Product]:
        """Return the matrix products that ``target.product`` made for the head."""
        return ()

    @property
    def reads_own_output(self) -> bool:
        """Return whether the head drafts token by token with its own output matrix.

        If it does, each candidate's step reads all ``parameters`` and no other weights.
        """
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
        """Return whether the head's runs implement ``branch``, which drafts trees."""
        return NO_TREES

    def with_settings(self, settings: Settings) -> Self:
        """Return a head with other settings and the same weights.

        Raises:
            PairError: A setting needs weights or target layers that do not exist.
        """
        return type(self)(self.weights, self.target, settings, self.notices)

    @abstractmethod
    def start(self, capacity: int) -> HeadRun:
        """Return the head with empty caches for a text of at most ``capacity`` tokens."""


class HeadRun(ABC):
    """A head in one run, with its caches.

    Rows that the head computes for candidates are speculative: ``begin`` and ``forget`` drop them.

    Logits are float32 ``[1, target.vocabulary]``, indexed by the target's token ids. They are -inf
    for tokens that the head cannot propose. The caller removes the padding columns.
    """

    @property
    @abstractmethod
    def length(self) -> int:
        """Return the number of cached rows that were computed from the target's states."""

    @abstractmethod
    def begin(self, token_ids: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        """Drop the speculative rows, add rows of the text; return logits for the first candidate.

        Args:
            token_ids: `[rows]`, for each state of ``states`` the token *after* the state's token.
                The last token is the text's newest token.
            states: `[rows, width * len(places)]`, the target's hidden states, oldest first.
        """

    @abstractmethod
    def go_on(self, token_id: torch.Tensor) -> torch.Tensor:
        """Return logits for the next candidate; ``token_id`` `[1]` is the previous candidate."""

    def branch(self, token_ids: torch.Tensor, parents: Sequence[int]) -> torch.Tensor:
        """Add nodes of a tree as speculative rows; return their logits `[num_nodes, vocabulary]`.

        A node attends to the rows of the text and to its ancestors. It continues from its parent's
        state, and its position is one after its parent's position.

        Args:
            parents: for each node the index of its parent among all nodes since ``begin``; -1 for
                the text's newest token. A parent must come from an earlier call.
        """
        del token_ids, parents
        refuse(NO_TREES)

    @abstractmethod
    def forget(self, count: int) -> None:
        """Drop all speculative rows, and then the last ``count`` rows."""
