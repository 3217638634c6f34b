"""Pairs from the Hub through the installed client, and refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub import constants

from specviz.errors import PairError
from specviz.record.pairs import Progress
from tests.engine.asking import load, refusal
from tests.engine.fake_hub import FakeHub
from tests.engine.models import (
    small_tokenizer,
    tiny_model,
    write_model,
)


def test_a_pair_from_the_hub(llama: Path, hub: FakeHub, monkeypatch) -> None:
    hub.repositories = {"us/target": llama / "target", "us/draft": llama / "draft"}
    reports: list[Progress] = []
    pair = load(llama, target="us/target", draft="us/draft", progress=reports.append)
    local = load(llama)
    assert pair.name == "us/target + us/draft"
    assert pair.info.target.weights_sha256 == local.info.target.weights_sha256
    assert any(each.text.startswith("downloading us/target: 100 %") for each in reports)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert load(llama, target="us/target", draft="us/draft").name == pair.name


def test_detects_a_mismatch_before_downloading_weights(
    llama: Path, hub: FakeHub, tmp_path: Path
) -> None:
    odd = small_tokenizer(300)
    odd.add_tokens([f"<{i}>" for i in range(20)])
    hub.repositories = {"us/odd": write_model(tmp_path / "odd", tiny_model(), odd)}
    assert "different tokenizers" in refusal(PairError, llama, draft="us/odd")
    assert "tokenizer.json" in hub.sent
    assert "model.safetensors" not in hub.sent


def test_hub_refusals(llama: Path, hub: FakeHub) -> None:
    hub.repositories = {"us/gated": llama / "target"}
    hub.gated = {"us/gated"}
    message = refusal(PairError, llama, target="us/gated")
    assert "us/gated is gated" in message
    assert "hf auth login" in message
    assert "no model us/nothing" in refusal(PairError, llama, target="us/nothing")
    assert "neither a folder nor a Hub id" in refusal(PairError, llama, target="what is this?")


def test_pickles_on_the_hub_are_not_fetched(llama_copy: Path, hub: FakeHub) -> None:
    (llama_copy / "target" / "model.safetensors").rename(
        llama_copy / "target" / "pytorch_model.bin"
    )
    hub.repositories = {"us/old": llama_copy / "target"}
    assert "no weights in safetensors" in refusal(PairError, llama_copy, target="us/old")
    assert "pytorch_model.bin" not in hub.sent


def test_the_hub_cannot_be_reached(llama: Path, hub: FakeHub, monkeypatch) -> None:
    hub.broken = True
    assert "Hub cannot be reached" in refusal(PairError, llama, target="us/target")
    hub.shutdown()
    hub.server_close()
    assert "Hub cannot be reached" in refusal(PairError, llama, target="us/target")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert "Hub cannot be reached" in refusal(PairError, llama, target="us/target")


@pytest.mark.parametrize("place", ["./nothing", "/no/such/folder", "~/nothing", "a/b/c", "", " "])
def test_a_missing_folder_is_not_looked_up(llama: Path, hub: FakeHub, place: str) -> None:
    hub.broken = True  # a request would give another error
    assert "does not exist" in refusal(PairError, llama, draft=place)
