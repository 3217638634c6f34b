"""Compute acceptance probabilities along a given text, without generating text.

Each model processes prompt and text once, in chunks, for all configurations. A chunk has so few
rows that distributions over a large vocabulary fit into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

from specviz.engine.decoding.endings import check_room
from specviz.engine.decoding.lookup import PromptLookupDrafter
from specviz.engine.decoding.sampling import Sampler, widest_float
from specviz.engine.decoding.suffix import SuffixDrafter
from specviz.engine.model.memory import memory_errors
from specviz.engine.model.pair import Pair
from specviz.engine.model.steps import Step
from specviz.errors import PairError, PromptError
from specviz.record.drafters import chosen_drafter
from specviz.record.scores import CopiedRounds, TextScores
from specviz.record.token_text import common_prefix
from specviz.record.trace import RunConfig

_MOST_ROWS = 256
_MOST_ENTRIES = 2**24  # most logits of a chunk; sorting for top-p needs ten times their memory
_TINY = 1e-15
Values = list[torch.Tensor]


@torch.inference_mode()
def score_text(
    pair: Pair, prompt_ids: Sequence[int], text_ids: Sequence[int], configs: Sequence[RunConfig]
) -> tuple[TextScores, ...]:
    """Return each token's acceptance probability and other scores, one result per configuration.

    All results use the first configuration's drafter: the draft model or an early exit.
    """
    if not text_ids:
        raise PromptError("There is no text to score.", remedy="Give a text of at least one token.")
    draft_step = _draft_step(pair, configs[0])
    check_room(pair.max_context, len(prompt_ids) + len(text_ids) - 1)
    samplers = [Sampler(config) for config in configs]
    found: list[list[Values]] = [[] for _ in configs]
    with memory_errors(pair.device):
        both = (draft_step, pair.target_step)
        ids = (*prompt_ids, *text_ids)
        for (draft, target), next_ids in _windows(both, pair, ids, len(prompt_ids)):
            for values, config, sampler in zip(found, configs, samplers, strict=True):
                values.append(_score_chunk(config, sampler, draft, target, next_ids))
    return tuple(
        _scores(values, several=config.num_drafts > 1)
        for values, config in zip(found, configs, strict=True)
    )


@torch.inference_mode()
def distributions_along(
    pair: Pair, prompt_ids: Sequence[int], text_ids: Sequence[int]
) -> Iterator[torch.Tensor]:
    """Yield the target's log-probabilities `[rows, vocabulary]` along the text, chunk by chunk.

    The probabilities are at temperature 1, without top-k and top-p.
    """
    ids = (*prompt_ids, *text_ids)
    check_room(pair.max_context, len(ids) - 1)
    with memory_errors(pair.device):
        for logits, _ in _windows([pair.target_step], pair, ids, len(prompt_ids)):
            yield logits[0].log_softmax(-1).cpu()


@torch.inference_mode()
def log_probs_of(
    pair: Pair, texts: Sequence[tuple[Sequence[int], Sequence[int]]]
) -> Iterator[torch.Tensor]:
    """Yield the target's log-probabilities `[tokens]` of each text's tokens, at temperature 1.

    Each text follows its prompt. If consecutive texts have the same prompt, the prompt's cache rows
    are used again.
    """
    longest = max((len(prompt) + len(text) for prompt, text in texts), default=0)
    check_room(pair.max_context, longest - 1)
    step, cached = pair.target_step(longest + 1), ()
    with memory_errors(pair.device):
        for prompt, text in texts:
            first = len(prompt) - 1
            kept = first if tuple(prompt) == cached else 0
            step.forget(step.length - kept)
            cached, ids = tuple(prompt), torch.tensor((*prompt, *text))
            if kept < first:
                step.feed(ids[:first].to(step.device), 0)
            found = [
                logits.log_softmax(-1).gather(-1, next_ids[:, None])[:, 0].cpu()
                for (logits,), next_ids in _chunks([step], pair, ids, first)
            ]
            yield torch.cat(found)


def copied_rounds(
    pair: Pair,
    prompt_ids: Sequence[int],
    text_ids: Sequence[int],
    gammas: Sequence[int],
    *,
    ends: bool,
    drafter: str = "prompt-lookup",
) -> tuple[CopiedRounds, ...]:
    """Return the rounds that a lookup drafter would have along the text, one result per gamma.

    Given the text, a copied token is accepted if and only if it is the text's next token. Tokens
    are copied for the largest gamma only, since a smaller gamma copies the first few of these
    tokens. ``ends``: whether the text ends with an end-of-text token.
    """
    copier = _copier(pair, drafter)
    history, matched = list(prompt_ids), list[tuple[int, int]]()
    for place, token in enumerate(text_ids):
        proposed = copier.propose(history, max(gammas), None, None).token_ids.tolist()
        matched.append((len(proposed), common_prefix(proposed, text_ids[place:])))
        history.append(token)
    return tuple(_rounds_at_gamma(matched, gamma, ends=ends) for gamma in gammas)


def _copier(pair: Pair, drafter: str) -> PromptLookupDrafter | SuffixDrafter:
    if drafter == "suffix":
        return SuffixDrafter(pair.vocabulary, pair.device, pair.texts)
    return PromptLookupDrafter(pair.vocabulary, pair.device)


def _rounds_at_gamma(matched: Sequence[tuple[int, int]], gamma: int, *, ends: bool) -> CopiedRounds:
    """Return the rounds along the text if each has at most ``gamma`` candidates.

    ``matched``: for each position of the text, how many tokens the drafter would propose without
    the limit gamma, and how many of these tokens match the text.
    """
    place, rounds = 0, list[tuple[int, int, int]]()
    while (left := len(matched) - place) > 0:
        drafted, accepted = (min(gamma, each) for each in matched[place])
        if accepted >= left or (left <= gamma and not ends):
            break  # the end of the text cuts this round
        rounds.append((place, drafted, accepted + 1))
        place += accepted + 1
    starts, drafts, emitted = zip(*rounds, strict=True) if rounds else ((), (), ())
    return CopiedRounds(gamma=gamma, starts=starts, drafted=drafts, emitted=emitted)


def _windows(
    makers: Sequence[Callable[[int], Step]], pair: Pair, ids: Sequence[int], num_prompt: int
) -> Iterator[tuple[list[torch.Tensor], torch.Tensor]]:
    """Feed the tokens ``ids`` in chunks; yield each chunk's logits and next tokens `[rows]`.

    Each function in ``makers`` makes a model's step, and a chunk has logits `[rows, vocabulary]`
    for each of these steps. The first ``num_prompt`` tokens are the prompt. Of the prompt's tokens,
    only the last has logits.
    """
    text = torch.tensor(ids)
    steps = [make(len(text) + 1) for make in makers]
    first = num_prompt - 1
    if first:
        for step in steps:
            step.feed(text[:first].to(step.device), 0)
    yield from _chunks(steps, pair, text, first)


def _chunks(
    steps: Sequence[Step], pair: Pair, text: torch.Tensor, first: int
) -> Iterator[tuple[list[torch.Tensor], torch.Tensor]]:
    """Feed ``text`` from position ``first`` on, in chunks.

    Yields:
        The models' logits `[rows, vocabulary]` and the next tokens `[rows]` of each chunk.
    """
    rows = max(1, min(_MOST_ROWS, _MOST_ENTRIES // pair.vocabulary))
    for begin in range(first, len(text) - 1, rows):
        end = min(begin + rows, len(text) - 1)
        logits = [_logits(step, text[begin:end], pair.device) for step in steps]
        yield logits, text[begin + 1 : end + 1].to(pair.device)


def _logits(step: Step, fed: torch.Tensor, device: torch.device) -> torch.Tensor:
    return step.feed(fed.to(step.device), len(fed)).to(device)


def _draft_step(pair: Pair, config: RunConfig) -> Callable[[int], Step]:
    """Return a function that takes a cache capacity and makes a step of the drafting model.

    In an early exit, the drafting model is the target's first layers; otherwise, it is the draft.
    """
    chosen = chosen_drafter(config.drafter)
    if chosen.method.name == "early-exit":
        return lambda capacity: pair.target_step(capacity).early_exit(chosen.number)
    if pair.draft is None:
        raise PairError("This pair has no draft model.", remedy="Load the pair with a draft model.")
    return pair.draft_step


def _score_chunk(
    config: RunConfig,
    sampler: Sampler,
    draft_logits: torch.Tensor,
    target_logits: torch.Tensor,
    next_ids: torch.Tensor,
) -> Values:
    draft, target = sampler.probs(draft_logits), sampler.probs(target_logits)
    at = next_ids[:, None]
    odds = _odds(config, draft, target, at)
    overlap = torch.minimum(draft, target).sum(-1, dtype=widest_float(target)).clamp(max=1.0)
    shown = draft_logits.softmax(-1) if config.greedy else draft
    likeliest = draft_logits.argmax(-1), target_logits.argmax(-1)
    sure = shown.gather(-1, at)[:, 0]
    if config.rule == "match" and not config.greedy:
        sure = torch.ones_like(sure)  # the draft proposes only its likeliest token
    return [
        odds,
        _several_odds(draft, target, at, config.num_drafts) if config.num_drafts > 1 else odds,
        overlap,
        target.gather(-1, at)[:, 0],
        sure,
        *(torch.special.entr(probs).sum(-1) for probs in (draft, target)),
        likeliest[0] == next_ids,
        likeliest[0] == likeliest[1],
    ]


def _odds(
    config: RunConfig, draft: torch.Tensor, target: torch.Tensor, at: torch.Tensor
) -> torch.Tensor:
    """Return the probability `[rows]` that the emitted token x was an accepted candidate.

    Lossless: min(1, draft(x)/target(x)), because x is emitted with probability target(x), and
    drafted and accepted with probability min(draft(x), target(x)).
    *match*: 1 if x is the draft's likeliest token, else 0.
    *coupled*: 1 / Σ_w max(draft(w) target(x)/draft(x), target(w)).

    Args:
        at: the tokens x, `[rows, 1]`.
    """
    of_draft, of_target = draft.gather(-1, at)[:, 0], target.gather(-1, at)[:, 0]
    if config.rule == "match":
        odds = (draft.argmax(-1) == at[:, 0]).to(draft)
    elif config.rule == "coupled":
        p, q = draft.to(widest_float(draft)), target.to(widest_float(target))
        scale = q.gather(-1, at) / p.gather(-1, at).clamp(min=1e-38)
        odds = torch.where(of_draft > 0, 1.0 / torch.maximum(p * scale, q).sum(-1), 0.0)
    else:
        odds = of_draft / of_target.clamp(min=1e-38)
    return torch.where(of_target > 0, odds, 0.0).clamp(max=1.0)


def _several_odds(
    draft: torch.Tensor, target: torch.Tensor, at: torch.Tensor, count: int
) -> torch.Tensor:
    """Return the probability `[rows]` that the emitted token was an accepted candidate.

    The ``count`` candidates of a position are drawn with replacement and tested in turn by the
    lossless rule.
    """
    p, q = draft.to(widest_float(draft)), target.to(widest_float(target))
    rest = q  # the target's remaining mass, unnormalised
    for _ in range(count):
        rest = (rest - rest.sum(-1, keepdim=True) * p).clamp(min=0.0)
    of_target, left = (probs.gather(-1, at)[:, 0] for probs in (q, rest))
    missed = torch.where(rest.sum(-1) > _TINY, left / of_target.clamp(min=1e-38), 0.0)
    return torch.where(of_target > 0, 1.0 - missed, 0.0).clamp(0.0, 1.0)


def _scores(chunks: Sequence[Values], *, several: bool) -> TextScores:
    odds, first, overlaps, next_ids, sure, of_draft, of_target, matches, agrees = (
        tuple(value for chunk in column for value in chunk.tolist())
        for column in zip(*chunks, strict=True)
    )
    return TextScores(
        odds=odds, first_odds=first if several else (), overlaps=overlaps, text_probs=next_ids,
        sureness=sure, draft_entropies=of_draft, target_entropies=of_target, matches=matches,
        agrees=agrees,
    )  # fmt: skip
