"""The bytes that a pass of a loaded model reads from memory, for any model family.

The KV cache bytes per token are measured in a real cache, because model families name the relevant
sizes differently in their configurations. A pass is assumed to read the whole text, even if a
sliding window is shorter. Recurrent states do not grow with the text, so they are added to the
weights' bytes. They are added twice, because making a snapshot (see ``recurrent_step.py``) also
reads them. A snapshot is assumed before every pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from specviz.engine.model.library_trees import first_layers
from specviz.engine.model.packed_weights import PackedEmbedding
from specviz.engine.model.pair import Pair
from specviz.engine.model.plain_llama import PlainLlamaForCausalLM
from specviz.record.drafters import chosen_drafter
from specviz.record.run_config import RunConfig
from specviz.record.step_costs import PassBytes

if TYPE_CHECKING:
    from specviz.engine.model.plain_llama import Model


def draft_bytes(pair: Pair, config: RunConfig) -> PassBytes | None:
    """Return the bytes that a draft pass reads; None if unknown or if there are no draft passes.

    In early exit, a draft pass is a pass of the target's first layers. For a head, the bytes are
    known only if it drafts token by token with its own output matrix. Then every candidate's pass
    reads equally many bytes. The head's small cache is not counted.
    """
    chosen = chosen_drafter(config.drafter)
    if chosen.method.needs_draft and pair.draft is not None:
        return pass_bytes(pair.draft)
    if chosen.method.needs_head:
        known = pair.head is not None and pair.head.reads_own_output
        weights = sum(each.nbytes for each in pair.head.parameters) if known and pair.head else 0
        return PassBytes(weights=weights, cache=0) if known else None
    if chosen.method.has_steps and chosen.number:
        return pass_bytes(first_layers(pair.target, chosen.number))
    return None


def pass_bytes(model: Model) -> PassBytes | None:
    """Return the bytes that a pass of the model reads from memory; None if unknown.

    The bytes are unknown for mixtures of experts and for weights that transformers quantised.
    """
    packed = getattr(model, "quantization_method", None) is not None
    if packed or any("expert" in name for name, _ in model.named_parameters()):
        return None
    whole = sum(weight.nbytes for weight in model.parameters())
    states, cache = _cache_of_a_token(model)
    return PassBytes(weights=whole - _unread(model) + 2 * states, cache=cache)


def _unread(model: Model) -> int:
    """Return the bytes that a pass of one token skips.

    Such a pass reads only one row of the embedding. But a tied embedding is also the output matrix,
    which the pass reads whole.
    """
    head: Any = model.get_output_embeddings()
    tables = {
        id(module.weight): module.weight
        for module in model.modules()
        if isinstance(module, nn.Embedding | PackedEmbedding)
        and (head is None or module.weight is not head.weight)
    }
    return sum(table.nbytes - table[0].nbytes for table in tables.values())


@torch.inference_mode()
def _cache_of_a_token(model: Model) -> tuple[int, int]:
    """Return the bytes of the recurrent states, and the bytes of one token's keys and values."""
    if isinstance(model, PlainLlamaForCausalLM):
        own = model.config
        values = len(model.model.layers) * own.num_key_value_heads * own.head_dim
        return 0, 2 * values * model.dtype.itemsize
    from specviz.engine.model.library_weights import LibraryWeights

    step = LibraryWeights(model).step(1, 1)
    step.feed(torch.zeros(1, dtype=torch.int64, device=step.device), 0)
    return step.state_bytes, step.row_bytes
