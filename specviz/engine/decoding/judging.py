"""Judging: what becomes of a round's candidates, given what both models think of them.

A judge is handed the proposal, the target's laws behind the text and behind every candidate, and
the round's random numbers. Each way to judge is one body: candidate by candidate (here), all
together (``together.py``), by what the target says itself (``equal.py``), one sibling after the
other down a tree (``siblings.py``). The values come to the host in one transfer where the device
can decide by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.sampling import EXTRA_SLOT, Draws, Sampler, on_one_thread, wide
from specviz.engine.decoding.verify import Rule, verify


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetWord:
    """What the target said in a candidate's place. ``margin``: by how much, as a share, the second
    token came later than the first."""

    token_id: int
    target_prob: float
    noise: float | None = None
    margin: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """What was decided, in host values; probabilities are the recorded ones.

    ``path``: the candidates that stand, one behind the other; ``fallen``: those that were tested
    and do not. ``judged_together``: the others were judged, too, and are cut.
    """

    token_ids: list[int]
    draft_probs: list[float]
    target_probs: list[float]
    expected: list[float]  # acceptance at each candidate before it is drawn
    path: tuple[int, ...]
    fallen: tuple[int, ...]
    extra_id: int
    extra_draft_prob: float
    extra_target_prob: float
    extra_noise: float | None = None
    judged_together: bool = False
    joint: list[float] | None = None
    coins: list[float] | None = None
    noises: list[float] | None = None
    rivals: list[TargetWord | None] | None = None
    # Of a tree, the candidates that were tested, and the laws [tested, vocabulary] that the target
    # still asked for at their turns.
    tested: tuple[int, ...] = ()
    laws: torch.Tensor | None = None

    @property
    def accepted_ids(self) -> list[int]:
        return [self.token_ids[number] for number in self.path]


class Judge(Protocol):
    def judge(self, proposal: Proposal, probs: torch.Tensor, draws: Draws) -> Verdicts:
        """``probs`` [num_candidates + 1, vocabulary]: the target's laws behind the text, and behind
        each candidate."""
        ...


class OneByOne:
    """A chain, up to the first candidate that does not stand."""

    def __init__(self, rule: Rule, sampler: Sampler) -> None:
        self._rule = rule
        self._sampler = sampler

    def judge(self, proposal: Proposal, probs: torch.Tensor, draws: Draws) -> Verdicts:
        values = self.decide(proposal, probs, draws).values
        return verdicts_of(values.tolist(), proposal.token_ids.shape[0])

    @on_one_thread
    def decide(self, proposal: Proposal, probs: torch.Tensor, draws: Draws) -> Decision:
        """All on the device, which is asked for no value."""
        count = proposal.token_ids.shape[0]
        found = verify(
            self._rule,
            self._sampler,
            proposal.token_ids,
            proposal.probs,
            probs,
            draws.verdicts(count),
            draws.uniforms[EXTRA_SLOT],
        )
        at, extra = found.num_accepted, found.extra
        expected = self._rule.expected(proposal.probs, probs[:count])
        # Places are looked up by tensors: an index in brackets would wait for the device.
        draft_row = row_at(proposal.probs, at.clamp(max=count - 1)) if count else probs[0]
        parts = (
            proposal.token_ids,
            found.draft_probs,
            found.target_probs,
            expected,
            torch.stack((at, extra)),
            torch.stack((row_at(draft_row, extra), row_at(row_at(probs, at), extra))),
        )
        return Decision(at, extra, torch.cat([part.to(wide(probs)) for part in parts]))


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """What was decided on a chain, on the device."""

    num_accepted: torch.Tensor  # []
    extra: torch.Tensor  # []
    values: torch.Tensor  # [4 * num_candidates + 4], for ``verdicts_of``


def verdicts_of(values: list[float], count: int, tested: int | None = None) -> Verdicts:
    """A decision on ``count`` candidates, read. ``tested``: only so many of them count, since there
    is no room for more."""
    kept = count if tested is None else min(count, tested)
    rows = [values[row * count : row * count + kept] for row in range(4)]
    stand = min(int(values[-4]), kept)
    return Verdicts(
        token_ids=[int(value) for value in rows[0]],
        draft_probs=rows[1],
        target_probs=rows[2],
        expected=rows[3],
        path=tuple(range(stand)),
        fallen=(stand,) if stand < kept else (),
        extra_id=int(values[-3]),
        extra_draft_prob=values[-2],
        extra_target_prob=values[-1],
    )


def row_at(rows: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """The row, or the entry, at an index [] that the device knows."""
    return rows.index_select(0, index[None])[0]
