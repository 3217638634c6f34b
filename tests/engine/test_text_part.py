"""Models that also read images: only their text model is loaded and counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

from specviz.engine.loading.checkup import check_pair
from specviz.engine.loading.loading import load_pair
from specviz.formats.model_folder import read_folder
from specviz.record.pairs import PairSpec
from tests.engine.models import build, small_tokenizer, stir, tiny_config, write_model


@pytest.fixture(scope="module")
def whole() -> Any:
    text = tiny_config("gemma3_text", tie_word_embeddings=True)
    images = hf.SiglipVisionConfig(
        hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        image_size=28, patch_size=14,
    )  # fmt: skip
    return stir(
        build(
            hf.Gemma3Config(
                text_config=text.to_dict(), vision_config=images.to_dict(), mm_tokens_per_image=4
            )
        )
    )


@pytest.fixture(scope="module")
def folder(whole: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("images") / "target", whole, small_tokenizer())


@torch.inference_mode()
def test_the_text_model_has_the_logits_of_the_whole_model(whole: Any, folder: Path) -> None:
    pair = load_pair(PairSpec(target=str(folder), threads=1))
    model: Any = pair.target
    ids = torch.arange(1, 60)[None]
    assert torch.equal(model(ids).logits, whole(ids).logits)
    assert not hasattr(model.model, "vision_tower")


def test_only_weights_of_the_text_model_are_counted(whole: Any, folder: Path) -> None:
    text = sum(each.numel() for each in whole.model.language_model.parameters())
    everything = sum(each.numel() for each in whole.parameters())
    assert read_folder(folder).parameters == text < everything
    assert check_pair(PairSpec(target=str(folder))).target.parameters == text
