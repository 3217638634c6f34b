"""The step: the only interface between the decoding loop and a model.

A step feeds tokens, caches their keys and values, and can forget the last tokens. The cache may
contain open nodes of a tree after the text. Open nodes must be kept or dropped before other tokens
are fed or forgotten.

Implementations: *library* (through transformers: ``library_step.py``, or ``recurrent_step.py`` for
families with recurrent layers), *lean* (``lean.py``, in torch or compiled), *static*
(``static_step.py``, for rounds on the device) and *translated* (``translated_step.py``). State
stays on the device; only the translated step makes the host wait for the device.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

import torch

from specviz.engine.model.step_capabilities import HiddenStates, StepCapabilities, refuse

if TYPE_CHECKING:
    from specviz.engine.model.static_step import StaticStep


class Step(ABC):
    """A model with its KV cache.

    Every step can feed and forget tokens. ``capabilities`` lists what else the step can do; the
    methods of missing capabilities raise PairError.
    """

    @property
    @abstractmethod
    def capabilities(self) -> StepCapabilities: ...

    @property
    @abstractmethod
    def length(self) -> int:
        """Return the number of text tokens in the cache, without open nodes."""

    @property
    @abstractmethod
    def device(self) -> torch.device: ...

    @abstractmethod
    def feed(self, token_ids: torch.Tensor, num_logits: int) -> torch.Tensor:
        """Append tokens `[num_tokens]`, and return the logits of the last ``num_logits`` tokens.

        Returns:
            float32 `[num_logits, vocabulary]`; meaningless if ``num_logits`` is 0 (a prefill).
        """

    @abstractmethod
    def forget(self, count: int) -> None:
        """Drop the last ``count`` tokens from the cache."""

    def catch_up(self) -> None:
        """Feed again the tokens that a rollback left pending.

        Only models with recurrent layers have pending tokens.

        Without this call, the next feed processes the pending tokens together with the new tokens.
        """
        return

    def copy_rows(self, other: Step, count: int) -> None:
        """Copy the first ``count`` cache rows of ``other``, another step of this model.

        If this step cannot copy the rows, its cache stays empty.
        """
        del other, count

    def request_hidden(self, states: HiddenStates) -> None:
        """Store these hidden states for all tokens that later calls feed.

        Raises:
            PairError: the step does not provide hidden states.
        """
        del states
        refuse(self.capabilities.hidden_states)

    @property
    def hidden(self) -> torch.Tensor | None:
        """Return the requested hidden states `[num_tokens, width]` of the latest feed.

        Without a request, return None, or the final hidden states of some of the last tokens.
        """
        return None

    def branch(self, token_ids: torch.Tensor, parents: Sequence[int]) -> torch.Tensor:
        """Append nodes to the tree that follows the text, and return their logits.

        A node attends to the text and its ancestors; its position is the text's length plus its
        depth.

        Args:
            parents: for each node the index of its parent; -1 for the text's last token. All open
                nodes are numbered in the order in which they were appended, over all calls. A
                parent comes before its children.

        Returns:
            float32 `[num_nodes, vocabulary]`.

        Raises:
            PairError: the step does not support trees.
        """
        del token_ids, parents
        refuse(self.capabilities.trees)

    def keep(self, nodes: Sequence[int]) -> None:
        """Append these open nodes, which must form a path, to the text; drop the other nodes.

        Their cache rows are moved in place; the cache is not copied.
        """
        del nodes
        refuse(self.capabilities.trees)

    def early_exit(self, layers: int) -> Step:
        """Return a step of the first ``layers`` layers, the final norm and the output matrix.

        The exit uses this step's cache and starts at this step's length. Whenever this step's
        length changes, the exit gets the new length. This step overwrites the cache rows of tokens
        that were fed to the exit.

        Raises:
            PairError: the step does not support an exit after these layers.
        """
        del layers
        refuse(self.capabilities.exits)


class StepWeights(ABC):
    """A model's weights in the form that its steps read; all runs of a pair share this object."""

    kind: ClassVar[Literal["library", "lean"]]

    @property
    @abstractmethod
    def capabilities(self) -> StepCapabilities:
        """Return the capabilities of the model's steps."""

    @abstractmethod
    def step(self, vocabulary: int, capacity: int) -> Step:
        """Return a step with an empty cache for at most ``capacity`` tokens."""

    def with_fused_kernels(self) -> StepWeights | None:
        """Return these weights, set to use Triton kernels in static steps; None if unsupported."""
        return None

    def static_step(self, vocabulary: int, rows: int) -> StaticStep:
        """Return a step with a static cache, whose passes can be captured in CUDA graphs.

        Raises:
            PairError: rounds of this model cannot run on the device.
        """
        del vocabulary, rows
        refuse(self.capabilities.device_rounds)
