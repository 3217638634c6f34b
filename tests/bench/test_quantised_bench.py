"""The bench of quantised weights on a tiny file, without llama.cpp."""

from __future__ import annotations

from pathlib import Path

import pytest

from specviz.bench import llamacpp, quantised_bench
from specviz.bench.quantised_bench import run_quantised_bench
from specviz.engine import load_pair
from specviz.errors import ConfigError
from specviz.formats.gguf_header import read_header
from specviz.formats.gguf_requantising import write_requantised
from specviz.record.pairs import PairSpec
from specviz.record.prompts import read_presets
from tests.engine.models import tiny_model
from tests.engine.test_gguf import write_file


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_file(tmp_path, tiny_model().requires_grad_(False), "Q4_1")


@pytest.mark.thorough
def test_a_copy_has_the_same_metadata_and_another_type(file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.gguf"
    write_requantised(file, "Q8_0", copy)
    old, new = read_header(file), read_header(copy)
    assert {each.kind for each in new.tensors} == {"F32", "Q8_0"}
    assert [(each.name, each.shape) for each in new.tensors] == [
        (each.name, each.shape) for each in old.tensors
    ]
    assert new.architecture == old.architecture
    assert load_pair(PairSpec(target=str(copy), threads=1)).info.target.weights == "Q8_0"


@pytest.mark.thorough
def test_every_type_has_a_row(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llamacpp, "version", lambda: None)
    monkeypatch.setattr(quantised_bench, "_TOKENS", 8)
    one_of_each = {each.kind: each for each in read_presets() if each.kind in ("story", "list")}
    monkeypatch.setattr(quantised_bench, "read_presets", lambda: [*one_of_each.values()])
    spec = PairSpec(target=str(file), threads=1)
    result = run_quantised_bench(spec, ["q8_0"], 2, load_pair, lambda _: None)
    stored, copy = result["rows"]
    assert [stored["weights"], copy["weights"]] == ["stored: Q4_1", "Q8_0"]
    assert 0 < stored["kl_nats"] < 0.5
    assert stored["first_divergence"] <= 8
    assert copy["megabytes"] > stored["megabytes"]
    assert set(result["ratios"]) == {"stored: Q4_1 lookup_vs_plain", "Q8_0 lookup_vs_plain"}
    assert result["notices"] == [llamacpp.NOT_INSTALLED]


def test_other_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a GGUF file"):
        run_quantised_bench(PairSpec(target=str(tmp_path)), [], 1, load_pair, lambda _: None)
