"""Medusa: several small heads that read the target's final state at its last processed token.

A head consists of residual blocks and an output matrix. Head 0 proposes the first candidate, head 1
the second, and so on; no head depends on the other candidates. Files name their tensors as in the
authors' code, vLLM or text-generation-inference (TGI). Heads in TGI's Medusa v2 format use the
target's output matrix.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

import torch
import torch.nn.functional as F

from specviz.engine.heads.head import Head, HeadKind, HeadRun, TargetParts
from specviz.engine.heads.tensors import HeadTensors, read_head_tensors
from specviz.engine.model.step_capabilities import AFTER_NORM, HiddenStates, Offered
from specviz.engine.model.trees import OpenNodes
from specviz.errors import ModelFileError, PairError
from specviz.formats.heads import HeadFacts
from specviz.values import Value

_COPY_AGAIN = "Copy or download the head again."
_OWN_TARGET = "Use a head that was trained for this target."
_TOKEN_MAP = "token_map"
_SHARED_OUTPUT = "lm_head.weight"  # one for all heads: vLLM's ``original_lm_head``
_BLOCKS = (
    re.compile(r"(?P<prefix>(?:medusa_head\.)?)(?P<head>\d+)\.(?P<block>\d+)\.linear\.weight"),
    re.compile(
        r"(?P<prefix>(?:medusa_heads\.)?)blocks\.(?P<head>\d+)\.layers\.(?P<block>\d+)\.weight"
    ),
)


class MedusaSettings(Value):
    """Settings of Medusa heads that their files do not state."""

    place: int = AFTER_NORM
    first_head: int = 0  # the head that proposes the first candidate

    @property
    def states(self) -> HiddenStates:
        return HiddenStates((self.place,))


class _Block(Value, eq=False):
    weight: torch.Tensor  # [width, width]
    bias: torch.Tensor | None


class _OneHead(Value, eq=False):
    blocks: tuple[_Block, ...]
    output: torch.Tensor | None  # [proposable tokens, width]; None for the target's matrix


class _Weights(Value, eq=False):
    heads: tuple[_OneHead, ...]
    proposable: torch.Tensor | None

    @property
    def parameters(self) -> list[torch.Tensor]:
        blocks = [block for head in self.heads for block in head.blocks]
        found = [each for block in blocks for each in (block.weight, block.bias)]
        found += [head.output for head in self.heads]
        return list({id(each): each for each in found if each is not None}.values())


def open_medusa(facts: HeadFacts, target: TargetParts) -> MedusaHead:
    """Return a Medusa head with its weights, on the target's device and in its dtype.

    Raises:
        ModelFileError: A tensor is missing, unknown or has a shape that does not fit the target.
    """
    tensors, notices = read_head_tensors(facts, target.like)
    names = _block_names(tensors, facts.path.name)
    shared = _output(tensors, _SHARED_OUTPUT, target)
    heads = tuple(
        _OneHead(
            blocks=tuple(_block(tensors, name, target.width) for name in blocks),
            output=_output(tensors, _output_name(blocks), target) if shared is None else shared,
        )
        for blocks in names
    )
    rows = {None if each.output is None else len(each.output) for each in heads}
    if len(rows) > 1:
        raise ModelFileError(
            f"The heads of {facts.path.name} propose from vocabularies of different sizes.",
            remedy=_COPY_AGAIN,
        )
    proposable = _proposable(tensors, rows.pop(), target)
    tensors.finish()
    weights = _Weights(heads=heads, proposable=proposable)
    return MedusaHead(weights, target, MedusaSettings(), notices)


class MedusaHead(Head[_Weights, MedusaSettings]):
    """The heads of one Medusa file."""

    kind: ClassVar[HeadKind] = "medusa"
    method: ClassVar[str] = "medusa"

    def _check_settings(self) -> None:
        first = self.settings.first_head
        if not 0 <= first < len(self.weights.heads):
            raise PairError(f"There is no Medusa head {first}.", remedy="Choose another head.")

    @property
    def most_candidates(self) -> int:
        return len(self.weights.heads) - self.settings.first_head

    @property
    def proposable(self) -> torch.Tensor | None:
        return self.weights.proposable

    @property
    def trees(self) -> Offered:
        return True

    def start(self, capacity: int) -> _MedusaRun:
        del capacity  # the only state is one row
        return _MedusaRun(self, self.target.width)

    def logits(self, candidate: int, state: torch.Tensor) -> torch.Tensor:
        """Return the logits of one candidate from states `[1, width]`; candidate 0 is the first."""
        head = self.weights.heads[self.settings.first_head + candidate]
        for block in head.blocks:
            state = state + F.silu(F.linear(state, block.weight, block.bias))
        if head.output is None:
            return self.target.output(state).float()
        own = F.linear(state, head.output).float()
        if (kept := self.weights.proposable) is None:
            return own
        return own.new_full((1, self.target.vocabulary), -torch.inf).index_copy_(1, kept, own)


class _MedusaRun(HeadRun):
    def __init__(self, head: MedusaHead, width: int) -> None:
        self._head = head
        self._width = width
        self._length = 0
        self._state: torch.Tensor | None = None  # of the last row, [1, width]
        self._candidate = 0
        self._nodes = OpenNodes()

    @property
    def length(self) -> int:
        return self._length

    @torch.inference_mode()
    def begin(self, token_ids: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        assert states.shape == (len(token_ids), self._width)
        self._length += len(states)
        self._state = states[-1:]
        self._candidate = 0
        self._nodes = OpenNodes()
        return self._head.logits(0, self._state)

    @torch.inference_mode()
    def go_on(self, token_id: torch.Tensor) -> torch.Tensor:
        del token_id  # the heads do not depend on each other's candidates
        assert self._state is not None, "begin comes first"
        self._candidate += 1
        return self._head.logits(self._candidate, self._state)

    @torch.inference_mode()
    def branch(self, token_ids: torch.Tensor, parents: Sequence[int]) -> torch.Tensor:
        """Return the logits of the nodes; nodes of the same depth have the same logits."""
        del token_ids
        assert self._state is not None, "begin comes first"
        self._nodes.add(parents)
        depths = self._nodes.depths(len(parents))
        rows = {depth: self._head.logits(depth + 1, self._state) for depth in set(depths)}
        return torch.cat([rows[depth] for depth in depths])

    def forget(self, count: int) -> None:
        assert count <= self._length
        self._length -= count
        if count:
            self._state = None


def _block_names(tensors: HeadTensors, folder: str) -> tuple[tuple[str, ...], ...]:
    """Return the names of each head's block weights, in order."""
    found: dict[int, dict[int, str]] = {}
    for name in tensors.names():
        match = next(filter(None, (each.fullmatch(name) for each in _BLOCKS)), None)
        if match:
            found.setdefault(int(match["head"]), {})[int(match["block"])] = name
    counts = {len(blocks) for blocks in found.values()}
    numbered = all(sorted(each) == list(range(len(each))) for each in (found, *found.values()))
    if not found or not numbered or len(counts) > 1:
        raise ModelFileError(
            f"The Medusa heads in {folder} are missing, misnumbered or not equally deep.",
            remedy=_COPY_AGAIN,
        )
    return tuple(
        tuple(found[head][block] for block in range(len(found[head]))) for head in range(len(found))
    )


def _block(tensors: HeadTensors, name: str, width: int) -> _Block:
    bias = f"{name.removesuffix('weight')}bias"
    return _Block(weight=tensors.take(name, width, width), bias=tensors.take_optional(bias, width))


def _output_name(blocks: tuple[str, ...]) -> str:
    """Return the name of a head's output matrix, given the names of its block weights."""
    match = next(filter(None, (each.fullmatch(blocks[0]) for each in _BLOCKS)))
    if "blocks." in blocks[0]:
        return f"{match['prefix']}lm_heads.{match['head']}.weight"
    return f"{match['prefix']}{match['head']}.{len(blocks)}.weight"


def _output(tensors: HeadTensors, name: str, target: TargetParts) -> torch.Tensor | None:
    shape = tensors.shape(name)
    if shape is None:
        return None
    if shape[0] > target.vocabulary:
        raise ModelFileError(
            f"{name} has {shape[0]} rows, but {target.name} has only {target.vocabulary} tokens.",
            remedy=_OWN_TARGET,
        )
    return tensors.take(name, shape[0], target.width)


def _proposable(tensors: HeadTensors, rows: int | None, target: TargetParts) -> torch.Tensor | None:
    """Return for each row of the heads' output matrices the target's token id.

    Return None if row i has id i and every token of the target has a row.
    """
    if _TOKEN_MAP not in tensors:
        if rows is None or rows == target.vocabulary:
            return None
        return torch.arange(rows, device=target.like.device)  # the target's other rows are padding
    count = target.vocabulary if rows is None else rows
    kept = tensors.take(_TOKEN_MAP, count).long()
    if not bool(((kept >= 0) & (kept < target.vocabulary)).all()) or len(kept.unique()) < count:
        raise ModelFileError(
            f"{_TOKEN_MAP} has token ids that are repeated or not in {target.name}.",
            remedy=_OWN_TARGET,
        )
    return kept
