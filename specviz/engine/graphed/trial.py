"""Before a pair decodes on the device, compare this decoding with step-by-step decoding.

The check compares each model's logits with and without a static cache. Then it compares the first
rounds. Greedy rounds must emit tokens whose logits are the target's largest, within the tolerance
of the dtype. Sampled rounds must give candidates the same probabilities as step-by-step rounds,
within a tolerance.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile

import torch

from specviz.engine.decoding.pipelined_run import PipelinedRun
from specviz.engine.decoding.speculation import Speculation
from specviz.engine.graphed.lanes import GraphedLanes
from specviz.engine.loading.compatibility import close_to, logit_tolerance, probe_ids, same_choice
from specviz.engine.model.memory import is_out_of_memory
from specviz.engine.model.pair import Pair
from specviz.engine.model.step_capabilities import missing_reason
from specviz.engine.model.steps import Step, StepWeights
from specviz.engine.model.translated_step import NO_DEVICE_ROUNDS
from specviz.errors import DeviceError
from specviz.record.pairs import GRAPHED
from specviz.record.run_config import RunConfig
from specviz.record.trace import Round

_PROMPT = 6  # tokens
_PROBE_ROWS = 16
_NUM_TOKENS = 16
_GAMMA = 3
_OFF = {torch.float32: 1e-3}  # tolerance of probabilities
_HALF_OFF = 0.1  # the tolerance in half precision


def add_lanes(pair: Pair) -> str:
    """Let a pair decode on the device if a check passes.

    If there are Triton kernels for the target, decoding with them is checked first. If this check
    fails, the pair gets a notice, and decoding without Triton kernels is checked.

    Returns:
        Why the pair cannot decode on the device, or an empty string.
    """
    target, draft = pair.target_weights, pair.draft_weights
    if pair.shared is not None:
        return NO_DEVICE_ROUNDS.reason
    for each in (target, draft):
        if each is not None and not each.capabilities.device_rounds:
            return missing_reason(each.capabilities.device_rounds)
    fused = target.with_fused_kernels()
    if fused is not None:
        fused_draft = draft and draft.with_fused_kernels()
        reason = _tried(pair, fused, fused_draft or draft)
        if not reason:
            return ""
        pair.notices += (f"Steps run without Triton kernels: {reason}.",)
    return _tried(pair, target, draft)


def _tried(pair: Pair, target: StepWeights, draft: StepWeights | None) -> str:
    """Check decoding on the device with these weights; if the check passes, let the pair use it.

    Returns:
        Why the pair cannot decode on the device, or an empty string.
    """
    lanes = GraphedLanes(target, draft, pair.token_table, pair.device)
    try:
        reason = _disagreement(pair, lanes)
    except Exception as error:  # also those of Triton, which share no base class with torch's
        full = isinstance(error, DeviceError) or is_out_of_memory(error)
        cause = "memory ran out" if full else type(error).__name__
        reason = f"the stages could not be captured ({cause})"
    if not reason:
        own = pair.info.draft
        drafting = own if draft is None or own is None else replace(own, step=GRAPHED)
        targeting = replace(pair.info.target, step=GRAPHED)
        pair.info = replace(pair.info, target=targeting, draft=drafting)
        pair.lanes = lanes
    return reason


def _disagreement(pair: Pair, lanes: GraphedLanes) -> str:
    """Return what differs from step-by-step decoding, or an empty string."""
    for weights, info in zip(lanes.weights, (pair.info.target, pair.info.draft), strict=True):
        if weights is not None and info is not None and not _same_logits(pair, weights):
            return f"the logits of {info.name} with a static cache differ from those without"
    if pair.draft is None:
        return (
            ""
            if _same_text_alone(pair, lanes)
            else "the graphed target emits tokens that are not the likeliest"
        )
    return (
        ""
        if _same_rounds(pair, lanes)
        else "the first graphed rounds differ from step-by-step decoding"
    )


def _same_logits(pair: Pair, weights: StepWeights) -> bool:
    ids, dtype = probe_ids(pair.target, pair.vocabulary, 12), pair.target.dtype
    ours = _logits(weights.static_step(pair.vocabulary, _PROBE_ROWS), ids)
    reference = _logits(weights.step(pair.vocabulary, _PROBE_ROWS), ids)
    return close_to(ours, reference, dtype) and same_choice(ours, reference, dtype)


def _logits(step: Step, ids: torch.Tensor) -> torch.Tensor:
    """Return the logits of a step, a verification, and a verification after a rollback."""
    step.feed(ids[:5], 0)
    rows = [step.feed(ids[5:6], 1), step.feed(ids[6:10], 4)]
    step.forget(2)
    return torch.cat((*rows, step.feed(ids[8:12], 4)))


def _same_text_alone(pair: Pair, lanes: GraphedLanes) -> bool:
    prompt, config = _prompt(pair), _config(pair)
    lane = lanes.target_lane(prompt, config, len(prompt) + config.max_new_tokens + 1)
    tokens, last = list[int](), prompt[-1]
    for index in range(config.max_new_tokens):
        last = lane.next_token(last, index)
        tokens.append(last)
    return _is_greedy(pair, prompt, tokens)


def _same_rounds(pair: Pair, lanes: GraphedLanes) -> bool:
    prompt, greedy = _prompt(pair), _config(pair)
    tokens = [token for each in PipelinedRun(pair, prompt, greedy, lanes) for token in each.emitted]
    if not (_is_greedy(pair, prompt, tokens) and _same_text_alone(pair, lanes)):
        return False
    drawn = replace(greedy, temperature=1.0)
    ours = list(PipelinedRun(pair, prompt, drawn, lanes))
    known = list(Speculation(pair, prompt, drawn))
    equal = list(takewhile(lambda two: _same_tokens(*two), zip(ours, known, strict=False)))
    exact = pair.target.dtype == torch.float32
    if exact and len(equal) < len(known):
        return False
    off = _OFF.get(pair.target.dtype, _HALF_OFF)
    return all(_max_difference(*two) <= off for two in equal)


def _same_tokens(ours: Round, known: Round) -> bool:
    same = [each.token_id for each in ours.candidates] == [
        each.token_id for each in known.candidates
    ]
    return same and ours.emitted == known.emitted


def _max_difference(ours: Round, known: Round) -> float:
    """Compare the candidates' probabilities in two rounds; return the largest difference."""
    return max(
        max(abs(one.draft_prob - other.draft_prob), abs(one.target_prob - other.target_prob))
        for one, other in zip(ours.candidates, known.candidates, strict=True)
    )


def _is_greedy(pair: Pair, prompt: list[int], tokens: list[int]) -> bool:
    """Return whether each token has the target's largest logit, within the tolerance."""
    step = pair.target_step(len(prompt) + len(tokens))
    fed = torch.tensor([*prompt, *tokens[:-1]], device=pair.device)
    logits = step.feed(fed, len(fed))[len(prompt) - 1 :]
    chosen = logits.gather(-1, torch.tensor(tokens, device=pair.device)[:, None])[:, 0]
    missing = (logits.amax(-1) - chosen).max()
    return bool(missing <= 2 * logit_tolerance(logits, pair.target.dtype))


def _prompt(pair: Pair) -> list[int]:
    count = _PROMPT if pair.max_context is None else max(1, min(_PROMPT, pair.max_context // 4))
    return probe_ids(pair.target, pair.vocabulary, count).tolist()


def _config(pair: Pair) -> RunConfig:
    return RunConfig(
        gamma=_GAMMA,
        temperature=0.0,
        max_new_tokens=_NUM_TOKENS,
        ignore_eos=True,
        record=pair.draft is not None,
    )
