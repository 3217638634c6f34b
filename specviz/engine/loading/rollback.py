"""Check that a model can roll its cache back, which speculation needs after each rejection.

Families with recurrent layers roll back by snapshots (``recurrent_step.py``). The check appends and
removes tokens as a run does. Then it compares the logits with the logits of a pass without a cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from specviz.engine.loading.compatibility import (
    PROBE_TOKENS,
    fresh_logits,
    library_step,
    probe_ids,
    require_finite,
    same_logits,
)
from specviz.engine.model.memory import is_out_of_memory
from specviz.engine.model.plain_llama import PlainLlamaForCausalLM
from specviz.engine.model.recurrent_layers import ONE_TOKEN_AT_A_TIME, has_recurrent_layers
from specviz.errors import PairError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from specviz.engine.model.plain_llama import Model


def refuse_without_rollback(skeleton: Model, name: str) -> None:
    """Raise PairError if the model's family is known not to support rollback."""
    has_state = skeleton._is_stateful and not has_recurrent_layers(skeleton)
    if has_state or skeleton.config.model_type in ONE_TOKEN_AT_A_TIME:
        raise _cannot_roll_back(skeleton, name)


def check_rollback(model: Model, name: str, vocabulary: int) -> None:
    """Raise PairError unless logits after a rollback equal logits computed without a cache."""
    if isinstance(model, PlainLlamaForCausalLM):
        # A plain model has no cache; the check of its lean step includes a rollback.
        logits = fresh_logits(model, probe_ids(model, vocabulary, PROBE_TOKENS), vocabulary)
        require_finite(logits, model, name)
        return
    ids = probe_ids(model, vocabulary, PROBE_TOKENS + 4)
    kept, others = ids[:3], ids[PROBE_TOKENS:]
    try:
        rolled, length = _roll(model, vocabulary, ids[:PROBE_TOKENS], others)
        fresh = fresh_logits(model, torch.cat((kept, others)), vocabulary)[-4:]
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise _cannot_roll_back(model, name) from error
    require_finite(fresh, model, name)
    if length != PROBE_TOKENS or not same_logits(rolled, fresh, model):
        raise _cannot_roll_back(model, name)


def _roll(
    model: PreTrainedModel, vocabulary: int, ids: torch.Tensor, others: torch.Tensor
) -> tuple[torch.Tensor, int]:
    """Return the logits of ``others`` after a rollback, and the cache length before the rollback.

    Feed ``ids`` in passes of 2 and 4 tokens, remove the last 3 tokens, and feed ``others`` in two
    passes. A recurrent step must then restore the snapshot that it made after the first pass,
    and read the third token of ``ids`` again.
    """
    step = library_step(model, vocabulary)
    step.feed(ids[:2], 0)
    step.feed(ids[2:], 0)
    length = step.length
    step.forget(3)
    return torch.cat((step.feed(others[:3], 3), step.feed(others[3:], 1))), length


def _cannot_roll_back(model: Model, name: str) -> PairError:
    family = model.config.model_type
    reason = "such models cannot roll their cache back, as is needed after each rejection"
    if family in ONE_TOKEN_AT_A_TIME:
        reason = "such models read one token at a time, so they cannot verify several candidates"
    elif has_recurrent_layers(model):
        reason = "such models give different logits after a rollback than in a single pass"
    return PairError(
        f"{name} belongs to the family {family}: {reason}.",
        remedy="Use another family, such as Llama, Qwen, Gemma, GPT-2 or Mistral.",
    )
