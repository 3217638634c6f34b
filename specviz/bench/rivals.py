"""Run a pair with transformers' own generation, for comparison in the bench.

The first target pass of transformers combines prefill and verification, which cannot be timed
separately. So the speed is measured over the tokens after that pass. Assisted generation takes its
settings from the assistant's ``generation_config``, which is changed for one call and restored. All
lanes ignore EOS, so that they write the same number of tokens.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specviz.values import Value

if TYPE_CHECKING:
    from specviz.engine import Pair


class Assistance(Value):
    """Settings of transformers' assisted generation; None means the library's default."""

    gamma: int | None = None
    threshold: float | None = None

    def __str__(self) -> str:
        if self.gamma is None:
            return "defaults"
        return f"γ {self.gamma}, threshold {self.threshold:g}"


class RivalRun(Value):
    seconds: float  # for all tokens, extrapolated from the speed after the first pass
    token_ids: tuple[int, ...]
    target_forwards: int


@dataclass(slots=True)
class _Passes:
    """Counts and times of the target passes; forward hooks update them."""

    count: int = 0
    first_ended: float = 0.0
    before_second: int = 0  # tokens in the KV cache before the second pass


def generate(pair: Pair, prompt_ids: Sequence[int], num_tokens: int) -> RivalRun:
    """Run transformers' ``generate(do_sample=False)``."""
    return _timed(pair, prompt_ids, num_tokens, {})


def assisted(
    pair: Pair, prompt_ids: Sequence[int], num_tokens: int, assistance: Assistance
) -> RivalRun:
    """Run transformers' ``generate(assistant_model=...)`` with these settings."""
    assert pair.draft is not None
    draft = _in_transformers(pair.draft)
    with _assistant_settings(draft, assistance):
        extra: dict[str, Any] = {"assistant_model": draft}
        if pair.shared is not None:
            own = pair.shared.draft.tokenizer
            extra |= {"tokenizer": pair.tokenizer, "assistant_tokenizer": own}
        return _timed(pair, prompt_ids, num_tokens, extra)


def _in_transformers(model: Any) -> Any:
    from specviz.engine.model.plain_llama import in_transformers

    return in_transformers(model)


def _timed(
    pair: Pair, prompt_ids: Sequence[int], num_tokens: int, extra: dict[str, Any]
) -> RivalRun:
    import torch

    target: Any = _in_transformers(pair.target)
    ids = torch.tensor([list(prompt_ids)], device=pair.device)
    mask = torch.ones_like(ids)
    quiet = _quiet_library()
    with quiet, _endless(pair), _watched(pair) as passes, torch.inference_mode():
        output = target.generate(
            ids, attention_mask=mask, do_sample=False, max_new_tokens=num_tokens, **extra
        )
        wait_for(pair)
        seconds = time.perf_counter() - passes.first_ended
    assert passes.count > 1, "one pass cannot be timed"
    timed = num_tokens - (passes.before_second + 1 - len(prompt_ids))
    return RivalRun(
        seconds=seconds * num_tokens / timed,
        token_ids=tuple(output[0, len(prompt_ids) :].tolist()),
        target_forwards=passes.count,
    )


@contextmanager
def _quiet_library() -> Iterator[None]:
    """Silence transformers' advice on how to pass settings."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)


@contextmanager
def _watched(pair: Pair) -> Iterator[_Passes]:
    passes = _Passes()

    def begins(_: Any, _args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if passes.count == 1:
            passes.before_second = kwargs["past_key_values"].get_seq_length()
        passes.count += 1

    def ends(*_: Any) -> None:
        if passes.count == 1:
            wait_for(pair)
            passes.first_ended = time.perf_counter()

    model: Any = _in_transformers(pair.target)
    hooks = (
        model.register_forward_pre_hook(begins, with_kwargs=True),
        model.register_forward_hook(ends),
    )
    try:
        yield passes
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _endless(pair: Pair) -> Iterator[None]:
    """Remove the EOS token from the models' settings, and restore it on exit."""
    models = [_in_transformers(each) for each in (pair.target, pair.draft) if each is not None]
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


def wait_for(pair: Pair) -> None:
    """Wait until the pair's device has finished all queued work."""
    import torch

    if pair.device.type == "cuda":
        torch.cuda.synchronize(pair.device)
