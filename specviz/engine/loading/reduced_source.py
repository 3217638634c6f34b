"""Load a draft model with a reduced output (``formats/reduced_drafts.py``).

transformers has no such models. It loads all weights but the output matrix, as if the embedding
were the output matrix too, so that it allocates no other one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import nn

from specviz.engine.model.reduced_output import ReducedOutput
from specviz.errors import PairError
from specviz.formats.reduced_drafts import OFFSETS, OUTPUT, proposed_count

_UNREAD = {r"^lm_head\.": "unread."}  # a name that no model has


def reduced_loader(
    load: Callable[..., Any], files: Sequence[Path], name: str
) -> Callable[..., Any]:
    """Return a function that takes the arguments of ``load``, transformers' ``from_pretrained``.

    Args:
        load: Loads the model, without its output matrix.
        files: The model's weights.
        name: The model's name in errors.
    """

    def load_reduced(*, config: Any, dtype: torch.dtype, **more: Any) -> tuple[Any, Any]:
        tied = copy.deepcopy(config)
        tied.tie_word_embeddings = True
        model, info = load(config=tied, dtype=dtype, key_mapping=_UNREAD, **more)
        model.config.tie_word_embeddings = False
        weight, ids = _read_output(files, config, name)
        output = ReducedOutput(config.hidden_size, ids, config.vocab_size)
        output.rows.weight = nn.Parameter(weight.to(dtype), requires_grad=False)
        model.lm_head = output
        return model, info

    return load_reduced


def _read_output(
    files: Sequence[Path], config: Any, name: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the rows of the output matrix and their token ids.

    Raises:
        PairError: A tensor is missing, or the tensors do not match the configuration.
    """
    found = dict[str, torch.Tensor]()
    for file in files:
        with safe_open(file, framework="pt") as tensors:
            names = {OUTPUT, OFFSETS}.intersection(tensors.keys())
            found |= {each: tensors.get_tensor(each) for each in names}
    count = proposed_count(vars(config))
    weight, offsets = found.get(OUTPUT), found.get(OFFSETS)
    if weight is None or offsets is None or offsets.is_floating_point():
        raise _damaged(name)
    ids = offsets.long() + torch.arange(len(offsets))
    inside = len(ids) > 0 and 0 <= int(ids.min()) <= int(ids.max()) < config.vocab_size
    fits = tuple(weight.shape) == (count, config.hidden_size) and len(ids) == count
    if not (inside and fits and len(ids.unique()) == len(ids)):
        raise _damaged(name)
    return weight, ids


def _damaged(name: str) -> PairError:
    return PairError(
        f"The output matrix of {name} and its d2t do not fit each other or the config.json.",
        remedy="Copy the draft's folder again, or train the draft again.",
    )
