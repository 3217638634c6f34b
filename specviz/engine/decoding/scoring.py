"""Acceptance along a given text: what the pair would have made of words that are known.

At the token x that was emitted, the chance that it was an accepted candidate is
min(1, draft(x) / target(x)). One target text serves every gamma, but only its own settings.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from specviz.engine.decoding.sampling import Sampler
from specviz.engine.model.memory import memory_errors
from specviz.engine.model.pair import Pair
from specviz.engine.model.steps import Step
from specviz.record.trace import RunConfig

_CHUNK = 256


@torch.inference_mode()
def text_odds(
    pair: Pair, prompt_ids: Sequence[int], emitted: Sequence[int], config: RunConfig
) -> tuple[float, ...]:
    """The odds at every emitted token, for the draft model and the lossless rule."""
    sampler = Sampler(config)
    ids = torch.tensor([*prompt_ids, *emitted])
    with memory_errors(pair.device):
        draft, target = pair.draft_step(len(ids) + 1), pair.target_step(len(ids) + 1)
        first = len(prompt_ids) - 1
        if first:
            draft.feed(ids[:first].to(draft.device), 0)
            target.feed(ids[:first].to(target.device), 0)
        odds: list[float] = []
        for begin in range(first, len(ids) - 1, _CHUNK):
            end = min(begin + _CHUNK, len(ids) - 1)
            following = ids[begin + 1 : end + 1].to(pair.device)
            draft_own = _own_probs(draft, ids[begin:end], following, sampler)
            target_own = _own_probs(target, ids[begin:end], following, sampler)
            ratio = draft_own / target_own.clamp(min=1e-30)
            odds.extend(ratio.clamp(max=1.0).tolist())
    return tuple(odds)


def _own_probs(
    step: Step, fed: torch.Tensor, following: torch.Tensor, sampler: Sampler
) -> torch.Tensor:
    probs = sampler.probs(step.feed(fed.to(step.device), len(fed)).to(following.device))
    return probs.gather(-1, following[:, None])[:, 0]
