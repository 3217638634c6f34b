"""Load a draft model with a reduced output (``formats/reduced_drafts.py``) from its tensors.

transformers cannot load such models: their output matrix has fewer rows than the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from specviz.engine.model.growing import skeleton_of
from specviz.errors import PairError
from specviz.formats.reduced_drafts import OFFSETS, OUTPUT, proposed_count

_ROWS = OUTPUT.replace(".weight", ".rows.weight")  # the parameter of a ``ReducedOutput``


def reduced_loader(files: Sequence[Path], name: str) -> Callable[..., Any]:
    """Return a function that loads the model.

    The function takes keyword arguments of transformers' ``from_pretrained``.

    Args:
        files: The model's weights.
        name: The model's name in errors.
    """

    def load(*, config: Any, dtype: torch.dtype, **unused: Any) -> tuple[Any, dict[str, Any]]:
        del unused  # such models are small, so they are not spread over devices
        tensors = dict[str, torch.Tensor]()
        for file in files:
            tensors |= load_file(file)
        offsets, weight = tensors.pop(OFFSETS, None), tensors.pop(OUTPUT, None)
        ids = _checked_ids(offsets, weight, config, name)
        floats = {key: each.to(dtype) for key, each in tensors.items()}
        assert weight is not None
        model = skeleton_of(config)
        found = model.load_state_dict(floats | {_ROWS: weight.to(dtype)}, strict=False, assign=True)
        body = model.model
        body.rotary_emb = type(body.rotary_emb)(config)
        model.lm_head.proposed = ids
        return model, {"missing_keys": found.missing_keys}

    return load


def _checked_ids(
    offsets: torch.Tensor | None, weight: torch.Tensor | None, config: Any, name: str
) -> torch.Tensor:
    """Return the token ids of the output's rows.

    Raises:
        PairError: A tensor is missing, or the tensors do not match the configuration.
    """
    if weight is None or offsets is None or offsets.is_floating_point():
        raise _damaged(name)
    ids = offsets.long() + torch.arange(len(offsets))
    count = proposed_count(vars(config))
    inside = len(ids) > 0 and 0 <= int(ids.min()) <= int(ids.max()) < config.vocab_size
    fits = tuple(weight.shape) == (count, config.hidden_size) and len(ids) == count
    if not (inside and fits and len(ids.unique()) == len(ids)):
        raise _damaged(name)
    return ids


def _damaged(name: str) -> PairError:
    return PairError(
        f"The output matrix of {name} and its d2t do not fit each other or the config.json.",
        remedy="Copy the draft's folder again, or train the draft again.",
    )
