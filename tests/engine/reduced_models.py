"""Draft models that can propose only some of their tokens."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from specviz.engine.model.reduced_output import ReducedOutput
from specviz.formats.reduced_drafts import OFFSETS, OUTPUT, PROPOSED


def reduced(model: Any, proposed: Sequence[int]) -> Any:
    """Return a copy of a model that can propose only these tokens."""
    own, ids = copy.deepcopy(model), torch.tensor(list(proposed))
    config = own.config
    output = ReducedOutput(config.hidden_size, ids, config.vocab_size)
    with torch.no_grad():
        output.rows.weight.copy_(own.lm_head.weight[ids])
    own.lm_head = output
    config.tie_word_embeddings = False
    setattr(config, PROPOSED, len(ids))
    return own.eval()


def reduce_folder(folder: Path, proposed: Sequence[int]) -> Path:
    """Let the model in a folder propose only these tokens."""
    tensors, ids = load_file(folder / "model.safetensors"), torch.tensor(list(proposed))
    tensors[OUTPUT] = tensors[OUTPUT][ids].contiguous()
    tensors[OFFSETS] = ids - torch.arange(len(ids))
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {PROPOSED: len(ids)}))
    return folder
