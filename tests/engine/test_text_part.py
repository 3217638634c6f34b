"""Models that also read images: only their text model is loaded and counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file

from specviz.engine.loading.checkup import check_pair
from specviz.engine.loading.loading import load_pair
from specviz.errors import ModelFileError, PairError
from specviz.formats.model_folder import read_folder
from specviz.record.pairs import PairSpec
from tests.engine.asking import edit_json
from tests.engine.models import build, small_tokenizer, stir, tiny_config, write_model

IDS = torch.arange(1, 60)[None]
WEIGHTS = "model.safetensors"
OLD, NEW = "language_model.model.", "model.language_model."  # layouts of transformers


def whole_model(*, tied: bool) -> Any:
    text = tiny_config("gemma3_text", tie_word_embeddings=tied)
    images = hf.SiglipVisionConfig(
        hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        image_size=28, patch_size=14,
    )  # fmt: skip
    config = hf.Gemma3Config(
        text_config=text.to_dict(), vision_config=images.to_dict(), mm_tokens_per_image=4,
        tie_word_embeddings=tied,
    )  # fmt: skip
    return stir(build(config))


def write(folder: Path, model: Any, layout: str = OLD) -> Path:
    write_model(folder, model, small_tokenizer())
    weights = load_file(folder / WEIGHTS)
    assert any(name.startswith(OLD) for name in weights)
    if layout == NEW:
        renamed = {name.replace(OLD, NEW): each for name, each in weights.items()}
        head = "language_model.lm_head."
        renamed = {name.replace(head, "lm_head."): each for name, each in renamed.items()}
        save_file(renamed, folder / WEIGHTS, {"format": "pt"})
    return folder


@pytest.mark.parametrize(("layout", "tied"), [(OLD, True), (OLD, False), (NEW, False)])
@torch.inference_mode()
def test_the_text_model_has_the_logits_of_the_whole_model(
    tmp_path: Path, layout: str, tied: bool
) -> None:
    whole = whole_model(tied=tied)
    folder = write(tmp_path / "target", whole, layout)
    spec = PairSpec(target=str(folder), threads=1)
    model: Any = load_pair(spec).target
    assert torch.equal(model(IDS).logits, whole(IDS).logits)
    text = sum(each.numel() for each in model.parameters())
    assert read_folder(folder).parameters == check_pair(spec).target.parameters == text
    assert text < sum(each.numel() for each in whole.parameters())


def test_quantised_and_missing_text_weights_are_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "target", whole_model(tied=True))
    edit_json(folder / "config.json", quantization_config={"quant_method": "fp8"})
    with pytest.raises(PairError, match="quantised"):
        check_pair(PairSpec(target=str(folder)))
    with pytest.raises(ModelFileError, match="fp8"):
        read_folder(folder)
    edit_json(folder / "config.json", quantization_config=None)
    images = {
        name: each
        for name, each in load_file(folder / WEIGHTS).items()
        if not name.startswith("language_model.")
    }
    save_file(images, folder / WEIGHTS, {"format": "pt"})
    with pytest.raises(ModelFileError, match="no weights of a text model"):
        read_folder(folder)
