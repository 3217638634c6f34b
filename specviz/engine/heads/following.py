"""How likely a head's candidates are to be accepted along a text, by position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from specviz.engine.decoding.sampling import Sampler
from specviz.engine.heads.chains import EagleChains
from specviz.engine.heads.eagle import EagleHead
from specviz.engine.heads.head import Head
from specviz.engine.model.pair import Pair
from specviz.engine.model.step_capabilities import HiddenStates


class ReadText:
    """A text with the target's distributions and hidden states, for all heads of one target."""

    @torch.inference_mode()
    def __init__(
        self,
        pair: Pair,
        prompt_ids: Sequence[int],
        text_ids: Sequence[int],
        sampler: Sampler,
        places: Sequence[int],
    ) -> None:
        self.ids = torch.tensor([*prompt_ids, *text_ids], device=pair.device)
        self.first = len(prompt_ids)
        step = pair.target_step(len(self.ids) + 1)
        step.request_hidden(HiddenStates(tuple(places)))
        logits = step.feed(self.ids.to(step.device), len(self.ids)).to(pair.device)
        self.probs = sampler.probs(logits)  # row t: of token t + 1
        assert step.hidden is not None
        states = step.hidden.view(len(self.ids), len(places), -1)
        self._states = dict(zip(places, states.unbind(1), strict=True))

    def states(self, head: Head) -> torch.Tensor:
        """Return the states `[token, width * places]` that a head reads."""
        width = head.target.width  # a body adds columns
        parts = [self._states[place][:, :width] for place in head.states.places]
        return torch.cat(parts, -1)


@torch.inference_mode()
def acceptance_along(
    head: Head, text: ReadText, sampler: Sampler, depth: int, starts: Sequence[int]
) -> np.ndarray:
    """Return the acceptance probability `[start, position]` of the head's candidates.

    A round begins after each token number in ``starts``. Its candidates are the text's own tokens,
    so a position shows the head's distribution given that the earlier candidates were accepted.

    Args:
        depth: positions; fewer for a head with a limit.
    """
    depth = min(depth, head.most_candidates or depth)
    if isinstance(head, EagleHead):
        chains = EagleChains(head, text.ids, text.states(head), depth, starts)
        by_position = chains.logits()
    else:
        by_position = _one_by_one(head, text, depth, starts)
    rows = torch.tensor(starts, device=text.probs.device)
    found = list[np.ndarray]()
    for position, logits in enumerate(by_position):
        target = text.probs[rows + position]
        draft = sampler.probs(logits[:, : target.shape[-1]])
        found.append(torch.minimum(target, draft).sum(-1).double().cpu().numpy())
    return np.stack(found, 1)


def _one_by_one(
    head: Head, text: ReadText, depth: int, starts: Sequence[int]
) -> Iterator[torch.Tensor]:
    """Yield the logits `[start, vocabulary]` of each position, from one chain after the other."""
    run, states = head.start(len(text.ids) + depth + 1), text.states(head)
    chains = list[torch.Tensor]()
    for start in starts:
        new = slice(run.length, start)  # rows; the newest token, ``start``, has no state yet
        rows = [run.begin(text.ids[new.start + 1 : start + 1], states[new])]
        rows += [run.go_on(text.ids[at : at + 1]) for at in range(start + 1, start + depth)]
        chains.append(torch.cat(rows))
    return iter(torch.stack(chains, 1))
