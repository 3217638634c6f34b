"""Medusa heads: logits of the authors' code, every layout of files, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from specviz.engine.heads.head import TargetParts
from specviz.engine.heads.medusa import MedusaHead, MedusaSettings, open_medusa
from specviz.engine.model.step_capabilities import AFTER_NORM
from specviz.errors import ModelFileError
from specviz.formats.heads import read_head
from tests.engine.heads.tiny_heads import VOCABULARY, WIDTH, random_rows, tiny_target
from tests.engine.heads.tiny_medusa import (
    COUNT,
    in_vllm_form,
    medusa_tensors,
    without,
    write_medusa,
    write_official_names,
)

RECORDED = Path(__file__).parent / "recorded" / "medusa.safetensors"
CHOSEN = torch.tensor([3])


def opened(folder: Path, target: TargetParts | None = None) -> MedusaHead:
    facts = read_head(folder)
    assert facts is not None
    assert facts.kind == "medusa"
    return open_medusa(facts, tiny_target() if target is None else target)


def round_logits(head: MedusaHead, ids: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
    """The logits of all candidates in one round; the choices are arbitrary."""
    run = head.start(20)
    rows = [run.begin(ids, states)]
    rows += [run.go_on(CHOSEN) for _ in range(head.most_candidates - 1)]
    return torch.cat(rows)


def test_logits_are_those_of_the_authors_code(tmp_path: Path) -> None:
    record = load_file(RECORDED)
    tensors = {n.removeprefix("weight."): t for n, t in record.items() if n.startswith("weight.")}
    head = opened(write_medusa(tmp_path, tensors))
    ids, states = torch.arange(5), record["states"]
    for last in range(1, 6):
        found = round_logits(head, ids[:last], states[:last])
        expected = record["logits"][:, last - 1]
        assert (found - expected).abs().max() < 1e-5
        assert found.argmax(-1).tolist() == expected.argmax(-1).tolist()


def test_heads_are_counted_from_the_tensors_and_read_the_final_state(tmp_path: Path) -> None:
    head = opened(write_medusa(tmp_path, medusa_num_heads=2))
    assert head.most_candidates == COUNT == 3
    assert head.states.places == (AFTER_NORM,)
    assert head.proposable is None


@pytest.mark.parametrize(
    "write",
    [
        lambda folder, tensors: write_medusa(folder, in_vllm_form(tensors)),
        lambda folder, tensors: write_medusa(
            folder, {f"medusa_heads.{n}": t for n, t in in_vllm_form(tensors).items()}
        ),
        lambda folder, tensors: write_medusa(
            folder, {f"medusa_head.{n}": t for n, t in tensors.items()}
        ),
        lambda folder, tensors: write_official_names(folder, tensors, ".pt"),
        lambda folder, tensors: write_official_names(folder, tensors, ".safetensors"),
    ],
    ids=["vllm", "vllm-prefix", "full-model", "pickle", "official-name"],
)
def test_all_layouts_give_the_same_logits(
    write: Callable[[Path, dict[str, torch.Tensor]], Path], tmp_path: Path
) -> None:
    tensors = medusa_tensors()
    ids, states = random_rows(4, WIDTH)
    expected = round_logits(opened(write_medusa(tmp_path / "official", tensors)), ids, states)
    head = opened(write(tmp_path / "other", tensors))
    torch.testing.assert_close(round_logits(head, ids, states), expected)
    assert bool(head.notices) == (tmp_path / "other" / "medusa_lm_head.pt").exists()


def test_zero_blocks_without_biases_leave_only_the_output(tmp_path: Path) -> None:
    tensors = without(medusa_tensors(depth=1), ".bias")
    tensors |= {f"{head}.0.linear.weight": torch.zeros(WIDTH, WIDTH) for head in range(COUNT)}
    ids, states = random_rows(4, WIDTH)
    found = round_logits(opened(write_medusa(tmp_path, tensors)), ids, states)
    outputs = torch.stack([tensors[f"{head}.1.weight"] for head in range(COUNT)])
    torch.testing.assert_close(found, outputs @ states[-1])


def test_heads_without_output_matrices_use_the_targets(tmp_path: Path) -> None:
    target = tiny_target()
    matrix = target.output(torch.eye(WIDTH)).T
    tensors = medusa_tensors()
    tensors |= {f"{head}.2.weight": matrix.contiguous().clone() for head in range(COUNT)}
    ids, states = random_rows(4, WIDTH)
    expected = round_logits(opened(write_medusa(tmp_path / "own", tensors)), ids, states)
    shared = {name: each for name, each in tensors.items() if ".2." not in name}
    head = opened(write_medusa(tmp_path / "shared", shared))
    torch.testing.assert_close(round_logits(head, ids, states), expected)


def test_one_output_matrix_can_serve_all_heads(tmp_path: Path) -> None:
    tensors = medusa_tensors()
    tensors |= {f"{head}.2.weight": tensors["0.2.weight"].clone() for head in range(COUNT)}
    ids, states = random_rows(4, WIDTH)
    expected = round_logits(opened(write_medusa(tmp_path / "own", tensors)), ids, states)
    renamed = in_vllm_form(tensors)
    shared = {name: each for name, each in renamed.items() if not name.startswith("lm_heads.")}
    shared["lm_head.weight"] = tensors["0.2.weight"]
    head = opened(write_medusa(tmp_path / "shared", shared))
    torch.testing.assert_close(round_logits(head, ids, states), expected)
    assert sum(len(each) == VOCABULARY for each in head.parameters) == 1


def test_a_token_map_leaves_the_other_tokens_without_probability(tmp_path: Path) -> None:
    kept = torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(1))[:40]
    ids, states = random_rows(4, WIDTH)
    full = medusa_tensors()
    expected = round_logits(opened(write_medusa(tmp_path / "full", full)), ids, states)
    part = {n: t[kept].clone() if n.endswith(".2.weight") else t for n, t in full.items()}
    named = in_vllm_form(part) | {"token_map": kept}
    head = opened(write_medusa(tmp_path / "part", named))
    found = round_logits(head, ids, states)
    torch.testing.assert_close(found[:, kept], expected[:, kept])
    others = torch.ones(VOCABULARY, dtype=torch.bool)
    others[kept] = False
    assert found[:, others].isneginf().all()
    assert head.proposable is not None
    assert head.proposable.tolist() == kept.tolist()


def test_padding_of_the_targets_vocabulary_is_never_proposed(tmp_path: Path) -> None:
    head = opened(write_medusa(tmp_path, medusa_tensors(rows=VOCABULARY - 8)))
    found = round_logits(head, *random_rows(4, WIDTH))
    assert found[:, -8:].isneginf().all()
    assert found[:, :-8].isfinite().all()


def test_reading_in_parts_and_forgetting_equal_reading_at_once(tmp_path: Path) -> None:
    head = opened(write_medusa(tmp_path))
    ids, states = random_rows(8, WIDTH)
    expected = head.start(20).begin(ids, states)
    run = head.start(20)
    run.begin(ids[:5], states[:5])
    run.begin(*random_rows(2, WIDTH, seed=9))
    run.go_on(CHOSEN)
    run.forget(2)
    assert run.length == 5
    torch.testing.assert_close(run.begin(ids[5:], states[5:]), expected)
    assert run.length == 8


def test_half_precision_gives_logits_in_full(tmp_path: Path) -> None:
    folder, target = write_medusa(tmp_path), tiny_target()
    half = replace(target, like=target.like.bfloat16())
    ids, states = random_rows(4, WIDTH)
    found = opened(folder, half).start(9).begin(ids, states.bfloat16())
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, opened(folder).start(9).begin(ids, states), atol=0.2, rtol=0)


def test_the_first_head_is_a_setting(tmp_path: Path) -> None:
    head = opened(write_medusa(tmp_path))
    ids, states = random_rows(4, WIDTH)
    later = head.with_settings(replace(head.settings, first_head=1))
    expected = round_logits(head, ids, states)[1:]
    torch.testing.assert_close(round_logits(later, ids, states), expected)
    assert head.with_settings(MedusaSettings(place=5)).states.places == (5,)


def _no_second_head(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: each for name, each in tensors.items() if not name.startswith("1.")}


def _one_output_less(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: each for name, each in tensors.items() if name != "1.2.weight"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_no_second_head, "equally deep"),
        (_one_output_less, "different sizes"),
        (lambda each: without(each, "0.1.linear.weight"), "equally deep"),
        (lambda each: each | {"0.1.linear.weight": torch.ones(WIDTH, WIDTH + 1)}, "0.1.linear"),
        (lambda each: each | {"0.1.linear.bias": torch.ones(WIDTH + 1)}, "0.1.linear.bias"),
        (lambda each: each | {"0.2.weight": torch.ones(VOCABULARY + 1, WIDTH)}, "129 rows"),
        (lambda each: each | {"token_map": torch.zeros(VOCABULARY).long()}, "repeated"),
        (lambda each: each | {"token_map": torch.arange(VOCABULARY) + 1}, "not in tiny-target"),
        (lambda each: each | {"token_map": torch.arange(3)}, "token_map"),
        (lambda each: each | {"norm.weight": torch.ones(WIDTH)}, "unknown tensors: norm.weight"),
        (lambda each: {"norm.weight": torch.ones(WIDTH)}, "equally deep"),
    ],
)
def test_bad_files_are_refused_in_one_line(
    change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]],
    words: str,
    tmp_path: Path,
) -> None:
    folder = write_medusa(tmp_path, change(medusa_tensors()))
    with pytest.raises(ModelFileError) as refusal:
        opened(folder)
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)
