"""Training of drafts: what is learned, that it loads and drafts alike, and that it resumes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from specviz.engine.decoding.sampling import Sampler
from specviz.engine.heads.following import ReadText, acceptance_along
from specviz.engine.heads.opening import open_head
from specviz.engine.loading.head_loading import target_parts
from specviz.errors import ConfigError, TrainingError
from specviz.formats.heads import read_head
from specviz.record.run_config import RunConfig
from specviz.training import loop
from specviz.training.drafts import draft_training, numbered_files
from specviz.training.drafts.curves import CURVE, LOG
from specviz.training.drafts.draft_training import (
    keep_plan,
    kept_tokens,
    make_draft,
    train_draft,
)
from specviz.training.drafts.kept_trainings import kept_training
from specviz.training.drafts.plan import TextPlan, TrainingPlan
from specviz.training.drafts.progress import Computing, TextFigures, Trained
from specviz.training.drafts.stored_states import StoredStates
from specviz.training.drafts.target_weights import TargetWeights
from specviz.training.drafts.written_texts import Text, read_texts
from tests.engine.models import pair_of, tiny_model
from tests.training.drafts.tiny_training import (
    LAYERS,
    PLAN,
    TEXTS,
    VOCABULARY,
    carried_out,
    result_of,
    steps_of,
    tiny_target,
)


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "draft" / "model.safetensors")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    carried_out(PLAN, folder)
    return folder


@pytest.mark.parametrize(("kind", "positions", "steps"), [("eagle3", 3, 120), ("small", 1, 60)])
def test_a_target_that_follows_its_last_token_is_learned(
    kind: Any, positions: int, steps: int, tmp_path: Path
) -> None:
    """An EAGLE-3 head and a model read that token, so the best acceptance is 1."""
    values = carried_out(replace(PLAN, kind=kind, steps=steps, rate=2e-2), tmp_path)
    accepted = result_of(values).accepted
    assert all(each > 0.9 for each in accepted[:positions]), accepted


def test_medusa_heads_come_near_the_best_that_they_can_know(tmp_path: Path) -> None:
    """The first head does not see the token before its candidate, only the one before that."""
    pair, plan = tiny_target(), replace(PLAN, kind="medusa", steps=120, rate=2e-2, positions=2)
    accepted = result_of(carried_out(plan, tmp_path)).accepted
    assert weights_of(tmp_path)["blocks.0.layers.0.weight"].any()  # zero at first
    target = TargetWeights.of(pair)
    states = target.lean.norm(target.lean.embed(torch.arange(VOCABULARY)))
    once = (states @ target.output.T).softmax(-1)  # of the next token, by the last token
    texts = read_texts(TEXTS, tmp_path)
    rows = torch.cat([_steps_in(each) for each in texts.texts])
    follows = torch.zeros(VOCABULARY, VOCABULARY)
    follows.index_put_((rows[:, 0], rows[:, 1]), torch.ones(len(rows)), accumulate=True)
    twice = (follows / follows.sum(-1, keepdim=True).clamp(min=1)) @ once
    held_out = torch.cat([_steps_in(texts.texts[number]) for number in texts.parts[1]])
    known = torch.minimum(twice[held_out[:, 0]], once[held_out[:, 1]]).sum(-1)
    best = known.mean().item()
    assert 0.4 < best < 0.95
    assert 0.85 * best < accepted[0] < 1.15 * best, (accepted, best)


def test_a_small_model_begins_with_the_last_layers_of_its_target() -> None:
    model = tiny_model("llama", vocabulary=VOCABULARY, num_hidden_layers=LAYERS)
    pair = pair_of(model, None, step="lean")
    plan = replace(PLAN, kind="small", layers=2)
    draft: Any = make_draft(pair, TargetWeights.of(pair), plan, torch.arange(VOCABULARY))
    ours, whole = draft.model.state_dict(), model.state_dict()
    assert len(draft.model.model.layers) == 2
    for name, each in ours.items():
        taken = name.replace("layers.1.", f"layers.{LAYERS - 1}.")
        taken = taken.replace("layers.0.", f"layers.{LAYERS - 2}.")
        assert torch.equal(each, whole[taken]), name


def _steps_in(text: Text) -> torch.Tensor:
    """Return each token with the one after it."""
    return torch.stack((text.ids[:-1], text.ids[1:]), 1).long()


@pytest.mark.parametrize("kind", ["eagle3", pytest.param("small", marks=pytest.mark.thorough)])
def test_a_reduced_vocabulary_limits_acceptance_to_what_it_covers(
    kind: Any, tmp_path: Path
) -> None:
    values = carried_out(replace(PLAN, kind=kind, vocabulary=16, steps=40), tmp_path)
    figures = next(each for each in values if isinstance(each, TextFigures))
    assert 0.2 < figures.covered < 0.95
    assert 0.1 < result_of(values).accepted[0] < figures.covered + 0.05
    weights = weights_of(tmp_path)
    assert len(weights["lm_head.weight"]) == len(weights["d2t"]) == 16


def test_a_checkpoint_of_another_draft_is_refused(tmp_path: Path) -> None:
    """A version without reduced vocabularies trained small models with the whole output."""
    carried_out(replace(PLAN, kind="small", vocabulary=0, steps=2), tmp_path)
    stated = json.loads((tmp_path / "plan.json").read_text())
    (tmp_path / "plan.json").write_text(json.dumps(stated | {"vocabulary": 16}))
    with pytest.raises(TrainingError, match="weights of another draft"):
        carried_out(replace(PLAN, kind="small", vocabulary=16, steps=4), tmp_path)


def test_the_drafts_folder_has_the_curve_of_its_evaluations(finished: Path) -> None:
    lines = (finished / "draft" / CURVE).read_text().splitlines()
    logged = [json.loads(each) for each in (finished / LOG).read_text().splitlines()]
    evaluated = [each for each in logged if "accepted" in each]
    assert evaluated
    assert [json.loads(each) for each in lines] == [
        {name: row[name] for name in ("step", "accepted", "agreeing", "expected")}
        for row in evaluated
    ]


def test_training_and_engine_accept_alike(finished: Path) -> None:
    """The unrolled positions are the engine's chain, on the texts that were written."""
    pair = tiny_target()
    target = TargetWeights.of(pair)
    texts = read_texts(TEXTS, finished)
    kept, _ = kept_tokens(texts, 0, target.vocabulary)
    draft = make_draft(pair, target, PLAN, kept)
    draft.load_state_dict(torch.load(finished / "best.pt", weights_only=True)["model"])
    text = max(texts.texts, key=lambda each: len(each.ids))
    window = next(StoredStates([text], len(text.ids), finished).all(1))
    with torch.no_grad():
        found = draft.learn(window, 0.0)
    facts = read_head(finished / "draft")
    assert facts is not None
    head = open_head(facts, target_parts("tiny", pair.target.config, pair))
    sampler, ids = Sampler(RunConfig(temperature=1.0)), text.ids.tolist()
    read = ReadText(pair, ids[:1], ids[1:], sampler, sorted(set(head.states.places)))
    starts = list(range(1, len(ids) - PLAN.positions))
    engine = acceptance_along(head, read, sampler, PLAN.positions, starts)
    for position in range(PLAN.positions):
        rows = window.written[0, 1 + position :][: len(starts)].numpy()
        assert engine[rows, position].mean() == pytest.approx(
            float(found.accepted[position] / found.places[position]), abs=2e-3
        )


def test_the_overlaps_gradient_equals_finite_differences() -> None:
    torch.manual_seed(0)
    logits = torch.randn(1, 1, 6, dtype=torch.float64, requires_grad=True)
    probs = torch.randn(1, 1, 6, dtype=torch.float64).softmax(-1)
    rows, best = torch.ones(1, 1, dtype=torch.bool), torch.zeros(1, 1, dtype=torch.long)

    def loss(values: torch.Tensor, overlap: float) -> torch.Tensor:
        from specviz.training.drafts.losses import learned

        return learned([values.log_softmax(-1)], [probs], [best], [rows], overlap).loss.double()

    for overlap in (0.0, 0.4, 1.0):
        assert torch.autograd.gradcheck(lambda x, o=overlap: loss(x, o), (logits,), eps=1e-6)
    shared = torch.minimum(logits.softmax(-1), probs).sum()
    assert loss(logits, 1.0).item() == pytest.approx(4 * (1 - shared.item()), abs=1e-6)


class _KilledError(BaseException):
    pass


def _at_step(step: int) -> Callable[[int, Any], bool]:
    return lambda _, value: isinstance(value, Trained) and value.step == step


KILLS: dict[str, Callable[[int, Any], bool]] = {
    "at the first text": lambda number, _: number == 0,
    "while texts are written": lambda number, _: number == 20,
    "when the texts are complete": lambda _, value: isinstance(value, TextFigures),
    "while states are computed": lambda _, value: isinstance(value, Computing),
    **{f"after step {step}": _at_step(step) for step in (1, 7, 12, 18, 23, 24)},
}
OFTEN = ("while texts are written", "while states are computed", "after step 18")


@pytest.mark.parametrize(
    "kill",
    [
        pytest.param(kill, id=name, marks=() if name in OFTEN else pytest.mark.thorough)
        for name, kill in KILLS.items()
    ],
)
def test_killed_at_any_moment_it_resumes_to_the_same_weights(
    kill: Callable[[int, Any], bool],
    tmp_path: Path,
    finished: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A killed process writes no last checkpoint, so the newest may be some steps old."""
    with monkeypatch.context() as context:
        context.setattr(draft_training, "TrainingSetup", frequent)
        saves = context.setattr
        running: Any = train_draft(tiny_target(), PLAN, tmp_path)
        for number, value in enumerate(running):
            if kill(number, value):
                saves(loop, "_save", lambda *_: None)
                running.close()
                break
    resumed = carried_out(PLAN, tmp_path)
    assert result_of(resumed).step == PLAN.steps
    ours, whole = weights_of(tmp_path), weights_of(finished)
    assert ours.keys() == whole.keys()
    assert all(torch.equal(ours[name], whole[name]) for name in ours)


def frequent(**settings: Any) -> loop.TrainingSetup:
    """Return a setup that writes a checkpoint about every third step of the tiny training."""
    return loop.TrainingSetup(**settings, checkpoint_seconds=0.02)


def test_an_error_inside_a_step_keeps_the_steps_before_it(
    tmp_path: Path, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = iter(range(9))

    def failing(source: StoredStates, *given: Any) -> Any:
        if next(left, None) is None:
            raise _KilledError
        return draw(source, *given)

    draw = StoredStates.draw
    monkeypatch.setattr(StoredStates, "draw", failing)
    with pytest.raises(_KilledError):
        carried_out(PLAN, tmp_path)
    monkeypatch.setattr(StoredStates, "draw", draw)
    first = next(steps_of(carried_out(PLAN, tmp_path)))
    assert first.step == 1  # a step that was cut off leaves weights that are not kept
    whole = weights_of(finished)
    assert all(torch.equal(whole[name], each) for name, each in weights_of(tmp_path).items())


def test_a_longer_plan_goes_on_where_a_shorter_one_ended(tmp_path: Path) -> None:
    carried_out(replace(PLAN, steps=10), tmp_path)
    values = carried_out(replace(PLAN, steps=14), tmp_path)
    assert [each.step for each in steps_of(values)] == [11, 12, 13, 14]


def test_a_folder_from_before_there_were_tasks_goes_on_without_them(tmp_path: Path) -> None:
    old = replace(PLAN, texts=replace(TEXTS, task_share=0.0))
    keep_plan(tiny_target(), old, tmp_path)
    stated = json.loads((tmp_path / "plan.json").read_text())
    del stated["texts"]["task_share"]
    (tmp_path / "plan.json").write_text(json.dumps(stated))
    kept = kept_training(tmp_path)
    assert kept is not None
    assert kept.plan == old
    keep_plan(tiny_target(), kept.plan, tmp_path)
    with pytest.raises(TrainingError, match="another texts"):
        keep_plan(tiny_target(), PLAN, tmp_path)


def test_another_target_or_setting_is_refused(finished: Path) -> None:
    model = tiny_model("llama", vocabulary=VOCABULARY, num_hidden_layers=LAYERS, seed=5)
    other = pair_of(model, None, step="lean")
    with pytest.raises(TrainingError, match="of another target"):
        next(train_draft(other, PLAN, finished))
    with pytest.raises(TrainingError, match="another rate"):
        next(train_draft(tiny_target(), replace(PLAN, rate=0.5), finished))
    with pytest.raises(TrainingError, match="another texts"):
        next(train_draft(tiny_target(), replace(PLAN, texts=replace(TEXTS, seed=9)), finished))


def test_a_target_without_a_lean_step_is_refused(tmp_path: Path) -> None:
    pair = pair_of(tiny_model("gpt2"), None)
    with pytest.raises(TrainingError, match="no lean step"):
        next(train_draft(pair, PLAN, tmp_path))


@pytest.mark.parametrize("name", ["texts-00000.safetensors", "hidden-00000.safetensors"])
def test_a_full_disk_stops_the_training_and_keeps_what_is_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: Any, path: Path) -> None:
        if path.name.startswith(name.split(".", maxsplit=1)[0]):
            path.write_bytes(b"part")
            raise OSError(28, "No space left on device")
        save(_, path)

    save = numbered_files.save_file
    monkeypatch.setattr(numbered_files, "save_file", full)
    with pytest.raises(TrainingError, match="No space left"):
        carried_out(replace(PLAN, steps=2), tmp_path)
    assert not list(tmp_path.glob("*.partial"))
    monkeypatch.setattr(numbered_files, "save_file", save)
    assert result_of(carried_out(replace(PLAN, steps=2), tmp_path)).step == 2


def test_a_damaged_file_is_named(finished: Path, tmp_path: Path) -> None:
    (tmp_path / "texts-00000.safetensors").write_bytes(b"no tensors")
    with pytest.raises(TrainingError, match=r"texts-00000.safetensors is missing or damaged"):
        carried_out(PLAN, tmp_path)
    (tmp_path / "plan.json").write_text("{")
    with pytest.raises(TrainingError, match=r"plan.json .*damaged"):
        carried_out(PLAN, tmp_path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": 0},
        {"rate": 0.0},
        {"positions": 99},
        {"overlap_from": 2.0},
        {"kind": "lstm"},
        {"batch": 0},
    ],
)
def test_impossible_plans_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        TrainingPlan(**wrong)
    with pytest.raises(ConfigError, match="count"):
        TextPlan(count=0)


def test_another_seed_gives_other_weights(finished: Path, tmp_path: Path) -> None:
    """The same seed gives the same weights even after a kill, as the tests above show."""
    carried_out(replace(PLAN, seed=1), tmp_path)
    first = weights_of(finished)
    assert any(not torch.equal(first[n], t) for n, t in weights_of(tmp_path).items())


def test_places_are_those_of_the_authors_where_the_target_is_deep_enough() -> None:
    assert draft_training.read_places(12) == (2, 6, 9)
    assert draft_training.read_places(30) == (2, 15, 27)
    assert draft_training.read_places(4) == (1, 2, 3)
    with pytest.raises(TrainingError, match="2 layers"):
        draft_training.read_places(2)
