"""Lanes on the device are held against the steps from here, before anybody trusts them.

Both models' logits over a static cache, then the first rounds: greedy ones word for word, up to
a place where two words are too close to tell apart in this number type; drawn ones by the odds that
they were judged by.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile

import torch

from specviz.engine.decoding.one_behind import PipelinedRun
from specviz.engine.decoding.speculation import Speculation
from specviz.engine.graphed.lanes import GraphedLanes
from specviz.engine.graphed.static_model import StaticModel
from specviz.engine.loading.compatibility import allowed_off, close_to, probe_ids, same_choice
from specviz.engine.model.lean_weights import LeanWeights
from specviz.engine.model.memory import is_out_of_memory
from specviz.engine.model.pair import Pair
from specviz.engine.model.steps import Step
from specviz.errors import DeviceError
from specviz.record.pairs import GRAPHED
from specviz.record.run_config import RunConfig
from specviz.record.trace import Round

_PROMPT = 6  # tokens
_WRITTEN = 16
_GAMMA = 3
_OFF = {torch.float32: 1e-3}  # probabilities
_HALF_OFF = 0.1


def give_lanes(pair: Pair) -> str:
    """Lanes for a pair that can have them; otherwise why it has none, in words."""
    target, draft = pair.target_weights, pair.draft_weights
    if pair.shared is not None:
        return "draft and target have two vocabularies"
    if not isinstance(target, LeanWeights) or not isinstance(draft, LeanWeights | None):
        return f"the caches of {pair.info.target.family} models cannot be static here"
    lanes = GraphedLanes(target, draft, pair.token_table, pair.device)
    try:
        reason = _disagreement(pair, lanes)
    except (RuntimeError, AssertionError, ValueError, MemoryError, DeviceError) as error:
        full = isinstance(error, DeviceError) or is_out_of_memory(error)
        told = "memory ran out" if full else type(error).__name__
        reason = f"its stages could not be captured ({told})"
    if not reason:
        own = pair.info.draft
        drafting = own and replace(own, step=GRAPHED)
        targeting = replace(pair.info.target, step=GRAPHED)
        pair.info = replace(pair.info, target=targeting, draft=drafting)
        pair.lanes = lanes
    return reason


def _disagreement(pair: Pair, lanes: GraphedLanes) -> str:
    """Empty where all agrees."""
    made: list[tuple[LeanWeights, Callable[[int], Step], str]] = []
    for weights, step, info in (
        (pair.target_weights, pair.target_step, pair.info.target),
        (pair.draft_weights, pair.draft_step, pair.info.draft),
    ):
        if isinstance(weights, LeanWeights) and info is not None:
            made.append((weights, step, info.name))
    for weights, step, name in made:
        if not _same_logits(pair, weights, step):
            return f"it gives other logits for {name}"
    if pair.draft is None:
        return "" if _same_words_alone(pair, lanes) else "it writes other words"
    return "" if _same_rounds(pair, lanes) else "its first rounds are others"


@torch.inference_mode()
def _same_logits(pair: Pair, weights: LeanWeights, fresh_step: Callable[[int], Step]) -> bool:
    ids = probe_ids(pair.target, pair.vocabulary, 12)
    step, static = fresh_step(16), StaticModel(weights, pair.vocabulary, 16)

    def fed(begin: int, end: int) -> torch.Tensor:
        return static.feed(ids[begin:end], torch.tensor(begin, device=ids.device), 16, end - begin)

    step.feed(ids[:5], 0)
    static.prefill(ids[:5], 0)
    known = [step.feed(ids[5:6], 1), step.feed(ids[6:10], 4)]
    found = [fed(5, 6), fed(6, 10)]
    step.forget(2)
    known.append(step.feed(ids[8:12], 4))
    found.append(fed(8, 12))
    ours, reference = torch.cat(found), torch.cat(known)
    dtype = pair.target.dtype
    return close_to(ours, reference, dtype) and same_choice(ours, reference, dtype)


def _same_words_alone(pair: Pair, lanes: GraphedLanes) -> bool:
    prompt, config = _prompt(pair), _config(pair)
    lane = lanes.alone(prompt, config, len(prompt) + config.max_new_tokens + 1)
    words, last = list[int](), prompt[-1]
    for index in range(config.max_new_tokens):
        last = lane.next_token(last, index)
        words.append(last)
    return _same_words(pair, prompt, words)


def _same_rounds(pair: Pair, lanes: GraphedLanes) -> bool:
    prompt, greedy = _prompt(pair), _config(pair)
    words = [token for each in PipelinedRun(pair, prompt, greedy, lanes) for token in each.emitted]
    if not (_same_words(pair, prompt, words) and _same_words_alone(pair, lanes)):
        return False
    drawn = replace(greedy, temperature=1.0)
    ours = list(PipelinedRun(pair, prompt, drawn, lanes))
    known = list(Speculation(pair, prompt, drawn))
    alike = list(takewhile(lambda two: _same_tokens(*two), zip(ours, known, strict=False)))
    exact = pair.target.dtype == torch.float32
    if exact and len(alike) < len(known):
        return False
    off = _OFF.get(pair.target.dtype, _HALF_OFF)
    return all(_apart(*two) <= off for two in alike)


def _same_tokens(ours: Round, known: Round) -> bool:
    same = [each.token_id for each in ours.candidates] == [
        each.token_id for each in known.candidates
    ]
    return same and ours.emitted == known.emitted


def _apart(ours: Round, known: Round) -> float:
    """How far the probabilities of the same candidates are apart at most."""
    return max(
        max(abs(one.draft_prob - other.draft_prob), abs(one.target_prob - other.target_prob))
        for one, other in zip(ours.candidates, known.candidates, strict=True)
    )


def _same_words(pair: Pair, prompt: list[int], words: list[int]) -> bool:
    """Whether each is the target's likeliest behind the others, or too close to it to tell."""
    step = pair.target_step(len(prompt) + len(words))
    fed = torch.tensor([*prompt, *words[:-1]], device=pair.device)
    logits = step.feed(fed, len(fed))[len(prompt) - 1 :]
    chosen = logits.gather(-1, torch.tensor(words, device=pair.device)[:, None])[:, 0]
    missing = (logits.amax(-1) - chosen).max()
    return bool(missing <= 2 * allowed_off(logits, pair.target.dtype))


def _prompt(pair: Pair) -> list[int]:
    count = _PROMPT if pair.max_context is None else max(1, min(_PROMPT, pair.max_context // 4))
    return probe_ids(pair.target, pair.vocabulary, count).tolist()


def _config(pair: Pair) -> RunConfig:
    return RunConfig(
        gamma=_GAMMA,
        temperature=0.0,
        max_new_tokens=_WRITTEN,
        ignore_eos=True,
        record=pair.draft is not None,
    )
