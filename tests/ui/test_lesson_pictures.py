"""The pictures of the lesson show the values of the run in the player."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from specviz.theory.speed import expected_tokens, speedup
from specviz.ui.learn.pictures import picture_of
from specviz.ui.session.history import ShownRun, recorded_run
from tests.ui.lesson_runs import real, shown, written
from tests.ui.paging import page_of


def data_of(name: str, run: ShownRun, c: float | None = None) -> dict[str, Any]:
    picture = picture_of(name, run, c)
    assert picture is not None
    assert picture.alt
    return picture.data()


def sizes(row: dict[str, Any], kind: str) -> list[float]:
    return [each["size"] for each in row["parts"] if each["kind"] == kind]


def without_costs(run: ShownRun) -> ShownRun:
    return shown(replace(run.trace, step_costs=None))


def test_the_weights_stream_once_per_pass() -> None:
    run = real(gamma=4)
    alone, checked = data_of("memory", run)["streams"]
    drafted = [each.text for each in run.trace.rounds[0].candidates]
    assert (alone["passes"], len(alone["tokens"])) == (4, 4)
    assert checked["passes"] == 1
    assert [each["text"] for each in checked["tokens"]] == drafted


def test_a_run_with_few_guesses_is_replaced_in_the_picture_of_the_memory() -> None:
    data = data_of("memory", real(gamma=1))
    assert data["streams"] == data_of("memory", recorded_run())["streams"]


def test_a_time_that_is_not_known_yet_is_not_shown() -> None:
    run = written(alone=0.010)
    timing = replace(run, growing=True)
    assert "10.0 ms" in data_of("memory", run)["caption"]
    assert "ms" not in data_of("memory", timing)["caption"]


def test_a_round_is_drawn_with_its_times_and_verdicts() -> None:
    run = real(gamma=3, temperature=1.0)
    entry, (row,) = run.trace.rounds[0], data_of("drafting", run)["rows"]
    assert sum(sizes(row, "draft")) == pytest.approx(1000 * entry.times.draft)
    assert sizes(row, "target") == pytest.approx([1000 * entry.times.verify])
    verdicts = [each.verdict for each in entry.candidates]
    assert [each["state"] for each in row["tokens"]][:3] == verdicts


def test_passes_have_the_times_of_the_step_costs() -> None:
    run = recorded_run()
    roofline, data = run.figures.roofline, data_of("one_pass", run)
    assert roofline is not None
    for count, row in zip((1, 5, 9), data["rows"], strict=True):
        assert sizes(row, "target") == [roofline.passes[count - 1].seconds]
        assert row["outline"] == pytest.approx(count * roofline.target.seconds)
    assert data["scale"] == data["rows"][-1]["outline"]


def test_expected_tokens_are_drawn_for_each_gamma() -> None:
    run = recorded_run()
    assert run.figures.alpha is not None
    for row in data_of("gamma", run)["rows"]:
        drafted = len(sizes(row, "draft"))
        assert row["squares"] == pytest.approx(expected_tokens(run.figures.alpha, drafted))


@pytest.mark.parametrize("name", ["one_pass", "gamma", "costs"])
def test_the_recorded_run_replaces_a_run_without_step_costs(name: str) -> None:
    run = without_costs(real(gamma=3))
    assert data_of(name, run)["rows"] == data_of(name, recorded_run())["rows"]
    waiting = data_of(name, replace(run, growing=True))["caption"]
    assert len(waiting) > len(data_of(name, run)["caption"])  # they are being measured


def test_the_bars_of_the_costs_are_equally_long_without_a_gain() -> None:
    run = recorded_run()
    alpha, gamma, v = run.figures.alpha, run.trace.config.gamma, run.figures.v
    assert alpha is not None
    assert v is not None
    c = (expected_tokens(alpha, gamma) - v) / gamma
    assert speedup(alpha, gamma, c, v) == pytest.approx(1.0)
    alone, round_ = data_of("costs", run, c)["rows"]
    lengths = [sum(each["size"] for each in row["parts"]) for row in (alone, round_)]
    assert lengths[0] == pytest.approx(lengths[1])


def test_the_parts_of_a_round_add_up_to_its_cost() -> None:
    """The picture agrees with the bars above the player: both are in steps of the target."""
    run = written(["aaaaa"] * 4, round_seconds=0.1, alone=0.010)
    alone, round_ = data_of("loses", run)["rows"]
    assert sum(each["size"] for each in alone["parts"]) == pytest.approx(6.0)
    assert sum(each["size"] for each in round_["parts"]) == pytest.approx(10.0)


def test_a_round_without_a_timing_has_the_length_of_its_step_costs() -> None:
    run = shown(replace(written().trace, baseline=None))
    assert run.figures.c is not None
    assert run.figures.v is not None
    _, round_ = data_of("loses", run)["rows"]
    assert sizes(round_, "draft") == pytest.approx([5 * run.figures.c])
    assert sizes(round_, "target") == pytest.approx([run.figures.v])
    assert data_of("loses", without_costs(run))["rows"][1]["parts"] == []


@pytest.mark.parametrize("name", ["rejection", "residual"])
def test_steps_about_a_verdict_have_draggable_bars(name: str) -> None:
    app = page_of("learn", step=name)
    sent = [json.loads(each.proto.json) for each in app.get("bidi_component")]
    (bars,) = [each for each in sent if "labels" in each]
    draft, target = bars["start"]["draft"], bars["start"]["target"]
    assert len(bars["labels"]) == len(draft) == len(target)
    texts = " ".join(each.value for each in app.markdown)
    overlap = sum(map(min, draft, target))
    assert f"{100 * (1 - overlap):.1f} %" in texts
