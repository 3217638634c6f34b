"""Exports of drafts: they load again with equal logits, and state what other engines read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from specviz.engine import Pair, load_pair
from specviz.errors import ConfigError, SpecvizError, TrainingError
from specviz.formats.gguf_header import read_header
from specviz.formats.gguf_writing import llama3_factors
from specviz.formats.heads import read_head
from specviz.record.pairs import PairSpec
from specviz.training.drafts.export import draft_commands, export, exports_of, read_trained
from specviz.training.drafts.medusa import MedusaDraft
from specviz.training.drafts.serving import llamacpp_command
from specviz.training.drafts.small import SmallDraft
from specviz.training.drafts.target_weights import TargetWeights
from tests.engine.heads.tiny_heads import (
    DRAFT_VOCABULARY,
    HEADS,
    LAYER_IDS,
    VOCABULARY,
    WIDTH,
    assert_close,
    change_config,
    opened,
    random_rows,
    tiny_target,
    write_eagle,
    write_eagle3,
)
from tests.engine.models import pair_of, small_tokenizer, stir, tiny_model, write_model
from tests.formats.tiny_gguf import tiny_gguf

IDS = "eagle_aux_hidden_state_layer_ids"


def written_head(folder: Path, **changes: Any) -> Path:
    """Write a head as the training does, but with random weights."""
    stated = {IDS: list(LAYER_IDS), "target_model": "maker/target"} | changes
    return write_eagle3(folder, layout="specforge", **stated)


def small_draft(pair: Pair, known: torch.Tensor | None = None) -> SmallDraft:
    kept = torch.arange(pair.vocabulary) if known is None else known
    return SmallDraft(pair, TargetWeights.of(pair), kept, 1, 1)


def logits_of(folder: Path, **target: Any) -> torch.Tensor:
    ids, states = random_rows(7, 3 * WIDTH)
    return opened(folder, tiny_target(**target)).start(16).begin(ids, states)


def config_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "config.json").read_text())


@pytest.mark.parametrize("how", ["eagle", "speculators"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm_before_residual": True, "norm_before_fc": True},
        {"fc_norm": True, "layers": 2, "bias": True},
        {"own_embedding": True, "rope_theta": 5e5, "rms_norm_eps": 1e-2, "logit_scale": 0.5},
        {
            "rope_scaling": {
                "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                "high_freq_factor": 4.0, "original_max_position_embeddings": 16,
            }
        },
    ],
    ids=lambda each: "-".join(each) or "plain",
)  # fmt: skip
def test_an_exported_head_has_the_logits_of_the_trained_one(
    how: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    head = written_head(tmp_path / "head", **changes)
    made = export(head, how, tmp_path / "out")
    assert_close(logits_of(made.folder), logits_of(head), tolerance=0)
    assert opened(made.folder).settings == opened(head).settings
    assert opened(made.folder).notices == ()


def test_the_speculators_file_states_target_candidates_and_layers(tmp_path: Path) -> None:
    head = written_head(tmp_path / "head")
    made = export(head, "speculators", tmp_path / "out", gamma=4)
    facts = read_head(made.folder)
    assert facts is not None
    assert (facts.target, facts.candidates) == ("maker/target", 4)
    assert (facts.feature_layers, facts.convention) == (LAYER_IDS, "input")
    config = config_of(made.folder)
    assert config["speculators_model_type"] == "eagle3"
    assert config["draft_vocab_size"] == DRAFT_VOCABULARY
    assert config["transformer_layer_config"]["vocab_size"] == VOCABULARY
    assert config["dtype"] == "float32"
    names = set(load_file(made.folder / "model.safetensors"))
    assert "layers.0.hidden_norm.weight" in names
    assert not any(name.startswith("midlayer") for name in names)


def test_another_target_replaces_the_stated_one(tmp_path: Path) -> None:
    target = tmp_path / "target"
    write_model(target, tiny_model("llama"), small_tokenizer())
    head = written_head(tmp_path / "head")
    made = export(head, "speculators", tmp_path / "out", target=str(target))
    verifier = config_of(made.folder)["speculators_config"]["verifier"]
    assert verifier == {"name_or_path": str(target), "architectures": ["LlamaForCausalLM"]}
    assert str(target) in made.command.text


@pytest.mark.parametrize(
    ("places", "layers", "nested"),
    [((2, 4, 5), 8, None), ((2, 15, 27), 30, None), ((1, 2, 3), 4, [0, 1, 2]),
     ((2, 3, 4), 5, [1, 2, 3]), ((2, 3, 4), 7, [1, 2, 3]), ((2, 5, 10), 14, [1, 4, 9])],
)  # fmt: skip
def test_sglang_reads_the_heads_layers(
    places: tuple[int, ...], layers: int, nested: list[int] | None, tmp_path: Path
) -> None:
    """SGLang reads layer outputs from a nested list; without one, the authors' layers."""
    head = written_head(tmp_path / "head", **{IDS: list(places)})
    made = export(head, "eagle", tmp_path / "out").folder
    stated = config_of(made).get("eagle_config", {}).get(IDS)
    assert stated == nested
    assert opened(made, tiny_target(layers=layers)).states.places == places
    if stated is None:
        assert places == (2, layers // 2, layers - 3)


def test_commands_name_target_draft_and_candidates(tmp_path: Path) -> None:
    head = written_head(tmp_path / "my head")
    place = tmp_path / "out put"
    vllm = export(head, "speculators", place, gamma=3).command
    quoted = f'{{"method": "eagle3", "model": "{place}", "num_speculative_tokens": 3}}'
    assert vllm.text == f"vllm serve maker/target --speculative-config '{quoted}'"
    sglang = export(head, "eagle", tmp_path / "sglang", gamma=5).command
    assert sglang.text == (
        "python -m sglang.launch_server --model-path maker/target --speculative-algorithm EAGLE3 "
        f"--speculative-draft-model-path {tmp_path / 'sglang'} --speculative-num-steps 5 "
        "--speculative-eagle-topk 1 --speculative-num-draft-tokens 6"
    )
    llamacpp = llamacpp_command("a model.gguf", Path("/d/draft.gguf"), "draft-eagle3", 2)
    assert llamacpp.text == (
        "llama-server --model 'a model.gguf' --spec-type draft-eagle3 "
        "--spec-draft-model /d/draft.gguf --spec-draft-n-max 2 --metrics"
    )


def test_target_and_candidates_come_from_the_training(tmp_path: Path) -> None:
    """A small model's files name no target; the plan beside it does."""
    target = tiny_model("llama")
    pair = pair_of(target, None, step="lean")
    small_draft(pair).write(tmp_path / "draft")
    with pytest.raises(ConfigError, match="does not name its target"):
        draft_commands(tmp_path)
    (tmp_path / "plan.json").write_text('{"name": "maker/target", "positions": 7}')
    (command,) = draft_commands(tmp_path)
    assert command.text == (
        "vllm serve maker/target --speculative-config '"
        f'{{"method": "draft_model", "model": "{tmp_path / "draft"}", '
        '"num_speculative_tokens": 7}\''
    )


def test_medusa_heads_are_served_as_they_are(tmp_path: Path) -> None:
    pair = pair_of(tiny_model("llama"), None, step="lean")
    target = TargetWeights.of(pair)
    MedusaDraft(target, torch.arange(16), 2).write(tmp_path)
    assert draft_commands(tmp_path, target="maker/target") == ()  # vLLM cannot load them
    MedusaDraft(target, torch.arange(target.vocabulary), 2).write(tmp_path)
    (command,) = draft_commands(tmp_path, target="maker/target")
    assert '"method": "medusa"' in command.text
    assert '"num_speculative_tokens": 2' in command.text
    assert exports_of(read_trained(tmp_path)) == ()
    with pytest.raises(ConfigError, match=r"kind medusa.*Load the draft's folder"):
        export(tmp_path, "speculators", tmp_path / "out")


class TestSmallModels:
    @pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
    def test_the_gguf_file_has_the_logits_of_the_folder(self, family: str, tmp_path: Path) -> None:
        made = self.exported(family, tmp_path)
        (file,) = made.files
        ids = torch.tensor([5, 9, 3, 200, 7])
        found = [
            self.loaded(tmp_path, place).draft_step(8).feed(ids, 5)
            for place in (file, tmp_path / "training" / "draft")
        ]
        assert_close(found[0], found[1], tolerance=1e-6)
        assert "draft-simple" in made.command.text

    @pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
    def test_a_reduced_vocabulary_is_written_whole(self, family: str, tmp_path: Path) -> None:
        """Tokens that the model cannot propose have the logit 0 in the GGUF file."""
        known = torch.arange(0, 320, 3)
        made = self.exported(family, tmp_path, known)
        ids = torch.tensor([5, 9, 3, 200, 7])
        file, folder = (
            self.loaded(tmp_path, place).draft_step(8).feed(ids, 5)
            for place in (*made.files, tmp_path / "training" / "draft")
        )
        assert_close(file[:, known], folder[:, known], tolerance=1e-6)
        unknown = torch.ones(320, dtype=torch.bool)
        unknown[known] = False
        assert not file[:, unknown].any()
        assert not folder.softmax(-1)[:, unknown].any()
        assert draft_commands(tmp_path / "training", target="a/b") == ()  # vLLM cannot load it

    def exported(self, family: str, folder: Path, known: torch.Tensor | None = None) -> Any:
        target = stir(tiny_model(family))
        write_model(folder / "target", target, small_tokenizer())
        pair = pair_of(target, None, step="lean")
        small_draft(pair, known).write(folder / "training" / "draft")
        return export(folder / "training", "gguf", folder / "out", target=str(folder / "target"))

    def loaded(self, folder: Path, draft: Path) -> Pair:
        target = str(folder / "target")
        return load_pair(PairSpec(threads=1, dtype="float32", target=target, draft=str(draft)))

    def test_a_targets_gguf_file_gives_its_vocabulary(self, tmp_path: Path) -> None:
        self.exported("llama", tmp_path)
        target = tiny_gguf(tmp_path / "target.gguf", tokens=200, last="unusual")
        made = export(tmp_path / "training", "gguf", tmp_path / "again", target=str(target))
        found, own = (read_header(each) for each in (*made.files, target))
        keys = [key for key in own.values if key.startswith("tokenizer.")]
        longer = {"tokenizer.ggml.tokens", "tokenizer.ggml.token_type"}
        assert len(keys) > 5
        assert all(found.values[key] == own.values[key] for key in set(keys) - longer)
        tokens = found.strings("tokenizer.ggml.tokens")
        assert tokens[:200] == own.strings("tokenizer.ggml.tokens")
        assert tokens[200:202] == ["[PAD200]", "[PAD201]"]
        assert found.numbers("tokenizer.ggml.token_type")[198:202] == [1, 1, 5, 5]
        assert f"--model {target}" in made.command.text

    def test_a_family_without_gguf_is_refused(self, tmp_path: Path) -> None:
        write_model(tmp_path, tiny_model("gpt2"), small_tokenizer())
        with pytest.raises(ConfigError, match="family gpt2"):
            export(tmp_path, "gguf", tmp_path / "out", target="a/b")


class TestHeadsInGguf:
    def exported(self, folder: Path, **changes: Any) -> tuple[Path, Path]:
        head = written_head(folder / "head", **changes)
        target = tiny_gguf(folder / "target.gguf", tokens=VOCABULARY - 3)
        (file,) = export(head, "gguf", folder / "out", target=str(target)).files
        return head, file

    def test_tensors_are_where_llama_cpp_reads_them(self, tmp_path: Path) -> None:
        head, file = self.exported(tmp_path, norm_before_residual=True, norm_before_fc=True)
        own = load_file(head / "model.safetensors")
        found = {each.name: each.data for each in gguf.GGUFReader(file).tensors}
        same = {
            "fc.weight": "fc.weight", "enc.output_norm.weight": "input_norm.weight",
            "output.weight": "lm_head.weight", "output_norm.weight": "norm.weight",
            "blk.0.attn_norm.weight": "midlayer.input_layernorm.weight",
            "blk.0.attn_norm_2.weight": "midlayer.hidden_norm.weight",
            "blk.0.attn_v.weight": "midlayer.self_attn.v_proj.weight",
            "blk.0.attn_output.weight": "midlayer.self_attn.o_proj.weight",
            "blk.0.ffn_norm.weight": "midlayer.post_attention_layernorm.weight",
            "blk.0.ffn_gate.weight": "midlayer.mlp.gate_proj.weight",
            "blk.0.ffn_up.weight": "midlayer.mlp.up_proj.weight",
            "blk.0.ffn_down.weight": "midlayer.mlp.down_proj.weight",
        }  # fmt: skip
        for theirs, ours in same.items():
            np.testing.assert_array_equal(found.pop(theirs), own[ours].numpy())
        ids = torch.nonzero(own["t2d"])[:, 0].numpy()
        np.testing.assert_array_equal(found.pop("d2t"), ids)
        half = WIDTH // HEADS // 2
        for name in "qk":
            rows = own[f"midlayer.self_attn.{name}_proj.weight"].numpy()
            paired = found.pop(f"blk.0.attn_{name}.weight")
            for pair in (0, 1, half, 2 * half - 1):  # rows of one rotation, in two heads
                block, at = divmod(pair, half)
                first = 2 * half * block + at
                np.testing.assert_array_equal(paired[2 * pair], rows[first])
                np.testing.assert_array_equal(paired[2 * pair + 1], rows[first + half])
        assert not found

    def test_metadata_states_layers_widths_and_switches(self, tmp_path: Path) -> None:
        _, file = self.exported(tmp_path, norm_before_residual=True)
        values = read_header(file).values
        assert values["general.architecture"] == "eagle3"
        assert values["eagle3.target_layers"] == list(LAYER_IDS)
        assert values["eagle3.target_hidden_size"] == WIDTH
        assert values["eagle3.norm_before_residual"] is True
        assert values["eagle3.norm_before_fc"] is False
        assert values["eagle3.vocab_size"] == VOCABULARY
        assert values["tokenizer.ggml.pre"] == "gpt-2"
        assert read_header(file).count("tokenizer.ggml.tokens") == VOCABULARY
        assert read_header(file).count("tokenizer.ggml.token_type") == VOCABULARY

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"layers": 2}, "cannot store layers.1"),
            ({"fc_norm": True}, "cannot store fc_norm"),
            ({"bias": True}, "cannot store midlayer"),
            ({"joined": 2, IDS: [2, 5]}, "one layer that reads three"),
        ],
    )
    def test_heads_that_llama_cpp_cannot_run_are_refused(
        self, changes: dict[str, Any], words: str, tmp_path: Path
    ) -> None:
        with pytest.raises(ConfigError, match=words):
            self.exported(tmp_path, **changes)
        assert not list((tmp_path / "out").iterdir())

    def test_the_targets_vocabulary_is_needed(self, tmp_path: Path) -> None:
        head = written_head(tmp_path / "head")
        with pytest.raises(ConfigError, match="target is not a file or folder"):
            export(head, "gguf", tmp_path / "out")


def test_llama3_factors_are_those_of_the_library() -> None:
    scaling: dict[str, Any] = {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64, "rope_theta": 5e5,
    }  # fmt: skip
    config = LlamaConfig(
        hidden_size=64, num_attention_heads=1, head_dim=64, rope_parameters=scaling
    )  # pyright: ignore[reportCallIssue]
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, torch.device("cpu"))
    plain = 5e5 ** -(np.arange(0, 64, 2) / 64)
    factors = llama3_factors(5e5, 64, scaling)
    np.testing.assert_allclose(plain / factors, scaled.numpy(), rtol=1e-6)
    assert len({round(each, 3) for each in factors}) > 4


class TestRefusals:
    @pytest.mark.parametrize(
        ("how", "more", "words"),
        [
            ("onnx", {}, "export is 'onnx'"),
            ("eagle", {"gamma": 0}, "gamma is 0"),
            ("eagle", {"gamma": 65}, "gamma is 65"),
        ],
    )
    def test_unknown_settings(
        self, how: str, more: dict[str, Any], words: str, tmp_path: Path
    ) -> None:
        head = written_head(tmp_path / "head")
        with pytest.raises(ConfigError, match=words):
            export(head, how, tmp_path / "out", **more)

    def test_the_draft_itself_is_not_replaced(self, tmp_path: Path) -> None:
        head = written_head(tmp_path / "training" / "draft")
        with pytest.raises(ConfigError, match="replace the draft itself"):
            export(tmp_path / "training", "eagle", head)

    def test_a_folder_that_cannot_be_written(self, tmp_path: Path) -> None:
        head = written_head(tmp_path / "head")
        (tmp_path / "out").write_text("a file")
        with pytest.raises(TrainingError, match="out cannot be written"):
            export(head, "eagle", tmp_path / "out")

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({IDS: None}, "does not say which layers"),
            ({"speculators_model_type": "eagle3"}, "in the speculators format already"),
        ],
    )
    def test_heads_of_another_layout(
        self, changes: dict[str, Any], words: str, tmp_path: Path
    ) -> None:
        change_config(head := written_head(tmp_path / "head"), **changes)
        with pytest.raises(ConfigError, match=words):
            export(head, "speculators", tmp_path / "out", target="a/b")

    def test_other_kinds_and_damaged_files(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="kind eagle "):
            export(write_eagle(tmp_path / "one"), "eagle", tmp_path / "out", target="a/b")
        head = written_head(tmp_path / "head")
        content = (head / "model.safetensors").read_bytes()
        (head / "model.safetensors").write_bytes(content[:200])
        with pytest.raises(SpecvizError, match="safetensors"):
            export(head, "eagle", tmp_path / "out")

    def test_the_card_is_copied(self, tmp_path: Path) -> None:
        head = written_head(tmp_path / "head")
        (head / "README.md").write_text("the card")
        made = export(head, "eagle", tmp_path / "out")
        assert (made.folder / "README.md").read_text() == "the card"
        assert {each.name for each in made.files} == {
            "README.md", "config.json", "model.safetensors",
        }  # fmt: skip
