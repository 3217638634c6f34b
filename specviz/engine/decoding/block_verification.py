"""Block verification: all candidates of a chain are judged jointly (Sun et al. 2024).

The joint weight of candidate i is p_i = min(1, p_(i-1) r_i), with p_0 = 1. Here r_i is the
candidate's target probability divided by its draft probability. Each candidate has a test, and the
probability that the test succeeds is called the candidate's coin: Z_i / (Z_i + 1 - p_i), where Z_i
is the sum of max(0, p_i target - draft) over all tokens at the next position. No candidate follows
the last one, so its coin is its joint weight. The round accepts all candidates up to the last one
whose test succeeds, even if earlier tests failed. With n accepted candidates, the extra token is
drawn from max(0, p_n target - draft), normalised, or from the target if all are accepted.
"""

from __future__ import annotations

import torch

from specviz.engine.decoding.judging import Verdicts
from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.sampling import EXTRA_SLOT, Draws, Sampler, on_one_thread, widest_float


class BlockJudge:
    """Implements ``judging.Judge`` for a chain by block verification."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    @on_one_thread
    def judge(self, proposal: Proposal, probs: torch.Tensor, draws: Draws) -> Verdicts:
        ids, count = proposal.token_ids, proposal.token_ids.shape[0]
        draft, target = proposal.probs.to(widest_float(probs)), probs.to(widest_float(probs))
        own_draft = draft.gather(-1, ids[:, None])[:, 0]
        own_target = target[:count].gather(-1, ids[:, None])[:, 0]
        weights = joint_weights((own_target / own_draft).tolist())
        residual = residuals(weights, draft, target)
        coins = acceptance_coins(weights, residual.sum(-1).tolist()[:count])
        uniforms = draws.verdicts(count).tolist()
        num_accepted = max((i + 1 for i in range(count) if uniforms[i] < coins[i]), default=0)
        row = residual[num_accepted] if residual[num_accepted].any() else target[num_accepted]
        extra = int(self._sampler.draw(row / row.sum(), draws.uniforms[EXTRA_SLOT]))
        return Verdicts(
            token_ids=ids.tolist(),
            draft_probs=own_draft.tolist(),
            target_probs=own_target.tolist(),
            expected=torch.minimum(draft, target[:count]).sum(-1).tolist(),
            path=tuple(range(num_accepted)),
            rejected=(),
            extra_id=extra,
            extra_draft_prob=float(draft[min(num_accepted, count - 1), extra]) if count else 0.0,
            extra_target_prob=float(target[num_accepted, extra]),
            judged_jointly=True,
            joint=weights[1:],
            coins=coins,
        )


def joint_weights(ratios: list[float]) -> list[float]:
    """Return 1 and then the joint weight of each candidate.

    A candidate's weight is the previous weight times its ratio, but at most 1. ``ratios``: each
    candidate's target probability divided by its draft probability.
    """
    weights = [1.0]
    for ratio in ratios:
        weights.append(min(1.0, weights[-1] * ratio))
    return weights


def residuals(weights: list[float], draft: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the distributions `[count + 1, vocabulary]` of the extra token, not normalised.

    Row i applies if i candidates are accepted. It is max(0, p_i target - draft), where p_i is
    ``weights[i]``; the last row is the target's distribution.
    """
    scale = torch.tensor(weights, dtype=target.dtype, device=target.device)[:, None]
    residual = scale * target
    residual[:-1] -= draft
    residual.clamp_(min=0.0)
    residual[-1] = target[-1]
    return residual


def acceptance_coins(weights: list[float], totals: list[float]) -> list[float]:
    """Return for each candidate the probability that its test in block verification succeeds.

    For candidate i, counted from 1, the probability is Z_i / (Z_i + 1 - p_i), where p_i is
    ``weights[i]`` and Z_i is ``totals[i]``, the sum of row i of ``residuals``. For the last
    candidate, the probability is p_i.
    """
    coins: list[float] = []
    last = len(weights) - 1
    for index in range(1, last):
        denominator = totals[index] + 1.0 - weights[index]
        coins.append(totals[index] / denominator if denominator > 0.0 else 1.0)
    return [*coins, weights[last]] if last else []
