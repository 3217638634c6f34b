"""Short runs for an audit, and fresh passes over what they wrote."""

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
_SHARES = (0.4, 0.7, 1.0)  # of a preset that a prompt is cut to
# How far apart logits of the same text may be when they were summed in another order.
_NEAR = {"float32": 1e-3, "float16": 0.05, "bfloat16": 0.5}


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
    """Beginnings of the presets, which leave room for what is to be written."""
    from specviz.engine.model.chat import encode_prompt

    room = None if pair.max_context is None else pair.max_context - settings.max_new_tokens
    if room is not None and room < 1:
        raise ConfigError(
            f"gamma is {settings.gamma}; the pair's context holds {pair.max_context} tokens.",
            remedy="Draft fewer candidates.",
        )
    texts = [encode_prompt(pair, each.text, chat=settings.chat)[:room] for each in read_presets()]
    if settings.chat:  # a template is not to be cut
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
    """Of one pass over prompt and text, [num_tokens, vocabulary]: those before each token."""
    import torch

    fed = torch.tensor([*context, *tokens[:-1]])
    step = make_step(len(fed) + 1)
    with torch.inference_mode():
        return step.feed(fed.to(step.device), len(tokens)).to(pair.device)


def near(pair: Pair) -> float:
    return _NEAR.get(pair.environment.dtype, max(_NEAR.values()))
