"""Draft models with a reduced output: exact runs, steps, and the files that are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from specviz.engine import Pair, check_pair, decode_plainly, load_pair, speculate
from specviz.engine.decoding.batched_run import BatchedSpeculation
from specviz.engine.model.growing import grow
from specviz.engine.model.pass_bytes import draft_bytes
from specviz.engine.model.reduced_output import NEVER
from specviz.errors import PairError
from specviz.formats.heads import head_kind
from specviz.formats.reduced_drafts import OFFSETS
from specviz.record.bodies import Shape
from specviz.record.pairs import PairSpec
from specviz.record.run_config import RunConfig
from tests.engine import test_lossless
from tests.engine.models import VOCABULARY, noisy_copy, pair_of, tiny_model, write_pair
from tests.engine.playing import PROMPT, config
from tests.engine.reduced_models import reduce_folder, reduced
from tests.engine.test_lossless import ENOUGH, exact_distribution, p_value

KNOWN = tuple(range(0, VOCABULARY, 2))
METHODS: dict[str, dict[str, Any]] = {
    "chain": {},
    "tree": {"branching": (3, 2, 1)},
    "block": {"rule": "block"},
    "coupled": {"rule": "coupled"},
    "match": {"rule": "match"},
}
TEXTS = {"chain": 1_500, "block": 1_500, "tree": 600}


@cache
def whole_pair(step: str = "lean") -> Pair:
    target = tiny_model("llama", sigma=0.2)
    return pair_of(target, noisy_copy(target, 0.04), step=step)


@cache
def reduced_pair(step: str = "lean") -> Pair:
    whole = whole_pair(step)
    return pair_of(whole.target, reduced(whole.draft, KNOWN), step=step)


def assert_reduced(found: torch.Tensor, whole: torch.Tensor) -> None:
    unknown = torch.ones(VOCABULARY, dtype=torch.bool)
    unknown[list(KNOWN)] = False
    torch.testing.assert_close(found[:, ~unknown], whole[:, ~unknown], atol=1e-4, rtol=1e-4)
    assert (found[:, unknown] == NEVER).all()
    assert not found.softmax(-1)[:, unknown].any()


@pytest.mark.parametrize("step", ["library", "lean"])
@pytest.mark.parametrize("count", [1, 5, 60])
def test_known_tokens_have_the_logits_of_the_whole_model(step: str, count: int) -> None:
    ids = torch.arange(3, 3 + count)
    found, whole = (
        each(step).draft_step(80).feed(ids, count) for each in (reduced_pair, whole_pair)
    )
    assert_reduced(found, whole)


@pytest.mark.parametrize("step", ["library", "lean"])
def test_nodes_of_a_tree_have_them_too(step: str) -> None:
    rows = list[torch.Tensor]()
    for each in (reduced_pair, whole_pair):
        own = each(step).draft_step(80)
        own.feed(torch.tensor([5, 9, 3]), 1)
        rows.append(own.branch(torch.tensor([4, 8, 12]), (-1, -1, 0)))
    assert_reduced(*rows)


@pytest.mark.parametrize("step", ["library", "lean"])
@pytest.mark.parametrize("method", METHODS)
def test_the_greedy_text_is_the_targets(method: str, step: str) -> None:
    pair = reduced_pair(step)
    chosen = config(temperature=0.0, max_new_tokens=40, **METHODS[method])
    run = speculate(pair, PROMPT, chosen)
    rounds = list(run)
    assert run.emitted == tuple(decode_plainly(pair, PROMPT, chosen))
    drafted = {each.token_id for entry in rounds for each in entry.candidates}
    assert drafted <= {*KNOWN}
    assert sum(entry.num_accepted for entry in rounds) > 0
    assert not {*run.emitted} <= {*KNOWN}  # the target writes tokens that are never proposed


@pytest.mark.parametrize(
    "method",
    [
        pytest.param("chain", marks=pytest.mark.thorough),
        pytest.param("block", marks=pytest.mark.thorough),
        "tree",
    ],
)
def test_the_first_tokens_follow_the_targets_distribution(method: str) -> None:
    tiny = test_lossless.tiny_pair()
    pair = pair_of(tiny.target, reduced(tiny.draft, (1, 2, 5, 6)), step="lean")
    length, size = test_lossless.DEPTH, test_lossless.VOCABULARY
    cells = list[int]()
    for seed in range(TEXTS[method]):
        chosen = RunConfig(
            gamma=3, temperature=1.0, max_new_tokens=8, record=False, ignore_eos=True, seed=seed,
            **METHODS[method],
        )  # fmt: skip
        run = speculate(pair, test_lossless.PROMPT, chosen)
        while len(run.emitted) < length:
            next(run)
        cells.append(int(np.dot(run.emitted[:length], [size**2, size, 1])))
    assert p_value(np.array(cells), exact_distribution("plain")) > ENOUGH


def test_batched_runs_write_the_texts_of_single_runs() -> None:
    pair, prompts = reduced_pair(), [PROMPT[:each] for each in (4, 7, 9)]
    chosen = config(temperature=0.7, max_new_tokens=24, record=False)
    batch = BatchedSpeculation(pair, prompts, chosen, seeds=range(3))
    list(batch)
    for seed, (run, prompt) in enumerate(zip(batch.runs, prompts, strict=True)):
        alone = speculate(pair, prompt, replace(chosen, seed=seed))
        list(alone)
        assert run.emitted == alone.emitted


def test_a_simulated_size_changes_no_logits() -> None:
    small: Any = reduced_pair().draft
    large = grow(small, Shape(width=128, feed_forward=160, layers=4), lambda *_: None)
    pair = pair_of(reduced_pair().target, large, step="lean")
    ids = torch.tensor([5, 9, 3, 200, 7])
    found, own = (each.draft_step(8).feed(ids, 5) for each in (pair, reduced_pair()))
    torch.testing.assert_close(found, own, atol=1e-4, rtol=1e-4)


def test_a_pass_reads_only_the_rows_of_the_output() -> None:
    chosen = config(temperature=0.0)
    found, whole = (draft_bytes(each(), chosen) for each in (reduced_pair, whole_pair))
    assert found is not None
    assert whole is not None
    width = reduced_pair().target.config.hidden_size
    assert whole.weights - found.weights == 4 * width * (VOCABULARY - len(KNOWN))


class TestFolders:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        write_pair(tmp_path, noise=0.04)
        reduce_folder(tmp_path / "draft", KNOWN)
        return tmp_path

    def spec(self, folder: Path, **changes: Any) -> PairSpec:
        target, draft = str(folder / "target"), str(folder / "draft")
        settings = {"threads": 1, "dtype": "float32", "target": target, "draft": draft}
        return PairSpec(**settings | changes)

    @pytest.mark.parametrize(
        "changes",
        [
            {},
            {"step": "library"},
            {"dtype": "bfloat16"},
            {"dtype": "auto", "draft_weights": "q8_0"},
            {"draft_body": "10M"},
        ],
        ids=lambda each: "-".join(map(str, each.values())) or "plain",
    )
    def test_loads_like_any_draft(self, folder: Path, changes: dict[str, Any]) -> None:
        pair = load_pair(self.spec(folder, **changes))
        logits = pair.draft_step(8).feed(torch.tensor([5, 9, 3]), 3)
        assert (logits[0] > NEVER).nonzero()[:, 0].tolist() == list(KNOWN)
        chosen = config(temperature=0.0, max_new_tokens=16)
        run = speculate(pair, "Once upon", chosen)
        assert sum(each.num_accepted for each in run) > 0
        assert run.emitted == tuple(decode_plainly(pair, "Once upon", chosen))

    def test_is_no_head_and_counts_its_parameters(self, folder: Path) -> None:
        assert head_kind(folder / "draft") == ""
        found = check_pair(self.spec(folder))
        assert found.draft is not None
        width = 32
        missing = width * (VOCABULARY - len(KNOWN))
        assert found.target.parameters - found.draft.parameters == missing

    def test_is_no_target(self, folder: Path) -> None:
        spec = self.spec(folder, target=str(folder / "draft"), draft=None)
        with pytest.raises(PairError, match=r"only 160 of its tokens.*Give it as a draft"):
            check_pair(spec)

    @pytest.mark.parametrize(
        "damage", ["missing", "twice", "outside", "fewer", "fractions", "another count"]
    )
    def test_a_damaged_map_is_refused(self, folder: Path, damage: str) -> None:
        path = folder / "draft" / "model.safetensors"
        tensors = load_file(path)
        offsets = tensors.pop(OFFSETS)
        match damage:
            case "twice":
                offsets[1] = offsets[0] - 1
            case "outside":
                offsets[-1] = VOCABULARY
            case "fewer":
                offsets = offsets[:-1]
            case "fractions":
                offsets = offsets.float()
            case "another count":
                stated = json.loads((folder / "draft" / "config.json").read_text())
                stated["draft_vocab_size"] = 99
                (folder / "draft" / "config.json").write_text(json.dumps(stated))
        if damage != "missing":
            tensors[OFFSETS] = offsets
        save_file(tensors, path, {"format": "pt"})
        with pytest.raises(PairError, match=r"output matrix .* do not fit"):
            load_pair(self.spec(folder))
