"""Write a trained draft in the format of another engine, and return the command that serves it.

* ``eagle``: an EAGLE-3 head in its authors' layout, as SpecForge writes it, for SGLang.
* ``speculators``: an EAGLE-3 head for vLLM.
* ``gguf``: a small model or an EAGLE-3 head for llama.cpp (``gguf_export``).

Medusa heads and small models that propose the whole vocabulary need no conversion for vLLM:
``draft_commands`` returns the command for the folder that the training wrote.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from specviz.errors import ConfigError, ModelFileError, TrainingError
from specviz.formats.heads import HeadFacts, read_head, section
from specviz.formats.model_folder import read_folder, read_object
from specviz.formats.reduced_drafts import proposed_count
from specviz.record.limits import MAX_GAMMA, check_one_of
from specviz.store.files import write_file
from specviz.training.drafts.serving import (
    ServingCommand,
    llamacpp_command,
    sglang_command,
    vllm_command,
)
from specviz.values import Value

if TYPE_CHECKING:
    import torch

How = Literal["eagle", "speculators", "gguf"]
HOWS: tuple[How, ...] = ("eagle", "speculators", "gguf")

CARD = "README.md"
_PLAN = "plan.json"
_CONFIG, _WEIGHTS, _GGUF = "config.json", "model.safetensors", "draft.gguf"
_GAMMA = 3  # candidates per round, if neither the caller nor the training states them
_SPECULATORS_VERSION = "0.9.0"
_LAYER_IDS = "eagle_aux_hidden_state_layer_ids"
_AUTHORS_DEFAULTS = {
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 2048,
    "attention_bias": False,
}
_LAYER_KEYS = (
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
    "logit_scale",
    *_AUTHORS_DEFAULTS,
)
_FLAGS = ("norm_before_residual", "norm_before_fc", "fc_norm")


class Exported(Value):
    folder: Path
    files: tuple[Path, ...]
    command: ServingCommand


class TrainedFolder(Value):
    """The folder of a trained draft: a head, or a small model with its tokenizer."""

    path: Path
    head: HeadFacts | None
    plan: Mapping[str, Any]  # of the training; empty if it is not beside the draft

    @property
    def kind(self) -> str:
        return "small" if self.head is None else self.head.kind

    @property
    def gamma(self) -> int:
        """Return for how many candidates per round the draft was trained."""
        stated = self.head.candidates if self.head else None
        positions = self.plan.get("positions")
        return stated or (positions if type(positions) is int and positions > 0 else _GAMMA)

    def target(self, given: str) -> str:
        """Return the target's name from ``given``, the plan or the head's files, in this order.

        Raises:
            ConfigError: None of these three names the target.
        """
        stated = self.head.target if self.head else ""
        named = given or self.plan.get("name") or stated  # the plan has the place on this machine
        if not isinstance(named, str) or not named:
            raise ConfigError(
                f"{self.path.name} does not name its target.",
                remedy="Give the target's folder or Hub id.",
            )
        return named


def export(
    folder: Path, how: str, out: Path, *, target: str = "", gamma: int | None = None
) -> Exported:
    """Write a draft for another engine into ``out``.

    Args:
        folder: The folder of a training, or of the draft in it.
        how: One of ``HOWS``.
        out: A folder that is new, empty, or from an earlier export.
        target: The target's folder, Hub id or GGUF file, which the command names; by default, the
            name that the draft states. A head's GGUF file gets a copy of this target's vocabulary.
        gamma: Candidates per round; by default the number that the draft was trained for.

    Raises:
        ConfigError: The draft has no such export, or its target is not known.
        ModelFileError: A file of the draft is missing or damaged.
        TrainingError: The files cannot be written.
    """
    check_one_of("export", how, HOWS)
    draft = read_trained(folder)
    if how not in (known := exports_of(draft)):
        raise ConfigError(
            f"A draft of the kind {draft.kind} cannot be exported as {how}.",
            remedy=f"Export it as {' or '.join(known)}." if known else "Load the draft's folder.",
        )
    if out.resolve() == draft.path.resolve():
        raise ConfigError(
            "The export would replace the draft itself.", remedy="Choose another folder."
        )
    if gamma is not None and not 1 <= gamma <= MAX_GAMMA:
        raise ConfigError(
            f"gamma is {gamma}.", remedy=f"Give a whole number from 1 to {MAX_GAMMA}."
        )
    name, count = draft.target(target), gamma or draft.gamma
    try:
        out.mkdir(parents=True, exist_ok=True)
        files, command = _write(draft, how, out, name, count)
        if (card := draft.path / CARD).is_file():
            shutil.copyfile(card, out / CARD)
            files = (*files, out / CARD)
    except OSError as error:
        raise TrainingError(
            f"{out.name} cannot be written: {error.strerror or error}.",
            remedy="Free some space, or choose another folder.",
        ) from None
    return Exported(folder=out, files=files, command=command)


def exports_of(draft: TrainedFolder) -> tuple[How, ...]:
    """Return the export formats that are available for a draft."""
    match draft.kind:
        case "eagle3":
            return HOWS
        case "small":
            return ("gguf",)
        case _:
            return ()


def read_trained(folder: Path) -> TrainedFolder:
    """Read the configuration and the plan of a trained draft, but not its weights.

    Raises:
        ModelFileError: There is no draft, or a file is damaged.
    """
    path = folder / "draft" if (folder / "draft" / _CONFIG).is_file() else folder
    head = read_head(path)
    if head is None:
        read_folder(path)
    plans = (each / _PLAN for each in (path, path.parent))
    plan = next((read_object(each) for each in plans if each.is_file()), {})
    return TrainedFolder(path=path, head=head, plan=plan)


def draft_commands(
    folder: Path, *, target: str = "", place: Path | None = None
) -> tuple[ServingCommand, ...]:
    """Return the commands that serve a draft's folder without a conversion.

    ``place``: the folder's path in the commands; by default its absolute path.
    If a Medusa head or a small model proposes only a part of the vocabulary, there is no command:
    vLLM 0.32 allocates its output for the whole vocabulary, so vLLM cannot load it.
    """
    draft = read_trained(folder)
    if draft.head is None and proposed_count(read_object(draft.path / _CONFIG)) is not None:
        return ()
    if draft.head is not None and draft.kind == "medusa":
        proposed, known = draft.head.draft_vocabulary, draft.head.config.get("vocab_size")
        if proposed is not None and proposed != known:
            return ()
    name, path, gamma = draft.target(target), place or draft.path.resolve(), draft.gamma
    method = "draft_model" if draft.kind == "small" else draft.kind
    return (vllm_command(name, path, method, gamma),)


def _write(
    draft: TrainedFolder, how: How, out: Path, target: str, gamma: int
) -> tuple[tuple[Path, ...], ServingCommand]:
    place = out.resolve()
    if how == "gguf":
        from specviz.training.drafts.gguf_export import write_head, write_small

        path = out / _GGUF
        if draft.head is None:
            write_small(draft.path, path, target)
            return (path,), llamacpp_command(target, place / _GGUF, "draft-simple", gamma)
        write_head(draft.head, path, target)
        return (path,), llamacpp_command(target, place / _GGUF, "draft-eagle3", gamma)
    assert draft.head is not None
    facts = _authors(draft.head)
    if how == "eagle":
        config = _eagle_config(facts, target)
        return _write_head(facts, out, config), sglang_command(target, place, gamma)
    config = _speculators_config(facts, target, gamma)
    files = _write_head(facts, out, config, rename=True)
    return files, vllm_command(target, place, "eagle3", gamma)


def _authors(facts: HeadFacts) -> HeadFacts:
    if facts.layout == "speculators":
        raise ConfigError(
            f"{facts.path.name} is in the speculators format already.",
            remedy="Export the head that the training wrote.",
        )
    if facts.tensors is None or "lm_head.weight" not in facts.tensors:
        raise ConfigError(
            f"{facts.path.name} has no output matrix in safetensors.",
            remedy="Export a head that was trained here.",
        )
    return facts


def _write_head(
    facts: HeadFacts, out: Path, config: Mapping[str, Any], *, rename: bool = False
) -> tuple[Path, Path]:
    from specviz.training.drafts.numbered_files import write_tensors

    tensors = read_weights(facts.weights)
    renamed = {speculators_name(name) if rename else name: each for name, each in tensors.items()}
    write_tensors(out / _WEIGHTS, renamed)
    write_file(out / _CONFIG, json.dumps(config, indent=2) + "\n")
    return out / _WEIGHTS, out / _CONFIG


def read_weights(files: Sequence[Path]) -> dict[str, torch.Tensor]:
    """Return the tensors of these files; raise ModelFileError if a file cannot be read."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    found: dict[str, torch.Tensor] = {}
    for file in files:
        try:
            found |= load_file(file)
        except OSError as error:
            raise ModelFileError.unreadable(file, error) from None
        except SafetensorError:
            raise ModelFileError(
                f"{file.name} is damaged.", remedy="Copy it again, or export the draft again."
            ) from None
    return found


def speculators_name(name: str) -> str:
    """Return a tensor's name in the speculators format, given its name in the authors' layout."""
    name = re.sub(r"^midlayer\.", "layers.0.", name)
    return re.sub(
        r"^additional_layers\.(\d+)\.", lambda found: f"layers.{int(found[1]) + 1}.", name
    )


def places_of(facts: HeadFacts) -> list[int]:
    """Return the layers whose inputs the head reads.

    Raises:
        ConfigError: The head's files do not state which layer inputs it reads.
    """
    if facts.convention != "input" or not facts.feature_layers:
        raise ConfigError(
            f"{facts.path.name} does not say which layers it reads.",
            remedy="Export a head that was trained here.",
        )
    return list(facts.feature_layers)


def flags_of(facts: HeadFacts) -> dict[str, bool]:
    """Return the head's boolean options; an option that its files do not set is False."""
    stated = facts.config | section(facts.config, "eagle_config")
    return {name: stated.get(name) is True for name in _FLAGS}


def _eagle_config(facts: HeadFacts, target: str) -> dict[str, Any]:
    """Return the configuration for SGLang.

    A nested list names the layers whose outputs SGLang reads. Without the list, SGLang reads the
    layers that EAGLE-3's authors chose. The list is written only for heads that read other layers,
    because vLLM would take it for a list of layer inputs.
    """
    config = dict(facts.config) | {"torch_dtype": _dtype(facts), "target_model": target}
    places = places_of(facts)
    if not _are_default(places):
        nested = section(config, "eagle_config") | {_LAYER_IDS: [each - 1 for each in places]}
        config["eagle_config"] = nested
    return config


def _are_default(places: list[int]) -> bool:
    """Return whether ``places`` are certainly the layers that EAGLE-3's authors chose.

    For targets of up to seven layers, this is never certain: 2, 3 and 4 are the authors' choice for
    a target of seven layers, but also the last three layers of a target of five.
    """
    layers = places[-1] + 3
    return layers > 7 and places == [2, layers // 2, layers - 3]


def _speculators_config(facts: HeadFacts, target: str, gamma: int) -> dict[str, Any]:
    config = facts.config
    method = {"proposal_type": "greedy", "speculative_tokens": gamma}
    return {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "speculators_version": _SPECULATORS_VERSION,
        "dtype": _dtype(facts),
        "draft_vocab_size": facts.draft_vocabulary or config.get("vocab_size"),
        **flags_of(facts),
        "norm_output": False,  # the authors' heads continue from the state before the norm
        "target_hidden_size": config.get("target_hidden_size"),
        _LAYER_IDS: places_of(facts),
        "tie_word_embeddings": False,
        "transformer_layer_config": _layer_config(config),
        "speculators_config": {
            "algorithm": "eagle3",
            "default_proposal_method": "greedy",
            "proposal_methods": [method | {"verifier_accept_k": 1, "accept_tolerance": 0.0}],
            "verifier": {"name_or_path": target, "architectures": _architectures(target)},
        },
    }


def _layer_config(config: Mapping[str, Any]) -> dict[str, Any]:
    stated = _AUTHORS_DEFAULTS | {name: config[name] for name in _LAYER_KEYS if name in config}
    return {
        "model_type": "llama",
        **stated,
        "num_hidden_layers": config.get("num_hidden_layers") or 1,
        "tie_word_embeddings": False,
        "rope_parameters": rope_of(config),
    }


def rope_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the RoPE settings under the keys of transformers 5."""
    nested = config.get("rope_parameters") or config.get("rope_scaling") or {}
    scaling = dict(nested) if isinstance(nested, dict) else {}
    kind = scaling.pop("type", None)
    theta = scaling.get("rope_theta") or config.get("rope_theta") or 10_000.0
    return {"rope_type": kind or "default"} | scaling | {"rope_theta": theta}


def _architectures(target: str) -> list[str]:
    """Return the target's architectures if ``target`` is a folder on this machine, else []."""
    path = Path(target).expanduser() / _CONFIG
    named = read_object(path).get("architectures") if path.is_file() else None
    return [str(each) for each in named] if isinstance(named, list) else []


def _dtype(facts: HeadFacts) -> str:
    kinds = {each.kind for each in (facts.tensors or {}).values() if len(each.shape) > 1}
    names = {"F16": "float16", "BF16": "bfloat16", "F32": "float32"}
    return names.get(kinds.pop() if len(kinds) == 1 else "", "float32")
