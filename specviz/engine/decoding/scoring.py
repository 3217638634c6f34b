"""Acceptance along a given text: what the pair would have made of words that are known.

One pass of each model over prompt and text, in chunks, serves every law asked for. A chunk holds
so few rows that the laws of a large vocabulary fit into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

from specviz.engine.decoding.endings import check_room
from specviz.engine.decoding.lookup import PromptLookupDrafter
from specviz.engine.decoding.sampling import Sampler, wide
from specviz.engine.decoding.suffix import SuffixDrafter
from specviz.engine.model.memory import memory_errors
from specviz.engine.model.pair import Pair
from specviz.engine.model.steps import Step
from specviz.errors import PairError, PromptError
from specviz.record.drafters import chosen_drafter
from specviz.record.scores import CopiedRounds, TextScores
from specviz.record.trace import RunConfig

_MOST_ROWS = 256
_MOST_ENTRIES = 2**24  # of a chunk's logits; sorting for top-p takes about ten times that
_NOTHING = 1e-15
Values = list[torch.Tensor]


@torch.inference_mode()
def score_text(
    pair: Pair, prompt_ids: Sequence[int], text_ids: Sequence[int], laws: Sequence[RunConfig]
) -> tuple[TextScores, ...]:
    """Scores of the text after the prompt, under each law, by its rule; all have the drafter of the
    first, which is a model."""
    if not text_ids:
        raise PromptError("There is no text to score.", remedy="Give at least one token of it.")
    draft_step = _draft_step(pair, laws[0])
    check_room(pair.max_context, len(prompt_ids) + len(text_ids) - 1)
    samplers = [Sampler(law) for law in laws]
    found: list[list[Values]] = [[] for _ in laws]
    with memory_errors(pair.device):
        both = (draft_step, pair.target_step)
        for (draft, target), own in _windows(both, pair, (*prompt_ids, *text_ids), len(prompt_ids)):
            for values, law, sampler in zip(found, laws, samplers, strict=True):
                values.append(_under(law, sampler, draft, target, own))
    return tuple(
        _scores(values, several=law.num_drafts > 1) for values, law in zip(found, laws, strict=True)
    )


@torch.inference_mode()
def distributions_along(
    pair: Pair, prompt_ids: Sequence[int], text_ids: Sequence[int]
) -> Iterator[torch.Tensor]:
    """The target's log-probabilities [rows, vocabulary] of every token of the text, in windows: at
    temperature 1 without filters."""
    ids = (*prompt_ids, *text_ids)
    check_room(pair.max_context, len(ids) - 1)
    with memory_errors(pair.device):
        for logits, _ in _windows([pair.target_step], pair, ids, len(prompt_ids)):
            yield logits[0].log_softmax(-1).cpu()


def copied_rounds(
    pair: Pair,
    prompt_ids: Sequence[int],
    text_ids: Sequence[int],
    gammas: Sequence[int],
    *,
    ends: bool,
    drafter: str = "prompt-lookup",
) -> tuple[CopiedRounds, ...]:
    """The rounds along the text of a drafter that copies, for each gamma.

    A copied token stands exactly if the text goes on with it: given the text, its odds are 1 or 0.
    A smaller gamma copies the first of the same tokens.
    """
    copier = _copier(pair, drafter)
    history, matched = list(prompt_ids), list[tuple[int, int]]()
    for place, token in enumerate(text_ids):
        proposed = copier.propose(history, max(gammas), None, None).token_ids.tolist()
        matched.append((len(proposed), _alike(proposed, text_ids[place:])))
        history.append(token)
    return tuple(_copied(matched, gamma, ends=ends) for gamma in gammas)


def _copier(pair: Pair, drafter: str) -> PromptLookupDrafter | SuffixDrafter:
    if drafter == "suffix":
        return SuffixDrafter(pair.vocabulary, pair.device, pair.texts)
    return PromptLookupDrafter(pair.vocabulary, pair.device)


def _alike(proposed: Sequence[int], text: Sequence[int]) -> int:
    """How many tokens they have in common from the first on."""
    pairs = enumerate(zip(proposed, text, strict=False))
    return next((at for at, (own, other) in pairs if own != other), min(len(proposed), len(text)))


def _copied(matched: Sequence[tuple[int, int]], gamma: int, *, ends: bool) -> CopiedRounds:
    """``matched``: at each token how many are proposed, and how many of them the text has."""
    place, rounds = 0, list[tuple[int, int, int]]()
    while (left := len(matched) - place) > 0:
        drafted, accepted = (min(gamma, each) for each in matched[place])
        if accepted >= left or (left <= gamma and not ends):
            break  # a cut round
        rounds.append((place, drafted, accepted + 1))
        place += accepted + 1
    starts, drafts, emitted = zip(*rounds, strict=True) if rounds else ((), (), ())
    return CopiedRounds(gamma=gamma, starts=starts, drafted=drafts, emitted=emitted)


def _windows(
    makers: Sequence[Callable[[int], Step]], pair: Pair, ids: Sequence[int], num_prompt: int
) -> Iterator[tuple[list[torch.Tensor], torch.Tensor]]:
    """Logits [rows, vocabulary] of each model, and the tokens [rows] that follow."""
    text = torch.tensor(ids)
    steps = [make(len(text) + 1) for make in makers]
    first = num_prompt - 1
    if first:
        for step in steps:
            step.feed(text[:first].to(step.device), 0)
    rows = max(1, min(_MOST_ROWS, _MOST_ENTRIES // pair.vocabulary))
    for begin in range(first, len(text) - 1, rows):
        end = min(begin + rows, len(text) - 1)
        logits = [_logits(step, text[begin:end], pair.device) for step in steps]
        yield logits, text[begin + 1 : end + 1].to(pair.device)


def _logits(step: Step, fed: torch.Tensor, device: torch.device) -> torch.Tensor:
    return step.feed(fed.to(step.device), len(fed)).to(device)


def _draft_step(pair: Pair, config: RunConfig) -> Callable[[int], Step]:
    """Of the model that drafts: the pair's draft, or the target's own first layers."""
    chosen = chosen_drafter(config.drafter)
    if chosen.method.name == "early-exit":
        return lambda capacity: pair.target_step(capacity).early_exit(chosen.number)
    if pair.draft is None:
        raise PairError("This pair has no draft model.", remedy="Load it with a draft.")
    return pair.draft_step


def _under(
    config: RunConfig,
    sampler: Sampler,
    draft_logits: torch.Tensor,
    target_logits: torch.Tensor,
    own: torch.Tensor,
) -> Values:
    draft, target = sampler.probs(draft_logits), sampler.probs(target_logits)
    at = own[:, None]
    odds = _odds(config, draft, target, at)
    overlap = torch.minimum(draft, target).sum(-1, dtype=wide(target)).clamp(max=1.0)
    shown = draft_logits.softmax(-1) if config.greedy else draft
    likeliest = draft_logits.argmax(-1), target_logits.argmax(-1)
    sure = shown.gather(-1, at)[:, 0]
    if config.rule == "match" and not config.greedy:
        sure = torch.ones_like(sure)  # of its likeliest token, which is all that it proposes
    return [
        odds,
        _several_odds(draft, target, at, config.num_drafts) if config.num_drafts > 1 else odds,
        overlap,
        target.gather(-1, at)[:, 0],
        sure,
        *(torch.special.entr(law).sum(-1) for law in (draft, target)),
        likeliest[0] == own,
        likeliest[0] == likeliest[1],
    ]


def _odds(
    config: RunConfig, draft: torch.Tensor, target: torch.Tensor, at: torch.Tensor
) -> torch.Tensor:
    """Of one candidate: that it was the text's token [rows, 1], given that the target said this."""
    of_draft, of_target = draft.gather(-1, at)[:, 0], target.gather(-1, at)[:, 0]
    if config.rule == "match":
        odds = (draft.argmax(-1) == at[:, 0]).to(draft)
    elif config.rule == "coupled":
        p, q = draft.to(wide(draft)), target.to(wide(target))
        scale = q.gather(-1, at) / p.gather(-1, at).clamp(min=1e-38)
        odds = torch.where(of_draft > 0, 1.0 / torch.maximum(p * scale, q).sum(-1), 0.0)
    else:
        odds = of_draft / of_target.clamp(min=1e-38)
    return torch.where(of_target > 0, odds, 0.0).clamp(max=1.0)


def _several_odds(
    draft: torch.Tensor, target: torch.Tensor, at: torch.Tensor, count: int
) -> torch.Tensor:
    """Of so many candidates for one place, drawn with replacement: that one was the text's."""
    p, q = draft.to(wide(draft)), target.to(wide(target))
    rest = q  # what the target still asks for, by how often it does
    for _ in range(count):
        rest = (rest - rest.sum(-1, keepdim=True) * p).clamp(min=0.0)
    of_target, left = (law.gather(-1, at)[:, 0] for law in (q, rest))
    fallen = torch.where(rest.sum(-1) > _NOTHING, left / of_target.clamp(min=1e-38), 0.0)
    return torch.where(of_target > 0, 1.0 - fallen, 0.0).clamp(0.0, 1.0)


def _scores(chunks: Sequence[Values], *, several: bool) -> TextScores:
    odds, first, overlaps, own, sure, of_draft, of_target, matches, agrees = (
        tuple(value for chunk in column for value in chunk.tolist())
        for column in zip(*chunks, strict=True)
    )
    return TextScores(
        odds=odds, first_odds=first if several else (), overlaps=overlaps, text_probs=own,
        sureness=sure, draft_entropies=of_draft, target_entropies=of_target, matches=matches,
        agrees=agrees,
    )  # fmt: skip
