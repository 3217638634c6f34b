"""The shipped pair: its size, its cards and the recorded first trace."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from specviz import ASSETS
from specviz.engine import decode_plainly, load_pair, speculate
from specviz.engine.model.chat import encode_prompt
from specviz.engine.model.fingerprint import weights_sha256
from specviz.figures.agreement import agreement
from specviz.figures.metrics import metrics
from specviz.record.pairs import CHAT_HEAD, CHAT_PAIR, PairSpec, chat_file
from specviz.record.trace import RunConfig, Trace
from specviz.store import load_trace
from specviz.training.shipping import SHIPPED

ROLES = ("target", "draft")
HEAD_FOLDER = ASSETS / "pairs" / CHAT_PAIR / "eagle3"


@pytest.fixture(scope="module")
def first_trace() -> Trace:
    return load_trace(ASSETS / "first_trace.json")


def test_the_pair_is_under_40_megabytes() -> None:
    size = sum(path.stat().st_size for path in SHIPPED.rglob("*") if path.is_file())
    assert size < 40_000_000


@pytest.mark.parametrize("role", ROLES)
def test_each_model_is_an_ordinary_folder_in_fp16(role: str) -> None:
    config = json.loads((SHIPPED / role / "config.json").read_text())
    assert config["model_type"] == "llama"
    assert config["dtype"] == "float16"
    assert config["max_position_embeddings"] == 2048
    assert config["tie_word_embeddings"] is True


@pytest.mark.parametrize("role", ROLES)
def test_each_card_names_data_licences_and_limits(role: str) -> None:
    card = (SHIPPED / role / "README.md").read_text(encoding="utf-8")
    for word in ("tinystories", "CDLA-Sharing-1.0", "childlit", "CC-BY", "fables", "MIT"):
        assert word in card
    for limit in ("Translation", "summarising", "code"):
        assert limit in card


def test_the_first_trace_was_made_by_the_shipped_weights(first_trace: Trace) -> None:
    draft = first_trace.pair.draft
    assert draft is not None
    made_by = {"target": first_trace.pair.target, "draft": draft}
    for role in ROLES:
        files = (SHIPPED / role / "model.safetensors",)
        assert made_by[role].weights_sha256 == weights_sha256(files)


def test_theory_explains_the_first_trace(first_trace: Trace) -> None:
    """A newcomer's first numbers: a narrow speedup that earlier runs and other texts predict."""
    assert first_trace.config == RunConfig()
    assert first_trace.pair.has_bodies
    figures, costs = metrics(first_trace), first_trace.step_costs
    assert costs is not None
    assert (costs.of_this_run, costs.runs) == (False, 3)
    assert figures.speedup_low is not None
    assert figures.speedup_high is not None
    assert figures.speedup_accounted is not None
    assert figures.speedup_high / figures.speedup_low < 1.15
    assert figures.speedup_low < figures.speedup_accounted < figures.speedup_high
    found = agreement(figures)
    assert found is not None
    assert len(found.estimates) == 3


def test_every_verdict_of_the_first_trace_can_be_replayed(first_trace: Trace) -> None:
    tested = [c for entry in first_trace.rounds for c in entry.candidates if c.tested]
    assert len(tested) > 50
    for candidate in tested:
        accepted = candidate.uniform * candidate.draft_prob < candidate.target_prob
        assert accepted == (candidate.verdict == "accepted")


def test_loading_takes_under_a_second() -> None:
    """Takes the minimum processor time of three first loads; fails at twice the bound."""
    code = (
        "import os, time, numba, torch\n"
        "from specviz.engine import load_pair\n"
        "from specviz.record.pairs import PairSpec\n"
        "for _ in range(3):\n"
        "    if os.fork() == 0:\n"
        "        began = time.process_time()\n"
        "        load_pair(PairSpec(threads=1))\n"
        "        print(time.process_time() - began, flush=True)\n"
        "        os._exit(0)\n"
        "    assert os.wait()[1] == 0\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds = min(float(each) for each in done.stdout.split())
    print(f"loading the embedded pair: {seconds:.2f} s of processor time")
    assert seconds < 2.0


def test_the_embedded_pair_is_the_default() -> None:
    assert load_pair(PairSpec(threads=1)).name == "tinystories"


def test_the_chat_models_head_has_its_recipe_and_its_curve() -> None:
    files = {each.name: each for each in HEAD_FOLDER.iterdir()}
    assert sum(each.stat().st_size for each in files.values()) < 25_000_000
    weights = load_file(files["model.safetensors"])
    assert {each.dtype for each in weights.values() if each.is_floating_point()} == {torch.float16}
    config = json.loads(files["config.json"].read_text())
    assert config["target_model"] == CHAT_PAIR  # no place on another machine
    card = files["README.md"].read_text()
    assert f"python -m specviz train --target {CHAT_PAIR} --out FOLDER --texts " in card
    assert "license: apache-2.0" in card
    last = json.loads(files["curve.jsonl"].read_text().splitlines()[-1])
    for number, pair in enumerate(zip(last["accepted"], last["agreeing"], strict=True), 1):
        assert "| {} | {:.3f} | {:.3f} |".format(number, *pair) in card


@pytest.mark.skipif(chat_file() is None, reason="the chat model is not installed")
def test_the_chat_models_head_drafts_for_it() -> None:
    pair = load_pair(PairSpec(name=CHAT_HEAD, threads=1, device="cpu"))
    settings = RunConfig(drafter="eagle", gamma=3, temperature=0.0, max_new_tokens=48)
    prompt = encode_prompt(pair, "List three colours, and say what each is used for.", chat=True)
    rounds = list(speculate(pair, prompt, settings))
    tokens = tuple(token for each in rounds for token in each.emitted)
    assert tokens[:48] == tuple(decode_plainly(pair, prompt, settings))
    assert len(rounds) < 0.75 * len(tokens)
