"""Recognise a drafting head's folder from its configuration, file names and tensor names.

The kinds are EAGLE-1/2, EAGLE-3, Medusa and DFlash. Multi-token prediction (MTP) layers are in the
target's own files, so they are not recognised here. Pickle files are not opened; for these, the
configuration and the file names decide. ``specviz/engine/heads`` opens the weights.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from specviz.errors import ModelFileError
from specviz.formats.model_folder import read_object
from specviz.formats.reduced_drafts import is_reduced_model
from specviz.formats.safetensors_header import TensorEntry, read_tensors
from specviz.values import Value

HeadFileKind: TypeAlias = Literal["eagle", "eagle3", "medusa", "dflash"]
LayerConvention: TypeAlias = Literal["input", "output", ""]

_CONFIG = "config.json"
_MEDUSA_FILE = "medusa_lm_head"
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")
_LAYER_IDS = "eagle_aux_hidden_state_layer_ids"
_DFLASH_IDS = "aux_hidden_state_layer_ids"
_MEDUSA_KEY = re.compile(
    r"(?:medusa_head\.|blocks\.)?(\d+)\.(?:layers\.)?\d+\.(?:linear\.)?(?:weight|bias)$"
)
_WEIGHTS_TYPE = re.compile(r"(?:[-._](?:i?q\d\w*|bf16|fp?16|fp?32|gguf))+$")  # ends a file's name
_ORDINARY = re.compile(r"(?:model\.)?embed_tokens\.|model\.layers\.|transformer\.h\.")
_OTHER_KINDS = {
    "peagle": "P-EAGLE",
    "dspark": "DSpark",
    "dflash2": "DFlash2",
    "mtp": "separate MTP",
    "mlp_speculator": "MLP speculator",
}


class HeadFacts(Value):
    """Facts about a head, read from its files without loading the weights."""

    path: Path
    kind: HeadFileKind
    layout: str  # "official", "speculators", "specforge" or "vllm"
    config: dict[str, Any]
    weights: tuple[Path, ...]
    tensors: dict[str, TensorEntry] | None  # None for pickle files
    target: str = ""  # the target's name or path, "" if the files do not state it
    candidates: int | None = None  # suggested candidates per round
    draft_vocabulary: int | None = None  # None if the files do not state it
    feature_layers: tuple[int, ...] = ()  # as the files state them
    convention: LayerConvention = ""  # what number i means: layer i's input or output

    @property
    def parameters(self) -> int | None:
        """Return the number of stored parameters; None for pickle files."""
        if self.tensors is None:
            return None
        maps = ("d2t", "t2d")
        return sum(each.elements for name, each in self.tensors.items() if name not in maps)

    def other_target(self, name: str) -> str:
        """Return the target that the files name, if it is not ``name``; else an empty text."""
        return "" if names_same_model(self.target or name, name) else self.target


def read_head(path: Path) -> HeadFacts | None:
    """Return the facts about the head in a folder; None if the folder contains no head.

    Raises:
        ModelFileError: A file is damaged, or the head's kind is not supported.
    """
    if not (path / _CONFIG).is_file():
        return None
    config, weights = read_object(path / _CONFIG), _weights(path)
    if not weights:
        return None
    tensors = _headers(weights)
    kind = _kind(path, config, weights, tensors)
    if kind is None:
        return None
    layers, convention = _feature_layers(kind, config)
    return HeadFacts(
        path=path,
        kind=kind,
        layout=_layout(kind, config),
        config=config,
        weights=weights,
        tensors=tensors,
        target=_target(config),
        candidates=_candidates(kind, config, tensors),
        draft_vocabulary=_draft_vocabulary(config, tensors),
        feature_layers=layers,
        convention=convention,
    )


def head_kind(path: Path) -> str:
    """Return the kind of head in a folder; empty if the folder contains no head.

    If the weights are missing, the configuration decides.
    """
    facts = read_head(path)
    if facts is not None:
        return facts.kind
    if not (path / _CONFIG).is_file() or _weights(path):
        return ""
    named = _kind_by_config(read_object(path / _CONFIG))
    return named if named in get_args(HeadFileKind) else ""


def names_same_model(one: str, other: str) -> bool:
    """Return whether two names can mean the same model.

    Compare the last parts of the Hub ids or paths, and ignore the type of quantised weights.
    """
    return _bare_name(one) == _bare_name(other)


def _bare_name(name: str) -> str:
    last = name.rstrip("/").rpartition("/")[2].lower()
    return _WEIGHTS_TYPE.sub("", last) or last


def section(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a nested object of a configuration; empty if the entry is missing or not an object."""
    found = config.get(name)
    return found if isinstance(found, dict) else {}


def is_pickle(path: Path) -> bool:
    return path.suffix != ".safetensors"


def _kind(
    path: Path,
    config: dict[str, Any],
    weights: tuple[Path, ...],
    tensors: dict[str, TensorEntry] | None,
) -> HeadFileKind | None:
    named = _kind_by_config(config)
    if named in _OTHER_KINDS:
        raise _unsupported(path, _OTHER_KINDS[named])
    if named in ("eagle3", "dflash", "medusa"):
        return named
    if weights[0].stem == _MEDUSA_FILE or "medusa_num_heads" in config:
        return "medusa"
    if tensors is not None:
        return _kind_by_tensors(path, tensors) or ("eagle" if named else None)
    if _number(config, "draft_vocab_size") is not None:
        return "eagle3"
    bare = not any((path / each).is_file() for each in _TOKENIZERS)
    return "eagle" if named or (bare and _number(config, "num_hidden_layers") == 1) else None


def _kind_by_config(config: dict[str, Any]) -> str:
    """Return the kind of head that a configuration names; "" if it names no kind."""
    for key in ("speculators_model_type", "model_type"):
        if (name := str(config.get(key))) in _OTHER_KINDS:
            return name
    if "vision_config" in config:  # the name of some vision models contains "eagle"
        return ""
    return _family(config) or ("dflash" if "dflash_config" in config else "")


def _family(config: dict[str, Any]) -> str:
    named = config.get("architectures")
    built = [str(each) for each in named] if isinstance(named, list) else []
    names = [*built, config.get("model_type"), config.get("speculators_model_type")]
    words = " ".join(str(each) for each in names).lower()
    order = ("peagle", "dspark", "dflash2", "dflash", "eagle3", "medusa", "eagle")
    return next((each for each in order if each in words), "")


def _kind_by_tensors(path: Path, tensors: dict[str, TensorEntry]) -> HeadFileKind | None:
    names = tensors.keys()
    if "mask_hidden" in names:
        raise _unsupported(path, "P-EAGLE")
    if any(name.startswith("speculator.") for name in names):
        raise _unsupported(path, "MLP speculator")
    if is_reduced_model(names):
        return None
    if "d2t" in names or any(name.startswith("midlayer.") for name in names):
        return "eagle3"
    if (fusion := tensors.get("fc.weight")) is not None and len(fusion.shape) == 2:
        return _eagle_by_shapes(fusion.shape, tensors)
    ordinary = any(_ORDINARY.match(name) for name in names)
    return None if ordinary or not _medusa_heads(names) else "medusa"


def _eagle_by_shapes(
    fusion: tuple[int, ...], tensors: dict[str, TensorEntry]
) -> HeadFileKind | None:
    query = tensors.get("layers.0.self_attn.q_proj.weight")
    if query is None:
        return None
    if query.shape[-1] == 2 * fusion[0]:
        return "eagle3"
    known = "layers.0.input_layernorm.weight" not in tensors and fusion[1] == 2 * fusion[0]
    return "eagle" if known else None


def _medusa_heads(names: Iterable[str]) -> int:
    """Return the number of Medusa heads, counted from the tensor names."""
    found = (_MEDUSA_KEY.match(name) for name in names)
    return len({match[1] for match in found if match})


def _layout(kind: HeadFileKind, config: dict[str, Any]) -> str:
    if "speculators_model_type" in config:
        return "speculators"
    named = config.get("architectures")
    built = " ".join(map(str, named)) if isinstance(named, list) else ""
    if kind == "eagle3" and "Eagle3" in built:
        return "specforge"
    return "vllm" if config.get("model_type") in ("eagle", "medusa") else "official"


def _feature_layers(
    kind: HeadFileKind, config: dict[str, Any]
) -> tuple[tuple[int, ...], LayerConvention]:
    """Return the target's layers whose hidden states the head reads.

    Also return whether the head reads the layers' "input" or "output"; "" if that is not known.
    """
    if kind == "dflash":
        if stated := _integers(config.get(_DFLASH_IDS)):
            return stated, "input"
        nested = _integers(section(config, "dflash_config").get("target_layer_ids"))
        return nested, "output" if nested else ""
    if kind != "eagle3":
        return (), ""
    stated = _integers(config.get(_LAYER_IDS))
    # vLLM reads the nested list last, so it overrides a list at the top.
    if nested := _integers(section(config, "eagle_config").get(_LAYER_IDS)):
        if stated == tuple(each + 1 for each in nested):  # the same layers in both conventions
            return stated, "input"
        return nested, ""
    return stated, "input" if stated else ""


def _target(config: dict[str, Any]) -> str:
    verifier = section(section(config, "speculators_config"), "verifier")
    named = (config.get(key) for key in ("base_model_name_or_path", "target_model"))
    name = verifier.get("name_or_path") or next((each for each in named if each), "")
    return name[:300] if isinstance(name, str) else ""


def _candidates(
    kind: HeadFileKind, config: dict[str, Any], tensors: dict[str, TensorEntry] | None
) -> int | None:
    methods = section(config, "speculators_config").get("proposal_methods")
    first = methods[0] if isinstance(methods, list) and methods else None
    if isinstance(first, dict) and (stated := _number(first, "speculative_tokens")):
        return stated
    if kind == "dflash" and (size := _number(config, "block_size")):
        return size if config.get("sample_from_anchor") is True else size - 1
    if kind == "medusa":
        return _medusa_heads(tensors or ()) or _number(config, "medusa_num_heads", "num_heads")
    return None


def _draft_vocabulary(config: dict[str, Any], tensors: dict[str, TensorEntry] | None) -> int | None:
    if tensors and "d2t" in tensors:
        return tensors["d2t"].elements
    return _number(config, "draft_vocab_size", "truncated_vocab_size")


def _number(config: Mapping[str, Any], *keys: str) -> int | None:
    """Return the value of the first of these keys that has a positive integer, or None."""
    found = (config.get(key) for key in keys)
    return next((each for each in found if type(each) is int and each > 0), None)


def _integers(found: object) -> tuple[int, ...]:
    valid = isinstance(found, list) and all(type(each) is int for each in found)
    return tuple(found) if valid and isinstance(found, list) else ()


def _weights(path: Path) -> tuple[Path, ...]:
    """Return the weights files; return pickle files only if there are no safetensors files."""
    patterns = (
        "model.safetensors",
        "model-*.safetensors",
        f"{_MEDUSA_FILE}.safetensors",
        "*.safetensors",
        "pytorch_model.bin",
        "pytorch_model-*.bin",
        f"{_MEDUSA_FILE}.pt",
        "model.pt",
    )
    found = (tuple(sorted(path.glob(pattern))) for pattern in patterns)
    return next((files for files in found if files), ())


def _headers(weights: tuple[Path, ...]) -> dict[str, TensorEntry] | None:
    if is_pickle(weights[0]):
        return None
    return {name: each for file in weights for name, each in read_tensors(file).items()}


def _unsupported(path: Path, kind: str) -> ModelFileError:
    return ModelFileError(
        f"{path.name} contains a {kind} head, which is not supported.",
        remedy="Choose an EAGLE, EAGLE-3, Medusa or DFlash head.",
    )
