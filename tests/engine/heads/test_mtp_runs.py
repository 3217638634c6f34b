"""A target drafts with the MTP layers in its own checkpoint."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file

from specviz.engine import Pair, decode_plainly, speculate
from specviz.engine.heads.mtp import find_mtp, open_mtp
from specviz.engine.loading.head_loading import target_parts
from specviz.engine.loading.loading import load_pair
from specviz.engine.model.recurrent_step import RecurrentStep
from specviz.errors import PairError
from specviz.formats.model_folder import SAME_DECODER, read_folder
from specviz.record.pairs import PairSpec, spec_of
from specviz.record.trace import RunConfig
from tests.engine.heads import tiny_mtp
from tests.engine.heads.small_texts import (
    SMALL,
    exact,
    first_tokens,
    report_wrong_probabilities,
)
from tests.engine.models import VOCABULARY, build, generated, pair_of, small_tokenizer, wide
from tests.engine.test_lossless import ENOUGH, p_value

PROMPT = "Once upon a time"
SETTINGS = RunConfig(
    drafter="mtp", gamma=3, temperature=0.0, max_new_tokens=30, ignore_eos=True, record=False
)


def write_target(
    folder: Path, family: str, monkeypatch: pytest.MonkeyPatch, layers: int = 1
) -> PairSpec:
    """Write a whole model, its tokenizer and its MTP layers."""
    monkeypatch.setattr(tiny_mtp, "VOCABULARY", VOCABULARY)
    config: Any = tiny_mtp.mtp_config(family) | {"vocab_size": VOCABULARY, "eos_token_id": 0}
    config["model_type"] = SAME_DECODER.get(family, family)
    torch.manual_seed(0)
    model = hf.AutoModelForCausalLM.from_config(hf.AutoConfig.for_model(**config)).float()
    for each in model.parameters():
        if each.ndim > 1:
            torch.nn.init.normal_(each, 0, 0.2)
    model.save_pretrained(folder)
    small_tokenizer().save_pretrained(folder)
    file = folder / "model.safetensors"
    save_file(load_file(file) | tiny_mtp.mtp_tensors(family, layers), file)
    stated = json.loads((folder / "config.json").read_text())
    stated |= {"num_nextn_predict_layers": layers}
    if family in SAME_DECODER:
        stated |= {"model_type": family, **_OWN_CODE}
    (folder / "config.json").write_text(json.dumps(stated))
    return PairSpec(target=str(folder), draft="mtp", head="mtp", threads=1)


_OWN_CODE = {  # as MiMo's configuration names it
    "architectures": ["MiMoForCausalLM"],
    "auto_map": {"AutoModelForCausalLM": "modeling_mimo.MiMoForCausalLM"},
}


def nest(folder: Path, family: str) -> None:
    """Write the text model's folder again as published: inside a model that also reads images."""
    file = folder / "model.safetensors"
    renamed = {
        re.sub(r"^model\.", "model.language_model.", name): each
        for name, each in load_file(file).items()
    }
    save_file(renamed, file, metadata={"format": "pt"})
    stated = json.loads((folder / "config.json").read_text())
    outer = {"model_type": family.removesuffix("_text"), "text_config": stated}
    (folder / "config.json").write_text(json.dumps(outer))


@pytest.mark.parametrize("family", tiny_mtp.ZERO_CENTRED)
def test_a_recurrent_target_with_its_own_layers_matches_generate(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = write_target(tmp_path / family, family, monkeypatch)
    if family.endswith("_text"):
        nest(tmp_path / family, family)
    pair = load_pair(spec)
    assert isinstance(pair.target_step(8), RecurrentStep)
    run = speculate(pair, PROMPT, SETTINGS)
    rounds = list(run)
    assert run.emitted == generated(pair.target, run.prompt.token_ids, 30)
    assert all(each.num_drafted > 0 for each in rounds[:-1])
    sampled = list(speculate(pair, PROMPT, replace(SETTINGS, temperature=1.0)))
    tested = sum(each.num_tested for each in sampled)
    assert 0 < sum(each.num_accepted for each in sampled) < tested


@pytest.fixture
def small_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    """A recurrent target of 7 tokens with its MTP layers; its narrow weights make texts vary."""
    monkeypatch.setattr(tiny_mtp, "VOCABULARY", SMALL)
    family = "qwen3_5_text"
    settings: Any = tiny_mtp.mtp_config(family) | {"vocab_size": SMALL}
    config = hf.AutoConfig.for_model(**settings)
    pair = pair_of(wide(build(config), sigma=0.15), None)
    facts = find_mtp(tiny_mtp.write_mtp(tmp_path / family, family))
    assert facts is not None
    pair.head = open_mtp(facts, target_parts("tiny", pair.target.config, pair))
    return pair


def test_sampled_texts_of_a_recurrent_target_have_its_distribution(small_pair: Pair) -> None:
    assert p_value(first_tokens(small_pair, 150), exact(small_pair)) > ENOUGH


@pytest.mark.thorough
def test_many_sampled_texts_of_a_recurrent_target_have_its_distribution(small_pair: Pair) -> None:
    assert p_value(first_tokens(small_pair, 1000), exact(small_pair)) > ENOUGH


@pytest.mark.thorough
def test_the_test_finds_layers_that_report_wrong_probabilities(
    small_pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    report_wrong_probabilities(monkeypatch)
    assert p_value(first_tokens(small_pair, 1000), exact(small_pair)) < ENOUGH


@pytest.mark.parametrize("family", ["glm4_moe", "deepseek_v3"])
def test_the_targets_own_layers_do_not_change_its_text(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = write_target(tmp_path / family, family, monkeypatch)
    pair = load_pair(spec)
    assert replace(spec_of(pair.info), threads=1) == spec
    run = speculate(pair, PROMPT, SETTINGS)
    rounds = list(run)
    assert run.emitted == tuple(decode_plainly(pair, PROMPT, SETTINGS))
    sampled = list(speculate(pair, PROMPT, replace(SETTINGS, temperature=1.0)))
    assert sum(each.num_accepted for each in sampled) > 0
    assert all(each.num_drafted > 0 for each in rounds[:-1])


@pytest.mark.parametrize("step", ["lean", "library"])
def test_a_mimo_target_matches_generate(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = replace(write_target(tmp_path / "mimo", "mimo", monkeypatch), step=step)
    assert read_folder(tmp_path / "mimo").head == "1 MTP layer"
    pair = load_pair(spec)
    assert (pair.info.target.family, pair.info.target.step) == ("mimo", step)
    assert pair.head is not None
    run = speculate(pair, PROMPT, SETTINGS)
    rounds = list(run)
    assert run.emitted == generated(pair.target, run.prompt.token_ids, 30)
    assert all(each.num_drafted > 0 for each in rounds[:-1])
    sampled = list(speculate(pair, PROMPT, replace(SETTINGS, temperature=1.0)))
    assert sum(each.num_accepted for each in sampled) > 0


@pytest.mark.parametrize(
    "changes",
    [
        {"branching": (3, 2, 1)},
        {"dynamic_tree": (4, 12)},
        {"dynamic_tree": (4, 12), "rule": "match"},
    ],
)
def test_trees_of_several_layers_do_not_change_the_text(
    changes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = load_pair(write_target(tmp_path / "mimo", "mimo", monkeypatch, layers=3))
    chosen = replace(SETTINGS, **changes)
    run = speculate(pair, PROMPT, chosen)
    rounds = list(run)
    assert run.emitted == tuple(decode_plainly(pair, PROMPT, chosen))
    assert max(each.num_drafted for each in rounds) > 6


def test_a_target_without_such_layers_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = write_target(tmp_path / "glm", "glm4_moe", monkeypatch)
    file = tmp_path / "glm" / "model.safetensors"
    kept = {name: each for name, each in load_file(file).items() if "layers.2." not in name}
    save_file(kept, file)
    with pytest.raises(PairError, match="has no MTP layers") as error:
        load_pair(spec)
    assert "\n" not in str(error.value)
