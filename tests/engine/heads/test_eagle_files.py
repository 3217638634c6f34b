"""EAGLE heads from files: settings, flags of the formats, and files that are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from specviz.engine.heads.head import TargetParts
from specviz.errors import PairError
from tests.engine.heads.tiny_heads import (
    DRAFT_VOCABULARY,
    VOCABULARY,
    WIDTH,
    Change,
    assert_close,
    change_config,
    change_tensors,
    opened,
    random_rows,
    tiny_target,
    write_eagle,
    write_eagle3,
)


class TestSettings:
    def test_default_layers(self, tmp_path: Path) -> None:
        assert opened(write_eagle3(tmp_path), tiny_target(layers=28)).states.places == (2, 14, 25)

    def test_stated_layers_at_the_top_are_inputs(self, tmp_path: Path) -> None:
        folder = write_eagle3(tmp_path, eagle_aux_hidden_state_layer_ids=[1, 3, 8])
        head = opened(folder)
        assert head.states.places == (1, 3, 8)
        assert head.notices == ()

    def test_nested_layers_are_ambiguous(self, tmp_path: Path) -> None:
        nested = {"eagle_aux_hidden_state_layer_ids": [1, 3, 4]}
        head = opened(write_eagle3(tmp_path, layout="specforge", eagle_config=nested))
        assert head.states.places == (1, 3, 4)
        assert head.notices == (
            "The head reads the inputs of the target's layers 1, 3, 4, as in vLLM; SGLang reads "
            "their outputs.",
        )

    def test_missing_norm_before_residual_depends_on_the_layout(self, tmp_path: Path) -> None:
        speculators = write_eagle3(tmp_path / "a", layout="speculators", norm_before_residual=None)
        head = opened(speculators)
        assert head.settings.norm_before_residual
        assert "norm_before_residual" in head.notices[0]
        official = opened(write_eagle3(tmp_path / "b"))
        assert not official.settings.norm_before_residual
        assert official.notices == ()

    def test_norm_output_counts_only_in_the_speculators_format(self, tmp_path: Path) -> None:
        own = opened(write_eagle3(tmp_path / "a", layout="speculators", norm_output=True))
        assert own.settings.recycle_normed
        other = opened(write_eagle3(tmp_path / "b", layout="specforge", norm_output=True))
        assert not other.settings.recycle_normed
        assert "norm_output" in other.notices[0]

    def test_settings_share_the_weights(self, tmp_path: Path) -> None:
        head = opened(write_eagle3(tmp_path))
        other = head.with_settings(replace(head.settings, places=(3, 5, 6)))
        assert other.weights is head.weights
        assert type(other) is type(head)
        assert other.states.places == (3, 5, 6)

    @pytest.mark.parametrize("name", ["norm_before_fc", "fc_norm"])
    def test_setting_without_weights_is_refused(self, name: str, tmp_path: Path) -> None:
        head = opened(write_eagle3(tmp_path))
        with pytest.raises(PairError, match=f"no weights for {name}"):
            head.with_settings(replace(head.settings, **{name: True}))

    def test_place_beyond_the_target_is_refused(self, tmp_path: Path) -> None:
        head = opened(write_eagle3(tmp_path))
        with pytest.raises(PairError, match="reads layer 9"):
            head.with_settings(replace(head.settings, places=(2, 4, 9)))


class TestFlags:
    def test_norm_of_each_state(self, tmp_path: Path) -> None:
        """The norm removes a state's length, so a state may be scaled without an effect."""
        head = opened(write_eagle3(tmp_path, fc_norm=True))
        ids, states = random_rows(5, 3 * WIDTH)
        scaled = states.clone()
        scaled[:, :WIDTH] *= 50
        assert_close(
            head.start(8).begin(ids, scaled * 10),
            head.start(8).begin(ids, states * 10),
            tolerance=1e-4,
        )  # fmt: skip

    def test_logit_scale(self, tmp_path: Path) -> None:
        folder = write_eagle3(tmp_path, draft_vocabulary=VOCABULARY)
        rows = random_rows(5, 3 * WIDTH)
        plain = opened(folder).start(8).begin(*rows)
        change_config(folder, logit_scale=0.25)
        assert_close(opened(folder).start(8).begin(*rows), plain / 4)

    @pytest.mark.parametrize("tied", [True, False])
    def test_without_an_output_matrix(self, tied: bool, tmp_path: Path) -> None:
        """A tied head uses its own embedding, another head the target's output matrix."""
        target = tiny_target()
        flags: dict[str, Any] = {"own_embedding": True, "tie_word_embeddings": tied}
        folder = write_eagle3(tmp_path, output=False, **flags)
        rows = random_rows(5, 3 * WIDTH)
        head = opened(folder, target)
        logits = head.start(8).begin(*rows)
        matrix = target.output(torch.eye(WIDTH)).T

        def add_matrix(tensors: dict[str, torch.Tensor]) -> None:
            whole = tensors["embed_tokens.weight"] if tied else matrix
            tensors["lm_head.weight"] = whole[head.proposable]

        change_tensors(folder, add_matrix)
        assert_close(opened(folder, target).start(8).begin(*rows), logits)

    def test_target_of_another_width(self, tmp_path: Path) -> None:
        flags: dict[str, Any] = {"target_width": 48, "own_embedding": True}
        folder = write_eagle3(tmp_path, target_hidden_size=48, **flags)
        head = opened(folder, tiny_target(width=48))
        assert head.start(8).begin(*random_rows(3, 3 * 48)).shape == (1, VOCABULARY)

    def test_target_with_padded_vocabulary(self, tmp_path: Path) -> None:
        head = opened(
            write_eagle3(tmp_path, own_embedding=True, draft_vocabulary=VOCABULARY),
            tiny_target(vocabulary=VOCABULARY + 8),
        )
        rows = random_rows(3, 3 * WIDTH)
        logits = head.start(8).begin(torch.tensor([1, VOCABULARY + 7, 2]), rows[1])
        assert logits[0].isfinite().sum() == VOCABULARY
        assert head.proposable is not None
        assert head.proposable.tolist() == list(range(VOCABULARY))

    def test_pickled_head_equals_safetensors(self, tmp_path: Path) -> None:
        rows = random_rows(5, 3 * WIDTH)
        safe = opened(write_eagle3(tmp_path / "a"))
        pickled = opened(write_eagle3(tmp_path / "b", pickled=True))
        assert torch.equal(safe.start(8).begin(*rows), pickled.start(8).begin(*rows))
        assert pickled.notices == (
            "pytorch_model.bin is a pickle file; only its tensors were read.",
        )

    def test_additional_layers_of_sglang(self, tmp_path: Path) -> None:
        folder = write_eagle3(tmp_path, layers=2)
        rows = random_rows(5, 3 * WIDTH)
        plain = opened(folder).start(8).begin(*rows)

        def rename(tensors: dict[str, torch.Tensor]) -> None:
            for name in [each for each in tensors if each.startswith("layers.1.")]:
                tensors[name.replace("layers.1.", "additional_layers.0.")] = tensors.pop(name)

        change_tensors(folder, rename)
        assert torch.equal(opened(folder).start(8).begin(*rows), plain)

    def test_half_precision_follows_the_target(self, tmp_path: Path) -> None:
        whole = tiny_target()
        half = whole.like.to(torch.bfloat16)
        target = replace(whole, embed=lambda ids: F.embedding(ids, half), like=half)
        ids, states = random_rows(5, 3 * WIDTH)
        head = opened(write_eagle3(tmp_path), target)
        logits = head.start(8).begin(ids, states.to(torch.bfloat16))
        expected = opened(tmp_path).start(8).begin(ids, states)
        assert logits.dtype == torch.float32
        known = head.proposable
        assert (logits - expected)[:, known].abs().max() < 0.1

    def test_parameters_are_the_heads_own(self, tmp_path: Path) -> None:
        folder = write_eagle3(tmp_path, own_embedding=True, bias=True)
        tensors = change_tensors(folder, lambda _: None)
        unread = ("embed_tokens.weight", "d2t", "t2d")
        expected = sum(each.numel() for name, each in tensors.items() if name not in unread)
        assert sum(each.numel() for each in opened(folder).parameters) == expected


def _set(name: str, value: torch.Tensor) -> Change:
    return lambda tensors: tensors.update({name: value})


def _poison(tensors: dict[str, torch.Tensor]) -> None:
    tensors["norm.weight"][3] = float("nan")


def _beyond(tensors: dict[str, torch.Tensor]) -> None:
    tensors["d2t"][-1] = VOCABULARY


def _mask_beyond(tensors: dict[str, torch.Tensor]) -> None:
    del tensors["d2t"]
    known = torch.arange(VOCABULARY + 1) < DRAFT_VOCABULARY - 1
    known[-1] = True
    tensors["t2d"] = known


def _twice(tensors: dict[str, torch.Tensor]) -> None:
    tensors["d2t"][1] = tensors["d2t"][0] - 1


def _contradict(tensors: dict[str, torch.Tensor]) -> None:
    tensors["t2d"] = ~tensors["t2d"]


_BAD_TENSORS: dict[str, tuple[Change, str]] = {
    "missing": (
        lambda tensors: tensors.pop("midlayer.hidden_norm.weight"),
        "has no tensor midlayer.hidden_norm.weight",
    ),
    "no fc": (lambda tensors: tensors.pop("fc.weight"), "has no tensor fc.weight"),
    "shape": (
        _set("lm_head.weight", torch.zeros(DRAFT_VOCABULARY, 7)),
        "lm_head.weight of head has the shape 40x7 instead of 40x32",
    ),
    "single number": (_set("fc.weight", torch.tensor(1.0)), "single number instead"),
    "unknown": (_set("extra.weight", torch.zeros(2)), "unknown tensors: extra.weight"),
    "NaN": (_poison, "norm.weight of head contains NaN"),
    "quantised": (
        _set("norm.weight", torch.ones(WIDTH).to(torch.float8_e4m3fn)),
        "norm.weight of head is quantised",
    ),
    "d2t beyond": (_beyond, "d2t contains tokens outside 0 to 127"),
    "t2d beyond": (_mask_beyond, "t2d contains tokens outside 0 to 127"),
    "d2t twice": (_twice, "d2t contains a token twice"),
    "d2t of numbers": (_set("d2t", torch.zeros(DRAFT_VOCABULARY)), "d2t does not contain integers"),
    "maps": (_contradict, "d2t and t2d contradict each other"),
    "rows": (_set("lm_head.weight", torch.zeros(41, WIDTH)), "has 41 rows, but"),
    "no map": (
        lambda tensors: (tensors.pop("d2t"), tensors.pop("t2d")),
        "has 40 rows instead of 128",
    ),
    "target's width": (
        _set("fc.weight", torch.zeros(WIDTH, 100)),
        "not a multiple of the width 32",
    ),
    "joined states": (_set("fc.weight", torch.zeros(WIDTH, 2 * WIDTH)), "are for 2 hidden states"),
}
_BAD_CONFIGS: dict[str, tuple[dict[str, Any], str]] = {
    "size": ({"hidden_size": "32"}, "hidden_size in the head's config.json"),
    "groups": ({"num_key_value_heads": 3}, "num_key_value_heads in the head's config.json"),
    "rope": ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "RoPE scaling dynamic"),
    "llama3": ({"rope_scaling": {"rope_type": "llama3", "factor": 2.0}}, "rope_scaling in"),
    "part": ({"partial_rotary_factor": 0.5}, "rotates only a part"),
    "activation": ({"hidden_act": "gelu"}, "activation gelu"),
    "scale": ({"logit_scale": "big"}, "logit_scale in"),
    "two norms": ({"norm_before_fc": True, "fc_norm": True}, "both norm_before_fc and fc_norm"),
    "vocabulary": ({"vocab_size": 129}, "a vocabulary of 129 tokens"),
    "target": ({"target_hidden_size": 64}, "a target of width 64"),
    "negative": (
        {"eagle_aux_hidden_state_layer_ids": [2, 4, -1]},
        "states the negative layer id -1",
    ),
}


class TestBadInput:
    @pytest.mark.parametrize("name", _BAD_TENSORS)
    def test_tensors(self, name: str, tmp_path: Path) -> None:
        change, words = _BAD_TENSORS[name]
        folder = write_eagle3(tmp_path / "head")
        change_tensors(folder, change)
        _refused(folder, words)

    @pytest.mark.parametrize("name", _BAD_CONFIGS)
    def test_configurations(self, name: str, tmp_path: Path) -> None:
        entries, words = _BAD_CONFIGS[name]
        folder = write_eagle3(tmp_path / "head")
        change_config(folder, **entries)
        _refused(folder, words)

    def test_invalid_layer_configuration(self, tmp_path: Path) -> None:
        layer_config = {"intermediate_size": "x"}
        folder = write_eagle3(tmp_path, layout="speculators", layer_config=layer_config)
        _refused(folder, "transformer_layer_config of the head is not valid")

    def test_layers_of_the_speculators_format_are_qwen3_by_default(self, tmp_path: Path) -> None:
        folder = write_eagle3(tmp_path, layout="speculators", layer_config={"model_type": None})
        _refused(folder, "has no tensor layers.0.self_attn.q_norm.weight")

    def test_layers_that_the_target_does_not_have(self, tmp_path: Path) -> None:
        folder = write_eagle3(tmp_path, eagle_aux_hidden_state_layer_ids=[1, 2, 3])
        _refused(folder, "reads layer 3, but its target has only 2", tiny_target(layers=2))

    def test_defaults_that_coincide(self, tmp_path: Path) -> None:
        folder = write_eagle3(tmp_path)
        _refused(folder, "its target has only 6", tiny_target(layers=6))

    def test_target_of_another_width(self, tmp_path: Path) -> None:
        folder = write_eagle(tmp_path)
        _refused(folder, "made for a target of width 32", tiny_target(width=48))

    def test_gemma(self, tmp_path: Path) -> None:
        target = tiny_target(family="gemma3_text")
        _refused(write_eagle3(tmp_path), "Gemma models are not supported", target)

    def test_eagle1_with_a_norm_before_its_first_layer(self, tmp_path: Path) -> None:
        folder = write_eagle(tmp_path, architectures=["EagleLlamaForCausalLM"])
        extra = {"layers.0.input_layernorm.weight": torch.ones(WIDTH)}
        change_tensors(folder, lambda tensors: tensors.update(extra))
        _refused(folder, "unknown tensors: layers.0.input_layernorm.weight")

    def test_pickle_with_code(self, tmp_path: Path) -> None:
        folder = write_eagle3(tmp_path, pickled=True)
        torch.save({"norm.weight": Path("x")}, folder / "pytorch_model.bin")
        _refused(folder, "pytorch_model.bin contains more than tensors")

    def test_pickle_of_a_list(self, tmp_path: Path) -> None:
        folder = write_eagle3(tmp_path, pickled=True)
        torch.save([torch.zeros(2)], folder / "pytorch_model.bin")
        _refused(folder, "pytorch_model.bin is not a table of named tensors")

    @pytest.mark.parametrize("pickled", [True, False])
    @pytest.mark.parametrize("kept", [0, 0.5])
    def test_truncated_file(self, pickled: bool, kept: float, tmp_path: Path) -> None:
        folder = write_eagle3(tmp_path, pickled=pickled)
        file = folder / ("pytorch_model.bin" if pickled else "model.safetensors")
        content = file.read_bytes()
        file.write_bytes(content[: int(len(content) * kept)])
        _refused(folder, f"{file.name} is (damaged|truncated|not a complete)")


def _refused(folder: Path, words: str, target: TargetParts | None = None) -> None:
    with pytest.raises(PairError, match=words) as caught:
        opened(folder, target)
    assert "\n" not in str(caught.value)
    assert caught.value.remedy.endswith(".")
