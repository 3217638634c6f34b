"""Recognising a head's folder, without its weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from specviz.errors import ModelFileError
from specviz.formats.heads import HeadFacts, names_same_model, read_head
from tests.engine.heads.tiny_heads import (
    DRAFT_VOCABULARY,
    LAYER_IDS,
    WIDTH,
    change_config,
    change_tensors,
    write_eagle,
    write_eagle3,
    write_folder,
)


def facts_of(folder: Path) -> HeadFacts:
    facts = read_head(folder)
    assert facts is not None
    return facts


def rows(*names: str) -> dict[str, torch.Tensor]:
    return {name: torch.zeros(4, 4) for name in names}


class TestEagle:
    @pytest.mark.parametrize("pickled", [True, False])
    def test_eagle1(self, pickled: bool, tmp_path: Path) -> None:
        facts = facts_of(write_eagle(tmp_path, fc_bias=True, pickled=pickled))
        assert (facts.kind, facts.layout, facts.target) == ("eagle", "official", "")
        assert facts.candidates is None
        assert facts.draft_vocabulary is None
        assert (facts.parameters is None) == pickled

    @pytest.mark.parametrize("pickled", [True, False])
    def test_official_eagle3(self, pickled: bool, tmp_path: Path) -> None:
        facts = facts_of(write_eagle3(tmp_path, pickled=pickled))
        assert (facts.kind, facts.layout) == ("eagle3", "official")
        assert facts.draft_vocabulary == DRAFT_VOCABULARY
        assert (facts.feature_layers, facts.convention) == ((), "")
        weights = "pytorch_model.bin" if pickled else "model.safetensors"
        assert facts.weights == (tmp_path / weights,)

    def test_full_vocabulary_is_recognised_by_its_shapes(self, tmp_path: Path) -> None:
        folder = write_eagle3(tmp_path, draft_vocabulary=128)

        def rename(tensors: dict[str, torch.Tensor]) -> None:
            for name in [each for each in tensors if each.startswith("midlayer.")]:
                tensors[name.replace("midlayer.", "layers.0.")] = tensors.pop(name)

        change_tensors(folder, rename)
        assert facts_of(folder).kind == "eagle3"

    def test_speculators(self, tmp_path: Path) -> None:
        facts = facts_of(write_eagle3(tmp_path, layout="speculators"))
        assert (facts.kind, facts.layout) == ("eagle3", "speculators")
        assert (facts.target, facts.candidates) == ("maker/tiny-target", 3)
        assert (facts.feature_layers, facts.convention) == (LAYER_IDS, "input")

    def test_specforge_states_ambiguous_layers(self, tmp_path: Path) -> None:
        nested = {"eagle_aux_hidden_state_layer_ids": [1, 3, 4]}
        top = [1, 4, 5]
        facts = facts_of(
            write_eagle3(
                tmp_path,
                layout="specforge",
                eagle_config=nested,
                eagle_aux_hidden_state_layer_ids=top,
            )
        )
        assert facts.layout == "specforge"
        assert (facts.feature_layers, facts.convention) == ((1, 3, 4), "")

    def test_both_lists_for_the_same_layers_are_not_ambiguous(self, tmp_path: Path) -> None:
        """A nested list of layer outputs, as SGLang reads it, and one of layer inputs above."""
        ids = "eagle_aux_hidden_state_layer_ids"
        stated = {ids: [2, 4, 5], "eagle_config": {ids: [1, 3, 4]}}
        facts = facts_of(write_eagle3(tmp_path, layout="specforge", **stated))
        assert (facts.feature_layers, facts.convention) == ((2, 4, 5), "input")

    def test_a_head_trained_here_names_its_target(self, tmp_path: Path) -> None:
        assert (
            facts_of(write_eagle3(tmp_path, target_model="maker/target")).target == "maker/target"
        )

    def test_parameters_do_not_count_the_maps(self, tmp_path: Path) -> None:
        folder = write_eagle3(tmp_path)
        with_maps = facts_of(folder).parameters
        change_tensors(folder, lambda tensors: tensors.pop("t2d"))
        assert facts_of(folder).parameters == with_maps


class TestOtherKinds:
    @pytest.mark.parametrize("prefix", ["", "medusa_head."])
    def test_medusa_heads_are_counted(self, prefix: str, tmp_path: Path) -> None:
        names = [f"{prefix}{head}.{end}" for head in range(3) for end in ("0.linear.weight",)]
        names += [f"{prefix}{head}.1.weight" for head in range(3)]
        stated = {"medusa_num_heads": 2, "base_model_name_or_path": "maker/target"}
        facts = facts_of(write_folder(tmp_path, stated, rows(*names)))
        assert (facts.kind, facts.candidates, facts.target) == ("medusa", 3, "maker/target")

    def test_medusa_without_a_word_in_its_configuration(self, tmp_path: Path) -> None:
        names = ("blocks.0.layers.0.weight", "blocks.1.layers.0.weight", "lm_heads.0.weight")
        facts = facts_of(write_folder(tmp_path, {"num_heads": 2}, rows(*names)))
        assert (facts.kind, facts.candidates) == ("medusa", 2)

    def test_medusa_pickle_by_its_file_name(self, tmp_path: Path) -> None:
        write_folder(tmp_path, {"num_heads": 4}, {}, pickled=True)
        (tmp_path / "pytorch_model.bin").rename(tmp_path / "medusa_lm_head.pt")
        facts = facts_of(tmp_path)
        assert (facts.kind, facts.candidates) == ("medusa", 4)

    @pytest.mark.parametrize(
        ("config", "layers", "convention", "candidates"),
        [
            ({"dflash_config": {"target_layer_ids": [1, 5]}, "block_size": 16}, (1, 5), "output",
             15),
            ({"speculators_model_type": "dflash", "aux_hidden_state_layer_ids": [2, 6],
              "block_size": 8, "sample_from_anchor": True}, (2, 6), "input", 8),
            ({"architectures": ["DFlashDraftModel"]}, (), "", None),
        ],
    )  # fmt: skip
    def test_dflash(
        self,
        config: dict[str, Any],
        layers: tuple[int, ...],
        convention: str,
        candidates: int | None,
        tmp_path: Path,
    ) -> None:
        tensors = {"fc.weight": torch.zeros(WIDTH, 2 * WIDTH)}
        facts = facts_of(write_folder(tmp_path, config, tensors))
        assert facts.kind == "dflash"
        assert (facts.feature_layers, facts.convention) == (layers, convention)
        assert facts.candidates == candidates

    @pytest.mark.parametrize(
        ("config", "name"),
        [
            ({"speculators_model_type": "peagle"}, "P-EAGLE"),
            ({"architectures": ["Qwen3DSparkModel"], "dflash_config": {}}, "DSpark"),
            ({"model_type": "mlp_speculator"}, "MLP speculator"),
            ({"speculators_model_type": "mtp"}, "separate MTP"),
        ],
        ids=str,
    )
    def test_unsupported_kinds_have_their_names(
        self, config: dict[str, Any], name: str, tmp_path: Path
    ) -> None:
        folder = write_folder(tmp_path / "head", config, rows("fc.weight"))
        with pytest.raises(ModelFileError, match=f"^head contains a {name} head"):
            read_head(folder)

    @pytest.mark.parametrize(
        ("tensor", "name"), [("mask_hidden", "P-EAGLE"), ("speculator.emb.0.weight", "MLP")]
    )
    def test_unsupported_kinds_by_their_tensors(
        self, tensor: str, name: str, tmp_path: Path
    ) -> None:
        folder = write_eagle3(tmp_path)
        change_tensors(folder, lambda tensors: tensors.update(rows(tensor)))
        with pytest.raises(ModelFileError, match=name):
            read_head(folder)


class TestNoHead:
    def test_ordinary_model(self, tmp_path: Path) -> None:
        names = ("model.embed_tokens.weight", "model.layers.0.mlp.up_proj.weight")
        assert read_head(write_folder(tmp_path, {"model_type": "llama"}, rows(*names))) is None

    def test_ordinary_pickle(self, tmp_path: Path) -> None:
        folder = write_folder(tmp_path, {"num_hidden_layers": 2}, rows("a"), pickled=True)
        assert read_head(folder) is None

    def test_pickle_of_one_layer_with_a_tokenizer(self, tmp_path: Path) -> None:
        folder = write_folder(tmp_path, {"num_hidden_layers": 1}, rows("a"), pickled=True)
        (folder / "tokenizer.json").write_text("{}")
        assert read_head(folder) is None

    def test_vision_model_with_eagle_in_its_name(self, tmp_path: Path) -> None:
        config = {"architectures": ["Eagle2_5_VLForConditionalGeneration"], "vision_config": {}}
        assert read_head(write_folder(tmp_path, config, rows("model.layers.0.weight"))) is None

    def test_folder_without_weights_or_configuration(self, tmp_path: Path) -> None:
        assert read_head(tmp_path) is None
        (tmp_path / "config.json").write_text(json.dumps({"speculators_model_type": "eagle3"}))
        assert read_head(tmp_path) is None

    @pytest.mark.parametrize("content", ["{", "[]", "\xff" * 3])
    def test_damaged_configuration(self, content: str, tmp_path: Path) -> None:
        folder = write_eagle3(tmp_path)
        (folder / "config.json").write_text(content, encoding="latin-1")
        with pytest.raises(ModelFileError, match=r"^config.json is damaged"):
            read_head(folder)

    def test_odd_entries_are_not_taken(self, tmp_path: Path) -> None:
        folder = write_eagle3(tmp_path)
        change_config(
            folder,
            architectures="Llama",
            eagle_config=[1],
            eagle_aux_hidden_state_layer_ids=[True, "2"],
            speculators_config={"proposal_methods": [3], "verifier": {"name_or_path": 5}},
        )
        facts = facts_of(folder)
        assert (facts.kind, facts.target, facts.candidates) == ("eagle3", "", None)
        assert facts.feature_layers == ()


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("org/Tiny-8B", "tiny-8b", True),
        ("org/Tiny-8B", "/models/Tiny-8B-Q4_K_M.gguf", True),
        ("Tiny-8B-fp16", "org/Tiny-8B/", True),
        ("org/Tiny-8B", "org/Tiny-8B-Base", False),
        ("org/Tiny-8B", "tiny-1b-q8_0.gguf", False),
    ],
)
def test_names_of_the_same_model(one: str, other: str, same: bool) -> None:
    assert names_same_model(one, other) is same
