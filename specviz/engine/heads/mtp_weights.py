"""Find the multi-token prediction layers (MTP) in a model's files, and load their weights.

``find_mtp`` reads only the files' headers. ``specviz/engine/heads/mtp.py`` runs the layers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch

from specviz.formats.model_folder import read_object
from specviz.formats.safetensors_header import TensorEntry, read_tensors
from specviz.values import Value

MtpLayout: TypeAlias = Literal["appended", "mtp", "mimo"]

_CONFIG = "config.json"
_LAYER_KEYS: dict[MtpLayout, re.Pattern[str]] = {
    "appended": re.compile(r"model\.layers\.(\d+)\.(.+)"),
    "mtp": re.compile(r"mtp\.layers\.(\d+)\.(.+)"),
    "mimo": re.compile(r"model\.mtp_layers\.(\d+)\.(.+)"),
}
_SHARED_KEY = re.compile(r"mtp\.(?!layers\.)(.+)")
_OWN_NAMES: dict[MtpLayout, dict[str, str]] = {  # name in files: name in ``MtpLayer``
    "appended": {
        "enorm": "enorm", "hnorm": "hnorm", "eh_proj": "eh_proj", "shared_head.norm": "post_norm",
    },
    "mtp": {
        "pre_fc_norm_embedding": "enorm", "pre_fc_norm_hidden": "hnorm", "fc": "eh_proj",
        "norm": "post_norm",
    },
    "mimo": {
        "token_layernorm": "enorm", "hidden_layernorm": "hnorm", "input_proj": "eh_proj",
        "final_layernorm": "post_norm",
    },
}  # fmt: skip
_COPIES = ("embed_tokens.", "shared_head.head.")
_EXPERT = re.compile(r"(.*\.experts)\.(\d+)\.(gate|up|down)_proj\.weight")


class MtpFacts(Value):
    """What the files of a model say about its MTP layers."""

    path: Path
    family: str  # the model type of the text model
    layout: MtpLayout
    layers: int
    config: dict[str, Any]  # of the text model
    tensors: dict[str, TensorEntry]  # of the MTP layers only
    files: dict[str, Path]  # the file of each tensor

    @property
    def parameters(self) -> int:
        """Return the number of stored parameters without copies of the target's matrices."""
        copies = tuple(f".{each}" for each in _COPIES)
        used = (name for name in self.tensors if not any(each in name for each in copies))
        return sum(self.tensors[name].elements for name in used)


def find_mtp(folder: Path) -> MtpFacts | None:
    """Return the facts of the MTP layers in a model's folder; None if there are no MTP layers.

    Raises:
        ModelFileError: A file is damaged.
    """
    if not (folder / _CONFIG).is_file():
        return None
    config = _text_config(folder / _CONFIG)
    count = config.get("num_hidden_layers")
    decoder_layers = count if type(count) is int else 0
    found = [
        (name, entry, file)
        for file in sorted(folder.glob("*.safetensors"))
        for name, entry in read_tensors(file).items()
        if _is_mtp(name, decoder_layers)
    ]
    layout = _layout(name for name, _, _ in found)
    if layout is None:
        return None
    tensors = {name: entry for name, entry, _ in found}
    return MtpFacts(
        path=folder,
        family=str(config.get("model_type")),
        layout=layout,
        layers=len(_numbers(layout, tensors)),
        config=config,
        tensors=tensors,
        files={name: file for name, _, file in found},
    )


def layer_weights(facts: MtpFacts, index: int) -> dict[str, torch.Tensor]:
    """Return the tensors of one layer by their names in transformers' ``MtpLayer``.

    Copies of the target's embedding and output matrix are left out.
    """
    from safetensors import safe_open

    number = _numbers(facts.layout, facts.tensors)[index]
    found: dict[str, torch.Tensor] = {}
    for name, file in facts.files.items():
        own = _own_name(facts.layout, name, number)
        if own is not None and not own.startswith(_COPIES):
            with safe_open(file, framework="pt") as opened:
                found[_name_in_layer(facts.layout, own)] = opened.get_tensor(name)
    return _stacked(found)


def _numbers(layout: MtpLayout, names: Iterable[str]) -> list[int]:
    """Return the layers' numbers in the file, in order."""
    found = (_LAYER_KEYS[layout].fullmatch(name) for name in names)
    return sorted({int(match[1]) for match in found if match})


def _own_name(layout: MtpLayout, name: str, number: int) -> str | None:
    """Return a tensor's name without the layer's prefix.

    Return None if the tensor belongs to another layer.
    """
    if match := _LAYER_KEYS[layout].fullmatch(name):
        return match[2] if int(match[1]) == number else None
    shared = _SHARED_KEY.fullmatch(name) if layout == "mtp" else None
    return shared[1] if shared else None


def _name_in_layer(layout: MtpLayout, own: str) -> str:
    stem, _, ending = own.rpartition(".")
    renamed = _OWN_NAMES[layout].get(stem)
    return f"{renamed}.{ending}" if renamed else f"mtp_block.{own}"


def _stacked(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the weights with the experts' matrices stacked, as transformers expects them."""
    stacked = {name: each for name, each in weights.items() if not _EXPERT.fullmatch(name)}
    experts: dict[str, dict[int, dict[str, torch.Tensor]]] = {}
    for name, each in weights.items():
        if match := _EXPERT.fullmatch(name):
            experts.setdefault(match[1], {}).setdefault(int(match[2]), {})[match[3]] = each
    for name, found in experts.items():
        numbered = [found[index] for index in sorted(found)]
        if all(each.keys() == {"gate", "up", "down"} for each in numbered):
            gate_up = [torch.cat((each["gate"], each["up"])) for each in numbered]
            stacked[f"{name}.gate_up_proj"] = torch.stack(gate_up)
            stacked[f"{name}.down_proj"] = torch.stack([each["down"] for each in numbered])
    return stacked


def _text_config(path: Path) -> dict[str, Any]:
    config = read_object(path)
    inner = config.get("text_config")
    return inner if isinstance(inner, dict) else config


def _is_mtp(name: str, decoder_layers: int) -> bool:
    if match := _LAYER_KEYS["appended"].match(name):
        return int(match[1]) >= decoder_layers > 0
    return name.startswith(("mtp.", "model.mtp_layers."))


def _layout(names: Iterable[str]) -> MtpLayout | None:
    for name in names:
        if name == "mtp.fc.weight":
            return "mtp"
        if re.fullmatch(r"model\.mtp_layers\.\d+\.input_proj\.weight", name):
            return "mimo"
        if re.fullmatch(r"model\.layers\.\d+\.eh_proj\.weight", name):
            return "appended"
    return None
