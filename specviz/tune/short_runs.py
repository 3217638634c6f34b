"""Short runs for an audit, and passes over their texts without the runs' KV caches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from specviz.errors import ConfigError
from specviz.record.prompts import read_presets
from specviz.record.trace import RunConfig

if TYPE_CHECKING:
    import torch

    from specviz.engine import Pair, SpeculativeRun

_LONGEST = 48  # tokens of a prompt
_SHARES = (0.4, 0.7, 1.0)  # prompts are presets, cut to these shares of their tokens
# Logits of the same text may differ by this much if they were summed in another order.
_TOLERANCES = {"float32": 1e-3, "float16": 0.05, "bfloat16": 0.5}


def audit_settings(config: RunConfig, max_new_tokens: int) -> RunConfig:
    return replace(config, max_new_tokens=max_new_tokens, record=False, forks=(), stop=())


def speculation(
    pair: Pair, context: Sequence[int], config: RunConfig, bug: str | None
) -> SpeculativeRun:
    from specviz.engine import speculate
    from specviz.engine.decoding.bugs import broken

    if bug is not None:
        return broken(pair, context, config, bug)
    return speculate(pair, context, config)


def contexts(pair: Pair, settings: RunConfig) -> tuple[tuple[int, ...], ...]:
    """Return prompts made from the presets, as token ids.

    Without a chat template, each preset is cut to several lengths. With a chat template, each
    preset keeps its full length. All prompts leave room for the new text in the pair's context.
    """
    from specviz.engine.model.chat import encode_prompt

    room = None if pair.max_context is None else pair.max_context - settings.max_new_tokens
    if room is not None and room < 1:
        raise ConfigError(
            f"gamma is {settings.gamma}; the pair's context holds {pair.max_context} tokens.",
            remedy="Draft fewer candidates.",
        )
    texts = [encode_prompt(pair, each.text, chat=settings.chat)[:room] for each in read_presets()]
    if settings.chat:  # a chat template must not be cut
        return tuple(map(tuple, texts))
    lengths = [[max(1, int(share * len(ids))) for ids in texts] for share in _SHARES]
    return tuple(
        tuple(ids[: min(length, _LONGEST)])
        for row in lengths
        for ids, length in zip(texts, row, strict=True)
    )


def fresh_logits(
    pair: Pair, make_step: Any, context: Sequence[int], tokens: Sequence[int]
) -> torch.Tensor:
    """Return the logits that predict each token `[num_tokens, vocab_size]`.

    They come from one pass over prompt and text, without the KV cache of a run.
    """
    import torch

    fed = torch.tensor([*context, *tokens[:-1]])
    step = make_step(len(fed) + 1)
    with torch.inference_mode():
        return step.feed(fed.to(step.device), len(tokens)).to(pair.device)


def logit_tolerance(pair: Pair) -> float:
    return _TOLERANCES.get(pair.environment.dtype, max(_TOLERANCES.values()))
