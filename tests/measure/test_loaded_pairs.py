"""The cache of loaded pairs, and when a pair is loaded again."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from specviz.local_models.headers import Headers
from specviz.measure import loaded_pairs
from specviz.measure.loaded_pairs import LoadedPairs
from specviz.record.pairs import PairSpec
from specviz.store.load_times import expected_load


@pytest.fixture
def own_folder(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "pair"))


def test_a_pair_with_replaced_weights_is_loaded_again(own_folder: Path) -> None:
    spec = PairSpec(draft=str(own_folder / "draft"), target=str(own_folder / "target"), threads=1)
    pairs = LoadedPairs()
    first = pairs.load(spec, lambda _: None)
    assert pairs.get(spec) is pairs.load(spec, lambda _: None) is first
    weights = own_folder / "target" / "model.safetensors"
    tensors = load_file(weights)
    weights.unlink()
    save_file({name: torch.zeros_like(each) for name, each in tensors.items()}, weights)
    assert pairs.get(spec) is None
    second = pairs.load(spec, lambda _: None)
    assert second.info.target.weights_sha256 != first.info.target.weights_sha256
    assert pairs.get(spec) is second
    assert len(pairs) == 1


def test_the_least_recently_used_pair_is_evicted(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaded_pairs, "_MOST_PAIRS", 2)
    first, second, third = (
        PairSpec(draft=str(own_folder / "draft"), target=str(own_folder / "target"), threads=each)
        for each in (1, 2, 3)
    )
    pairs = LoadedPairs()
    for spec in (first, second, first, third):
        pairs.load(spec, lambda _: None)
    assert [pairs.get(spec) is not None for spec in (first, second, third)] == [True, False, True]


def test_a_new_weights_file_counts_as_a_change(own_folder: Path) -> None:
    spec = PairSpec(draft=str(own_folder / "draft"), target=str(own_folder / "target"), threads=1)
    pairs = LoadedPairs()
    pairs.load(spec, lambda _: None)
    (own_folder / "draft" / "model.safetensors.index.json").write_text("{}")
    assert pairs.get(spec) is None


def test_the_time_of_a_load_is_stored(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECVIZ_HOME", str(own_folder / "home"))
    spec = PairSpec(draft=str(own_folder / "draft"), target=str(own_folder / "target"), threads=1)
    assert expected_load(spec, Headers()) is None
    before = time.perf_counter()
    pairs = LoadedPairs()
    pairs.load(spec, lambda _: None)
    took = time.perf_counter() - before
    pairs.load(spec, lambda _: None)  # it is loaded already
    found = expected_load(spec, Headers())
    assert found is not None
    assert found.num_loads == 1
    assert 0 < found.low == found.high < took
