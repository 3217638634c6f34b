"""Training: the models learn, training resumes exactly, and the result is a usable pair."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from specviz.engine import load_pair, speculate
from specviz.errors import TrainingError
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig
from specviz.training import __main__ as command
from specviz.training.corpus import draw_batch, encode_documents, read_sources
from specviz.training.evaluate import agreement, held_out_loss
from specviz.training.loop import StepLoss, TrainingSetup, train
from specviz.training.models import build, next_token_loss
from specviz.training.recipe import MINIATURE, Schedule, Stage
from specviz.training.tokenizer import train_tokenizer


@pytest.fixture(scope="module")
def trained(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out")
    arguments = ["--corpus", str(corpus), "--out", str(out), "--recipe", "miniature"]
    assert command.main([*arguments, "--threads", "1"]) == 0
    return out


def _log(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_the_target_learns(trained: Path) -> None:
    log = _log(trained / "target")
    assert log[0]["loss"] > 5.0
    assert log[-1]["held_out_loss"] < 1.6


def test_the_draft_learns_the_targets_distribution(trained: Path) -> None:
    assert _log(trained / "draft")[-1]["acceptance_t1"] > 0.75


def test_the_result_is_a_usable_pair(trained: Path) -> None:
    folder = trained / "pair"
    pair = load_pair(
        PairSpec(draft=str(folder / "draft"), target=str(folder / "target"), threads=1)
    )
    config = RunConfig(temperature=0.0, max_new_tokens=40, ignore_eos=True)
    rounds = list(speculate(pair, "Once upon a time, Lily had", config))
    accepted = sum(entry.num_accepted for entry in rounds)
    assert accepted / sum(entry.num_tested for entry in rounds) > 0.6


def test_a_second_run_trains_nothing(trained: Path, corpus: Path) -> None:
    before = (trained / "pair" / "target" / "model.safetensors").read_bytes()
    steps = len(_log(trained / "target"))
    arguments = ["--corpus", str(corpus), "--out", str(trained), "--recipe", "miniature"]
    assert command.main([*arguments, "--threads", "1"]) == 0
    assert len(_log(trained / "target")) == steps
    assert (trained / "pair" / "target" / "model.safetensors").read_bytes() == before


class _PowerCutError(Exception):
    pass


def _tiny_schedule(steps: int) -> Schedule:
    stage = Stage(steps=steps, batch=4, length=32, sources={"tinystories": 1.0})
    return Schedule(
        stages=(stage,), matrix_rate=5e-3, vector_rate=4e-3, warmup_steps=2, decay_share=0.5
    )


def test_resumed_training_equals_uninterrupted_training(corpus: Path, tmp_path: Path) -> None:
    sources = read_sources(corpus)
    tokenizer = train_tokenizer(sources["tinystories"].training, 300)
    streams = {"tinystories": encode_documents(tokenizer, sources["tinystories"].training)}
    schedule = _tiny_schedule(12)
    left = 7

    def loss_of(model: nn.Module) -> StepLoss:
        def loss(step: int, progress: float) -> torch.Tensor:
            return next_token_loss(
                model, draw_batch(streams, schedule.stages[0], 0, step), progress
            )

        return loss

    def cut_short(model: nn.Module) -> StepLoss:
        whole = loss_of(model)

        def loss(step: int, progress: float) -> torch.Tensor:
            nonlocal left
            left -= 1
            if left < 0:
                raise _PowerCutError
            return whole(step, progress)

        return loss

    def run(name: str, losses: Callable[[nn.Module], StepLoss]) -> nn.Module:
        model = build(MINIATURE.target, tokenizer, 0, torch.device("cpu"))
        setup = TrainingSetup(folder=tmp_path / name, checkpoint_seconds=0.0)
        for _ in train(model, losses(model), lambda _: {}, schedule, setup):
            pass
        return model

    whole = run("whole", loss_of)
    with pytest.raises(_PowerCutError):
        run("cut", cut_short)
    resumed = run("cut", loss_of)
    assert len(_log(tmp_path / "cut")) == 12
    for ours, theirs in zip(resumed.parameters(), whole.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_held_out_documents_are_never_trained_on(corpus: Path) -> None:
    source = read_sources(corpus)["tinystories"]
    assert 0.005 < len(source.held_out) / 1500 < 0.05
    assert not set(source.held_out) & set(source.training)


def test_a_batch_depends_only_on_seed_and_step(corpus: Path) -> None:
    sources = read_sources(corpus)
    tokenizer = train_tokenizer(sources["tinystories"].training, 300)
    streams = {"tinystories": encode_documents(tokenizer, sources["tinystories"].training)}
    stage = _tiny_schedule(1).stages[0]
    once, again = (draw_batch(streams, stage, 3, 17) for _ in range(2))
    assert torch.equal(once, again)
    assert not torch.equal(once, draw_batch(streams, stage, 3, 18))
    assert not torch.equal(once, draw_batch(streams, stage, 4, 17))


def test_a_model_agrees_with_itself_but_not_with_another(corpus: Path) -> None:
    sources = read_sources(corpus)
    tokenizer = train_tokenizer(sources["tinystories"].training, 300)
    stream = encode_documents(tokenizer, sources["tinystories"].held_out)
    cpu = torch.device("cpu")
    one, other = (build(MINIATURE.target, tokenizer, seed, cpu) for seed in (0, 1))
    for parameter in other.parameters():  # with tied embeddings, both would else echo their input
        nn.init.normal_(parameter, std=0.5)
    same = agreement(one, one, stream, 2000)
    assert same.overlap == pytest.approx(1.0, abs=1e-5)
    assert same.greedy == 1.0
    assert same.draft_loss == pytest.approx(held_out_loss(one, stream, 2000), rel=1e-5)
    assert agreement(one, other, stream, 2000).greedy < 0.5


def test_a_folder_without_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"no \.txt file"):
        read_sources(tmp_path)


def test_training_without_an_output_folder_is_refused(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--corpus", str(corpus)]) == 2
    assert "--out" in capsys.readouterr().err


@pytest.mark.thorough
def test_shapes_are_measured_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--shapes", "--threads", "1"]) == 0
    table = capsys.readouterr().out
    assert "| target 12 × 192 | 6.10 M |" in table
    assert "| draft 1 × 192 | 1.23 M |" in table
