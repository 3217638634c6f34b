"""Measure how well a head drafts along a given text, for each candidate position in a round."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch

from specviz.engine.decoding.sampling import Sampler
from specviz.engine.heads.chains import EagleChains
from specviz.engine.heads.eagle import EagleHead
from specviz.engine.heads.head import Head
from specviz.engine.model.pair import Pair
from specviz.engine.model.step_capabilities import HiddenStates


class ReadText:
    """A text with the target's distributions and hidden states, for all heads of the target."""

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

    def without_probs(self) -> ReadText:
        """Drop the distributions, which are large, and return the text."""
        self.probs = self.probs[:0]
        return self

    def best(self, logits: torch.Tensor) -> torch.Tensor:
        """Return the likeliest token of each row of a head's logits."""
        return logits[:, : self.probs.shape[-1]].argmax(-1)

    def states(self, head: Head) -> torch.Tensor:
        """Return the target's hidden states that a head reads, in one row per token.

        A row joins the states of its token. Each state has the width ``head.target.width``.
        """
        width = head.target.width  # a simulated size adds columns
        parts = [self._states[place][:, :width] for place in head.states.places]
        return torch.cat(parts, -1)


@torch.inference_mode()
def acceptance_along(
    head: Head, text: ReadText, sampler: Sampler, depth: int, starts: Sequence[int]
) -> np.ndarray:
    """Return the acceptance probability `[num_starts, depth]` of the head's candidates.

    A round begins after each token index in ``starts``. Its candidates are the text's own tokens,
    so the value at a position assumes that all candidates before it were accepted.

    Args:
        depth: candidates per round; fewer if the head has a lower limit.
    """
    depth = min(depth, head.most_candidates or depth)
    rows = torch.tensor(starts, device=text.probs.device)
    found = list[np.ndarray]()
    for position, logits in enumerate(_by_position(head, text, depth, starts)):
        target = text.probs[rows + position]
        draft = sampler.probs(logits[:, : target.shape[-1]])
        found.append(torch.minimum(target, draft).sum(-1).double().cpu().numpy())
    return np.stack(found, 1)


@torch.inference_mode()
def divergence_along(
    original: Head, other: Head, text: ReadText, starts: Sequence[int]
) -> tuple[float, float]:
    """Compare two heads' distributions of a round's first candidate.

    Both heads must be able to propose the same tokens.

    Returns:
        The KL divergence and the total variation, each averaged over ``starts``.
    """
    old, new = (
        next(_by_position(each, text, 1, starts))[:, _proposable(each)].double().log_softmax(-1)
        for each in (original, other)
    )
    kl = (old.exp() * (old - new)).sum(-1).mean()
    return float(kl), float((old.exp() - new.exp()).abs().sum(-1).mean()) / 2


def _proposable(head: Head) -> torch.Tensor | slice:
    return slice(None) if head.proposable is None else head.proposable


def _by_position(
    head: Head, text: ReadText, depth: int, starts: Sequence[int]
) -> Iterator[torch.Tensor]:
    """Return an iterator over the logits `[num_starts, vocabulary]` of each candidate position."""
    if isinstance(head, EagleHead):
        return EagleChains(head, text.ids, text.states(head), depth, starts).logits()
    return _one_by_one(head, text, depth, starts)


def _one_by_one(
    head: Head, text: ReadText, depth: int, starts: Sequence[int]
) -> Iterator[torch.Tensor]:
    """Return the logits of ``_by_position``, but draft one chain at a time."""
    run, states = head.start(len(text.ids) + depth + 1), text.states(head)
    chains = list[torch.Tensor]()
    for start in starts:
        new = slice(run.length, start)  # rows; the newest token, ``start``, has no state yet
        rows = [run.begin(text.ids[new.start + 1 : start + 1], states[new])]
        rows += [run.go_on(text.ids[at : at + 1]) for at in range(start + 1, start + depth)]
        chains.append(torch.cat(rows))
    return iter(torch.stack(chains, 1))


@torch.inference_mode()
def rounds_along(
    head: Head, text: ReadText, gamma: int, span: tuple[int, int], limit: int | None = None
) -> list[tuple[int, int]]:
    """Return the counts of drafted and accepted candidates in each round of greedy drafting.

    A candidate is accepted if it is the text's next token. In a sampled text, the probability of
    this is the candidate's target probability. Rejection sampling accepts a greedy candidate with
    this probability, too. So at any temperature, the counts are distributed as in a run with
    rejection sampling.

    Args:
        span: ``(start, end)``. When the first round begins, ``start`` is the index of the text's
            newest token. No round begins once the text has ``end`` tokens, but the last round may
            add tokens beyond.
        limit: the greatest length of the text. As in llama.cpp, rounds near this length draft fewer
            candidates.
    """
    gamma = min(gamma, head.most_candidates or gamma)
    start, end = span
    if isinstance(head, EagleHead):
        accepted_after = _accepted_at_once(head, text, gamma, range(start, end - 1))
    else:
        accepted_after = _accepted_one_by_one(head, text, gamma)
    found = list[tuple[int, int]]()
    while start < end - 1:
        drafted = gamma if limit is None else min(gamma, limit - 2 - start)
        if drafted < 1:
            break
        accepted = min(drafted, accepted_after(start))
        found.append((drafted, accepted))
        start += accepted + 1
    return found


def _accepted_at_once(
    head: EagleHead, text: ReadText, gamma: int, starts: Sequence[int]
) -> Callable[[int], int]:
    """Draft from every start in one batch; return a function that looks up one round's result.

    The function takes the index of the text's newest token when the round begins, and returns how
    many candidates the round accepts.
    """
    if not starts:
        return lambda _: 0
    chains = EagleChains(head, text.ids, text.states(head), gamma, starts)
    rows = torch.tensor(starts, device=text.ids.device)
    alive, accepted = torch.ones_like(rows, dtype=torch.bool), torch.zeros_like(rows)
    for position, logits in enumerate(chains.logits(), 1):
        alive &= text.best(logits) == text.ids[rows + position]
        accepted += alive
        if not alive.any():
            break
    return dict(zip(starts, accepted.tolist(), strict=True)).__getitem__


def _accepted_one_by_one(head: Head, text: ReadText, gamma: int) -> Callable[[int], int]:
    """Return a function like that of ``_accepted_at_once``, but for any head.

    The function drafts when it is called. It must be called with ascending indices.
    """
    run, states, ids = head.start(len(text.ids) + gamma + 1), text.states(head), text.ids.tolist()

    def accepted_after(start: int) -> int:
        logits = run.begin(text.ids[run.length + 1 : start + 1], states[run.length : start])
        for accepted in range(gamma):
            place = start + accepted + 1
            if text.best(logits).item() != ids[place]:
                return accepted
            if accepted < gamma - 1:
                logits = run.go_on(text.ids[place : place + 1])
        return gamma

    return accepted_after
