"""Block verification: one decision on all candidates of a chain (Sun et al. 2024).

A weight goes along the chain, p_i = min(1, p_(i-1) target/draft). At every place but the last the
coin is Z_i / (Z_i + 1 - p_i) with Z_i = sum max(0, p_i target - draft) at the next place, at the
last p itself. The last candidate whose coin falls well stands, with all before it, whatever the
coins before it; what is drawn then comes from max(0, p target - draft).
"""

from __future__ import annotations

import torch

from specviz.engine.decoding.judging import Verdicts
from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.sampling import EXTRA_SLOT, Draws, Sampler, on_one_thread, wide


class Together:
    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    @on_one_thread
    def judge(self, proposal: Proposal, probs: torch.Tensor, draws: Draws) -> Verdicts:
        ids, count = proposal.token_ids, proposal.token_ids.shape[0]
        draft, target = proposal.probs.to(wide(probs)), probs.to(wide(probs))
        own_draft = draft.gather(-1, ids[:, None])[:, 0]
        own_target = target[:count].gather(-1, ids[:, None])[:, 0]
        weights = joint_weights((own_target / own_draft).tolist())
        left = leftovers(weights, draft, target)
        coins = coins_of(weights, left.sum(-1).tolist()[:count])
        uniforms = draws.verdicts(count).tolist()
        stand = max((i + 1 for i in range(count) if uniforms[i] < coins[i]), default=0)
        law = left[stand] if left[stand].any() else target[stand]
        extra = int(self._sampler.draw(law / law.sum(), draws.uniforms[EXTRA_SLOT]))
        return Verdicts(
            token_ids=ids.tolist(),
            draft_probs=own_draft.tolist(),
            target_probs=own_target.tolist(),
            expected=torch.minimum(draft, target[:count]).sum(-1).tolist(),
            path=tuple(range(stand)),
            fallen=(),
            extra_id=extra,
            extra_draft_prob=float(draft[min(stand, count - 1), extra]) if count else 0.0,
            extra_target_prob=float(target[stand, extra]),
            judged_together=True,
            joint=weights[1:],
            coins=coins,
        )


def joint_weights(ratios: list[float]) -> list[float]:
    """p_0 = 1, p_1, …"""
    weights = [1.0]
    for ratio in ratios:
        weights.append(min(1.0, weights[-1] * ratio))
    return weights


def leftovers(weights: list[float], draft: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """max(0, p_i target - draft) [count + 1, vocabulary], at the last place the target itself."""
    scale = torch.tensor(weights, dtype=target.dtype, device=target.device)[:, None]
    left = scale * target
    left[:-1] -= draft
    left.clamp_(min=0.0)
    left[-1] = target[-1]
    return left


def coins_of(weights: list[float], totals: list[float]) -> list[float]:
    """``totals[i]``: Z_i, of the place behind candidate i."""
    coins: list[float] = []
    last = len(weights) - 1
    for place in range(1, last):
        missing = totals[place] + 1.0 - weights[place]
        coins.append(totals[place] / missing if missing > 0.0 else 1.0)
    return [*coins, weights[last]] if last else []
