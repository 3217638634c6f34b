"""The same pair through transformers' own generation, for the bench to compare with.

Assisted generation reads its settings from the assistant's ``generation_config``; they are
set for one call and put back. End-of-text is ignored on every side, so that all lanes write
the same number of tokens.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specviz.engine import Pair


@dataclass(frozen=True, slots=True, kw_only=True)
class Assistance:
    """How transformers drafts; None keeps its default."""

    gamma: int | None = None
    threshold: float | None = None

    def __str__(self) -> str:
        if self.gamma is None:
            return "defaults"
        return f"γ {self.gamma}, threshold {self.threshold:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RivalRun:
    seconds: float  # of the whole call
    token_ids: tuple[int, ...]
    target_forwards: int


def generate(pair: Pair, prompt_ids: Sequence[int], num_tokens: int) -> RivalRun:
    """``generate(do_sample=False)``."""
    return _timed(pair, prompt_ids, num_tokens, {})


def assisted(
    pair: Pair, prompt_ids: Sequence[int], num_tokens: int, assistance: Assistance
) -> RivalRun:
    """``generate(assistant_model=...)`` under these settings."""
    assert pair.draft is not None
    with _assistant_settings(pair.draft, assistance):
        return _timed(pair, prompt_ids, num_tokens, {"assistant_model": pair.draft})


def prefill_seconds(pair: Pair, prompt_ids: Sequence[int], *, with_draft: bool) -> float:
    """What reading the prompt up to its last token costs through the library."""
    import torch
    from transformers import DynamicCache

    ids = torch.tensor([prompt_ids[:-1]], device=pair.device)
    models = [pair.target, pair.draft] if with_draft else [pair.target]
    began = time.perf_counter()
    with torch.inference_mode():
        for model in models:
            if model is not None and ids.shape[1]:
                model(ids, past_key_values=DynamicCache(), use_cache=True, logits_to_keep=1)
    _wait(pair)
    return time.perf_counter() - began


def _timed(
    pair: Pair, prompt_ids: Sequence[int], num_tokens: int, extra: dict[str, Any]
) -> RivalRun:
    import torch

    ids = torch.tensor([list(prompt_ids)], device=pair.device)
    mask = torch.ones_like(ids)
    quiet = _quiet_library()
    with quiet, _endless(pair), _counted(pair.target) as forwards, torch.inference_mode():
        _wait(pair)
        began = time.perf_counter()
        target: Any = pair.target
        output = target.generate(
            ids, attention_mask=mask, do_sample=False, max_new_tokens=num_tokens, **extra
        )
        _wait(pair)
        seconds = time.perf_counter() - began
    token_ids = tuple(output[0, len(prompt_ids) :].tolist())
    return RivalRun(seconds=seconds, token_ids=token_ids, target_forwards=len(forwards))


@contextmanager
def _quiet_library() -> Iterator[None]:
    """Without its advice on how to pass settings."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)


@contextmanager
def _counted(model: Any) -> Iterator[list[None]]:
    calls: list[None] = []
    hook = model.register_forward_pre_hook(lambda *_: calls.append(None))
    try:
        yield calls
    finally:
        hook.remove()


@contextmanager
def _endless(pair: Pair) -> Iterator[None]:
    """Without an end-of-text token for the time of a call."""
    models = [model for model in (pair.target, pair.draft) if model is not None]
    kept = [model.generation_config.eos_token_id for model in models]
    for model in models:
        model.generation_config.eos_token_id = None
    try:
        yield
    finally:
        for model, ids in zip(models, kept, strict=True):
            model.generation_config.eos_token_id = ids


@contextmanager
def _assistant_settings(draft: Any, assistance: Assistance) -> Iterator[None]:
    settings = draft.generation_config
    names = (
        "num_assistant_tokens",
        "num_assistant_tokens_schedule",
        "assistant_confidence_threshold",
    )
    kept = {name: getattr(settings, name, None) for name in names}
    if assistance.gamma is not None:
        settings.num_assistant_tokens = assistance.gamma
        settings.num_assistant_tokens_schedule = "constant"
        settings.assistant_confidence_threshold = assistance.threshold
    try:
        yield
    finally:
        for name, value in kept.items():
            setattr(settings, name, value)


def _wait(pair: Pair) -> None:
    import torch

    if pair.device.type == "cuda":
        torch.cuda.synchronize(pair.device)
