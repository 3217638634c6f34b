"""DFlash heads: logits of the authors' code, caches, windows, vocabularies and refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

from specviz.engine.heads.dflash import DFlashHead, open_dflash
from specviz.engine.heads.head import TargetParts
from specviz.engine.model.step_capabilities import AFTER_NORM
from specviz.errors import SpecvizError
from specviz.formats.heads import read_head
from tests.engine.heads.tiny_dflash import (
    BLOCK,
    FULL,
    MASK,
    SLIDING,
    TARGET_LAYERS,
    dflash_tensors,
    write_dflash,
)
from tests.engine.heads.tiny_heads import (
    VOCABULARY,
    WIDTH,
    change_config,
    change_tensors,
    random_rows,
    tiny_target,
)

RECORDED = Path(__file__).parent / "recorded"
COLUMNS = WIDTH * len(TARGET_LAYERS)


def opened(folder: Path, target: TargetParts | None = None) -> DFlashHead:
    facts = read_head(folder)
    assert facts is not None
    assert facts.kind == "dflash"
    return open_dflash(facts, tiny_target() if target is None else target)


def block_logits(head: DFlashHead, run: Any, ids: torch.Tensor, states: torch.Tensor) -> Any:
    """All logits of a round; the choices are arbitrary."""
    rows = [run.begin(ids, states)]
    rows += [run.go_on(torch.tensor([3])) for _ in range(head.most_candidates - 1)]
    return torch.cat(rows)


def recorded_target(record: dict[str, torch.Tensor]) -> TargetParts:
    return replace(
        tiny_target(),
        embed=lambda ids: F.embedding(ids, record["embedding"]),
        output=lambda states: F.linear(states, record["output"]),
    )


def recorded_head(record: dict[str, torch.Tensor], folder: Path, **config: Any) -> DFlashHead:
    tensors = {
        name.removeprefix("weight."): each
        for name, each in record.items()
        if name.startswith("weight.")
    }
    if "ids" in record:
        ids = record["ids"]
        known = torch.zeros(VOCABULARY, dtype=torch.bool)
        known[ids] = True
        tensors |= {"lm_head.weight": record["output"], "d2t": ids - torch.arange(len(ids))}
        tensors["t2d"] = known
    return opened(write_dflash(folder, tensors, **config), recorded_target(record))


def compare_rounds(head: DFlashHead, record: dict[str, torch.Tensor]) -> float:
    """Return the largest difference from the recorded logits over all rounds."""
    run, first, worst = head.start(40), 0, 0.0
    for count, expected in zip(record["rows"].tolist(), record["logits"], strict=True):
        rows = slice(first, first + count)
        found = block_logits(head, run, record["tokens"][1:][rows], record["states"][rows])
        if "ids" in record:
            unknown = torch.ones(VOCABULARY, dtype=torch.bool)
            unknown[record["ids"]] = False
            assert found[:, unknown].isneginf().all()
            found = found[:, record["ids"]]
        assert found.argmax(-1).tolist() == expected.argmax(-1).tolist()
        worst = max(worst, float((found - expected).abs().max()))
        first += count
    return worst


def test_logits_of_three_rounds_are_those_of_the_authors_code(tmp_path: Path) -> None:
    record = load_file(RECORDED / "dflash_z_lab.safetensors")
    assert compare_rounds(recorded_head(record, tmp_path), record) < 1e-5


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("z_lab_window", {}),
        ("speculators_window", {"layout": "speculators", "sliding_window_non_causal": True}),
        ("speculators_causal", {"layout": "speculators", "sliding_window_non_causal": False}),
    ],
)
def test_sliding_windows_are_those_of_each_format(
    name: str, config: dict[str, Any], tmp_path: Path
) -> None:
    record = load_file(RECORDED / f"dflash_{name}.safetensors")
    anchored = config.get("layout") == "speculators"
    if anchored:
        config = config | {"sample_from_anchor": True, "draft_vocab_size": 40}
    head = recorded_head(record, tmp_path, layer_types=(SLIDING, FULL), **config)
    assert head.most_candidates == BLOCK - 1 + anchored
    assert compare_rounds(head, record) < 1e-5


@pytest.mark.parametrize(
    "change",
    [
        {"causal_windows": True},
        {"window_from": "anchor"},
        {"mask_token_id": MASK + 1},
    ],
)
def test_each_setting_changes_the_logits(change: dict[str, Any], tmp_path: Path) -> None:
    head = opened(write_dflash(tmp_path, layer_types=(SLIDING, FULL)))
    other = head.with_settings(replace(head.settings, **change))
    ids, states = random_rows(12, COLUMNS)
    rows = [block_logits(each, each.start(20), ids, states) for each in (head, other)]
    assert (rows[0] - rows[1]).abs().max() > 1e-3
    assert other.weights is head.weights


def test_sampling_from_the_anchor_adds_its_row(tmp_path: Path) -> None:
    head = opened(write_dflash(tmp_path))
    other = head.with_settings(replace(head.settings, sample_from_anchor=True))
    ids, states = random_rows(5, COLUMNS)
    rows = [block_logits(each, each.start(20), ids, states) for each in (head, other)]
    assert (head.most_candidates, other.most_candidates) == (BLOCK - 1, BLOCK)
    torch.testing.assert_close(rows[1][1:], rows[0])


@pytest.mark.parametrize("layer_types", [(FULL, FULL), (SLIDING, FULL)])
def test_reading_in_parts_equals_reading_at_once(
    layer_types: tuple[str, ...], tmp_path: Path
) -> None:
    head = opened(write_dflash(tmp_path, layer_types=layer_types))
    ids, states = random_rows(14, COLUMNS)
    whole = block_logits(head, head.start(20), ids, states)
    run, first = head.start(20), 0
    for last in (6, 7, 11, 14):
        found = block_logits(head, run, ids[first:last], states[first:last])
        first = last
    assert run.length == 14
    torch.testing.assert_close(found, whole, atol=1e-5, rtol=0)


def test_forgotten_rows_leave_no_trace(tmp_path: Path) -> None:
    head = opened(write_dflash(tmp_path))
    ids, states = random_rows(10, COLUMNS)
    other_ids, other_states = random_rows(4, COLUMNS, seed=8)
    run = head.start(20)
    run.begin(ids[:6], states[:6])
    run.begin(other_ids, other_states)
    run.forget(4)
    assert run.length == 6
    found = block_logits(head, run, ids[6:], states[6:])
    torch.testing.assert_close(found, block_logits(head, head.start(20), ids, states))


def test_only_the_newest_token_is_read(tmp_path: Path) -> None:
    head = opened(write_dflash(tmp_path))
    ids, states = random_rows(6, COLUMNS)
    other = torch.cat((ids[:-1] + 1, ids[-1:])) % VOCABULARY
    torch.testing.assert_close(head.start(9).begin(ids, states), head.start(9).begin(other, states))
    assert (head.start(9).begin(ids, states) - head.start(9).begin(ids + 1, states)).any()


def test_the_two_formats_state_the_same_places(tmp_path: Path) -> None:
    one = opened(write_dflash(tmp_path / "z-lab"))
    two = opened(write_dflash(tmp_path / "speculators", layout="speculators"))
    assert one.states.places == two.states.places == (2, 4, 6)


def test_the_output_of_the_last_layer_is_the_state_after_the_norm(tmp_path: Path) -> None:
    layers = {"mask_token_id": MASK, "target_layer_ids": [1, 3, 7]}
    assert opened(write_dflash(tmp_path, dflash_config=layers)).states.places == (2, 4, AFTER_NORM)


def test_unstated_layers_are_evenly_spaced(tmp_path: Path) -> None:
    tensors = dflash_tensors(3)
    folder = write_dflash(
        tmp_path, tensors, layer_types=(FULL,) * 3, dflash_config={"mask_token_id": MASK}
    )
    assert opened(folder).states.places == (2, 4, 6)


def test_a_separate_mask_embedding_replaces_the_mask_token(tmp_path: Path) -> None:
    folder = write_dflash(tmp_path)
    plain = opened(folder)
    vector = tiny_target().embed(torch.tensor([MASK]))
    ids, states = random_rows(6, COLUMNS)
    expected = plain.start(9).begin(ids, states)
    torch.save({"mask_token_id": 3, "embedding": vector[0]}, folder / "mask_embedding.pt")
    torch.testing.assert_close(opened(folder).start(9).begin(ids, states), expected)
    torch.save(vector * 2, folder / "mask_embedding.pt")
    assert (opened(folder).start(9).begin(ids, states) - expected).abs().max() > 1e-3


def test_an_own_embedding_replaces_the_targets(tmp_path: Path) -> None:
    plain, own = write_dflash(tmp_path / "plain"), write_dflash(tmp_path / "own")
    matrix = tiny_target().embed(torch.arange(VOCABULARY)) * 2
    change_tensors(own, lambda each: each.update({"embed_tokens.weight": matrix}))
    doubled = replace(tiny_target(), embed=lambda ids: matrix[ids])
    ids, states = random_rows(6, COLUMNS)
    expected = opened(plain, doubled).start(9).begin(ids, states)
    torch.testing.assert_close(opened(own).start(9).begin(ids, states), expected)


def test_biases_are_read(tmp_path: Path) -> None:
    folder = write_dflash(tmp_path)
    ids, states = random_rows(6, COLUMNS)
    expected = opened(folder).start(9).begin(ids, states)
    name = "layers.0.self_attn.o_proj.bias"
    change_tensors(folder, lambda each: each.update({name: torch.ones(WIDTH)}))
    assert (opened(folder).start(9).begin(ids, states) - expected).abs().max() > 1e-3


def test_scaled_positions_are_supported(tmp_path: Path) -> None:
    ids, states = random_rows(9, COLUMNS)
    scaled = write_dflash(tmp_path / "two", rope_scaling={"rope_type": "linear", "factor": 2.0})
    plain = opened(write_dflash(tmp_path / "one"))
    difference = opened(scaled).start(9).begin(ids, states) - plain.start(9).begin(ids, states)
    assert difference.abs().max() > 1e-3


def test_half_precision_gives_logits_in_full(tmp_path: Path) -> None:
    folder, target = write_dflash(tmp_path), tiny_target()
    half = replace(
        target,
        like=target.like.bfloat16(),
        embed=lambda ids: target.embed(ids).bfloat16(),
        output=lambda states: target.output(states.float()).bfloat16(),
    )
    ids, states = random_rows(6, COLUMNS)
    found = opened(folder, half).start(9).begin(ids, states.bfloat16())
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, opened(folder).start(9).begin(ids, states), atol=0.2, rtol=0)


def _wrong_shape(folder: Path) -> None:
    change_tensors(folder, lambda each: each.update({"norm.weight": torch.ones(WIDTH + 1)}))


def _missing(folder: Path) -> None:
    change_tensors(folder, lambda each: each.pop("layers.1.mlp.up_proj.weight"))


def _unknown(folder: Path) -> None:
    change_tensors(folder, lambda each: each.update({"layers.2.extra": torch.ones(1)}))


def _odd_fusion(folder: Path) -> None:
    change_tensors(folder, lambda each: each.update({"fc.weight": torch.ones(WIDTH, 50)}))


def _no_mask_token(folder: Path) -> None:
    change_config(folder, dflash_config={"target_layer_ids": list(TARGET_LAYERS)})


def _large_mask_token(folder: Path) -> None:
    layers = list(TARGET_LAYERS)
    change_config(folder, dflash_config={"target_layer_ids": layers, "mask_token_id": VOCABULARY})


def _deep_layer(folder: Path) -> None:
    change_config(folder, dflash_config={"target_layer_ids": [1, 3, 8], "mask_token_id": MASK})


def _few_layers(folder: Path) -> None:
    change_config(folder, dflash_config={"target_layer_ids": [1, 3], "mask_token_id": MASK})


def _bad_mask_file(folder: Path) -> None:
    (folder / "mask_embedding.pt").write_bytes(b"no tensor")


def _dynamic_positions(folder: Path) -> None:
    change_config(folder, rope_scaling={"rope_type": "dynamic", "factor": 2.0})


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_wrong_shape, "norm.weight"),
        (_missing, "layers.1.mlp.up_proj.weight"),
        (_unknown, "unknown tensors: layers.2.extra"),
        (_odd_fusion, "fc.weight"),
        (_no_mask_token, "does not state mask_token_id"),
        (_large_mask_token, "mask token 128"),
        (_deep_layer, "layer 9"),
        (_few_layers, "states 2 layers"),
        (_bad_mask_file, "mask_embedding.pt"),
        (lambda folder: change_config(folder, block_size=1), "block_size"),
        (lambda folder: change_config(folder, hidden_act="gelu"), "gelu"),
        (lambda folder: change_config(folder, hidden_size="x"), "not valid"),
        (_dynamic_positions, "dynamic"),
    ],
)
def test_bad_files_are_refused_in_one_line(
    damage: Callable[[Path], object], words: str, tmp_path: Path
) -> None:
    folder = write_dflash(tmp_path)
    damage(folder)
    with pytest.raises(SpecvizError) as refusal:
        opened(folder)
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_another_width_is_refused(tmp_path: Path) -> None:
    folder = write_dflash(tmp_path)
    with pytest.raises(SpecvizError, match="tiny-target"):
        opened(folder, tiny_target(width=48))
