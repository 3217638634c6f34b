"""Judging: turn a proposal, the target's distributions and random numbers into verdicts.

``ChainJudge`` judges candidate by candidate. On a CPU with compiled kernels, one kernel judges a
chain by the lossless rule. Otherwise, the judge decides on the device and transfers all values to
the host in one copy. Other judges are in ``block_verification.py``, ``token_matching.py`` and
``tree_verification.py``; ``judges.py`` selects one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.sampling import (
    EXTRA_SLOT,
    Draws,
    Sampler,
    kernels_can_read,
    on_one_thread,
    widest_float,
)
from specviz.engine.decoding.verify import Lossless, Rule, verify
from specviz.kernels.draws import judge_chain
from specviz.values import Value


class TargetToken(Value):
    """The token that the target sampled at a candidate's position.

    With shared noise, the sampled token is the first to arrive in a race (see ``sampling.race``).
    ``margin`` is how much later the second token arrives, as a fraction of the sampled token's
    arrival time.
    """

    token_id: int
    target_prob: float
    noise: float | None = None
    margin: float | None = None


class Verdicts(Value):
    """The verdicts of a round and the probabilities that the trace records, as host values.

    ``path``: indices of the accepted candidates, in order. ``rejected``: indices of the candidates
    that were tested and rejected. ``judged_jointly``: the candidates were judged jointly, not one
    by one. The trace has two words for candidates in neither list: "cut" if they were judged
    jointly and the round emits its extra token, otherwise "discarded".
    """

    token_ids: list[int]
    draft_probs: list[float]
    target_probs: list[float]
    expected: list[float]  # acceptance probability at each position, before its token is drawn
    path: tuple[int, ...]
    rejected: tuple[int, ...]
    extra_id: int
    extra_draft_prob: float
    extra_target_prob: float
    extra_noise: float | None = None
    judged_jointly: bool = False
    joint: list[float] | None = None
    coins: list[float] | None = None
    noises: list[float] | None = None
    rivals: list[TargetToken | None] | None = None
    # Trees only: the indices of the tested candidates, and what remained of the target's
    # distribution when each was tested, [num_tested, vocabulary].
    tested: tuple[int, ...] = ()
    remaining: torch.Tensor | None = None
    # For each verdict, the candidate whose uniform decided it; None if each decided its own.
    decided_with: list[int] | None = None

    @property
    def accepted_ids(self) -> list[int]:
        return [self.token_ids[number] for number in self.path]


class Judge(Protocol):
    def judge(self, proposal: Proposal, probs: torch.Tensor, draws: Draws) -> Verdicts:
        """Return the verdicts on the candidates.

        ``probs`` `[num_candidates + 1, vocabulary]`: the target's distributions after the text and
        after each candidate.
        """
        ...


class ChainJudge:
    """Judges the candidates of a chain one by one, up to the first rejection."""

    def __init__(self, rule: Rule, sampler: Sampler) -> None:
        self._rule = rule
        self._sampler = sampler

    def judge(self, proposal: Proposal, probs: torch.Tensor, draws: Draws) -> Verdicts:
        count = proposal.token_ids.shape[0]
        if type(self._rule) is Lossless and kernels_can_read(proposal.probs, probs):
            values = np.empty(4 * count + 4)
            judge_chain(
                proposal.probs.numpy(),
                probs.numpy(),
                proposal.token_ids.numpy(),
                draws.verdicts(count).contiguous().numpy(),
                draws.uniforms[EXTRA_SLOT].item(),
                self._sampler.greedy,
                values,
            )
            return verdicts_of(values.tolist(), count)
        return verdicts_of(self.decide(proposal, probs, draws).values.tolist(), count)

    @on_one_thread
    def decide(self, proposal: Proposal, probs: torch.Tensor, draws: Draws) -> Decision:
        """Return the decision as device tensors, without waiting for the device."""
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
        # Rows are selected by index tensors: indexing with brackets would wait for the device.
        draft_row = row_at(proposal.probs, at.clamp(max=count - 1)) if count else probs[0]
        parts = (
            proposal.token_ids,
            found.draft_probs,
            found.target_probs,
            expected,
            torch.stack((at, extra)),
            torch.stack((row_at(draft_row, extra), row_at(row_at(probs, at), extra))),
        )
        return Decision(at, extra, torch.cat([part.to(widest_float(probs)) for part in parts]))


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """The verdicts on a chain as device tensors."""

    num_accepted: torch.Tensor  # []
    extra: torch.Tensor  # []
    values: torch.Tensor  # [4 * num_candidates + 4], for ``verdicts_of``


def verdicts_of(values: list[float], count: int, tested: int | None = None) -> Verdicts:
    """Return the verdicts on ``count`` candidates.

    ``values``: a decision's ``values`` after their copy to the host. ``tested``: how many
    candidates fit into the text; the others count as untested.
    """
    count_tested = count if tested is None else min(count, tested)
    rows = [values[row * count : row * count + count_tested] for row in range(4)]
    num_accepted = min(int(values[-4]), count_tested)
    return Verdicts(
        token_ids=[int(value) for value in rows[0]],
        draft_probs=rows[1],
        target_probs=rows[2],
        expected=rows[3],
        path=tuple(range(num_accepted)),
        rejected=(num_accepted,) if num_accepted < count_tested else (),
        extra_id=int(values[-3]),
        extra_draft_prob=values[-2],
        extra_target_prob=values[-1],
    )


def row_at(rows: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Return ``rows[index]`` without waiting for the device; ``index`` is a device tensor `[]`."""
    return rows.index_select(0, index[None])[0]
