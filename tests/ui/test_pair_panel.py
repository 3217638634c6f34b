"""Custom pairs: nothing is opened without a click; then they are checked, loaded and run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from specviz.record.pairs import LoadPart, PairSpec
from specviz.ui.widgets.pair_panel import parts_text, size_words, total_text
from specviz.ui.widgets.plain_text import as_text
from tests.engine.models import write_pair
from tests.engine.two_vocabularies import two_models
from tests.ui.paging import opened, sent, sound, until, until_over, until_state


def words(app: AppTest) -> str:
    elements = [*app.success, *app.warning, *app.error, *app.caption]
    return " ".join(str(each.value) for each in elements)


def own_pair(folder: Path) -> tuple[Path, Path]:
    write_pair(folder)
    return folder / "target", folder / "draft"


def with_folders(target: Path | str, draft: Path | str) -> AppTest:
    return opened(pair="Local", target_folder=str(target), draft_folder=str(draft))


def with_checked_pair(folder: Path) -> tuple[AppTest, Path]:
    """Check a pair in this folder; return the page and the target's folder."""
    target, draft = own_pair(folder)
    app = with_folders(target, draft)
    sound(app.button(key="check_pair").click().run())
    until(app, lambda: "Same vocabulary" in words(app))
    assert "Nothing to download" in words(app)
    return app, target


@pytest.mark.thorough
def test_two_folders_are_checked_loaded_and_run(tmp_path: Path) -> None:
    app, target = with_checked_pair(tmp_path)
    sound(app.button(key="load_pair").click().run())
    app.slider(key="length").set_value(16)
    sound(app.button(key="run").click().run())
    until_over(app)
    trace = app.session_state["history"].current.trace
    assert trace.pair.target.name == str(target)
    assert len(trace.rounds) > 1


def test_device_and_number_type_are_chosen_with_the_pair(tmp_path: Path) -> None:
    app = opened(pair="Local", target_folder=str(tmp_path), draft_folder=str(tmp_path))
    app.selectbox(key="device").set_value("cpu")
    sound(app.selectbox(key="dtype").set_value("bfloat16").run())
    sound(app.selectbox(key="draft_weights").set_value("float").run())
    sound(app.button(key="load_pair").click().run())
    asked = app.session_state["pair asked for"]
    assert (asked.device, asked.dtype, asked.target) == ("cpu", "bfloat16", str(tmp_path))
    assert (asked.target_weights, asked.draft_weights) == ("auto", "float")


def test_the_expected_time_is_that_of_earlier_loads(tmp_path: Path, own_home: None) -> None:
    target, draft = own_pair(tmp_path)
    app = with_folders(target, draft)
    assert "Loading takes" not in words(app)
    sound(app.button(key="load_pair").click().run())
    until(app, lambda: "target + draft” is loaded" in words(app))
    assert "Loading takes" not in words(app)
    sound(app.button(key="unload_pair").click().run())
    until(app, lambda: "No pair is loaded" in words(app))
    assert re.search(r"Loading takes about [\d.]+ s \(from 1 earlier load on this", words(app))
    sound(app.selectbox(key="target_weights").set_value("q8_0").run())
    assert "Loading takes" not in words(app)


def test_quantised_weights_have_a_note_in_the_tab_that_loaded_them() -> None:
    app = opened(target_weights="q8_0")
    sound(app.button(key="load_pair").click().run())
    until(app, lambda: f"target in {as_text('Q8_0')}” is loaded" in words(app))
    assert "target are quantised to" in words(app)
    other = opened()
    assert "is loaded" in words(other)
    assert "are quantised" not in words(other)


def test_the_parts_of_loading_are_listed_with_their_times() -> None:
    times = {"importing the engine": 1.26, "checking *x*": 0.01, "reading *x*": 0.5}
    parts = [LoadPart(text=text, seconds=seconds) for text, seconds in times.items()]
    assert total_text(parts) == " (in 1.8 s)"
    assert total_text([LoadPart(text="downloading", seconds=612.0)]) == " (in 10 min)"
    assert parts_text(parts) == "1.3 s: importing the engine\n\n0.5 s: reading \\*x\\*"
    assert (total_text(()), parts_text(())) == ("", None)


def test_a_link_opens_no_folder(tmp_path: Path) -> None:
    target, draft = own_pair(tmp_path)
    app = with_folders(target, draft)
    until(app, lambda: "embedded pair” is loaded" in words(app))
    assert "is loaded (in " in words(app)
    assert "pair asked for" not in app.session_state
    assert sent(app)["run"]["detail"] == "press Load this pair and run"
    sound(app.slider(key="gamma").set_value(2).run())  # a setting loads nothing either
    assert app.session_state["history"].current is None
    assert "is not loaded yet" in app.info[0].value


def test_run_uses_the_shown_pair(tmp_path: Path) -> None:
    target, draft = own_pair(tmp_path)
    app = with_folders(target, draft)
    assert app.button(key="run").label == "Load this pair and run"
    app.slider(key="length").set_value(16)
    sound(app.button(key="run").click().run())
    until_over(app)
    assert app.session_state["history"].current.trace.pair.target.name == str(target)
    assert app.button(key="run").label == "Run"
    sound(app.segmented_control(key="pair").set_value("Embedded").run())
    assert app.button(key="run").label == "Load the embedded pair and run"
    sound(app.button(key="run").click().run())
    until_over(app)
    assert app.session_state["history"].current.trace.pair.name == "tinystories"


def test_empty_boxes_run_nothing() -> None:
    app = opened(pair="Local", draft_folder="somewhere")
    sound(app.button(key="run").click().run())
    assert "Name a target under" in words(app)
    assert app.session_state["history"].current is None


def test_the_boxes_are_the_same_on_another_page(tmp_path: Path) -> None:
    target, draft = own_pair(tmp_path)
    app = with_folders(target, draft)
    app.switch_page("pages/compare.py")
    app.query_params.clear()
    sound(app.run())
    assert app.text_input(key="target_folder").value == str(target)
    shown = PairSpec(target=str(target), draft=str(draft))
    assert [each.spec for each in app.session_state["compare cards"].lanes] == [shown, shown]
    titles = [each.options for each in app.selectbox if each.label == "Pair"]
    assert all("target + draft" in each for each in titles)  # names instead of paths
    sound(app.segmented_control(key="pair").set_value("Embedded").run())
    lanes = app.session_state["compare cards"].lanes
    assert [each.spec for each in lanes] == [PairSpec(), PairSpec()]
    assert [each.value for each in app.selectbox if each.label == "Pair"] == [PairSpec()] * 2


def test_an_impossible_pair_is_reported_with_its_remedy(tmp_path: Path) -> None:
    app = with_folders(tmp_path / "nowhere", tmp_path / "nothing")
    sound(app.button(key="check_pair").click().run())
    until(app, lambda: "does not exist" in words(app))
    assert "Give a model folder" in words(app)


def test_a_check_belongs_to_the_named_pair(tmp_path: Path) -> None:
    app, target = with_checked_pair(tmp_path)
    sound(app.text_input(key="draft_folder").set_value(str(target)).run())
    assert "Same vocabulary" not in words(app)


@pytest.mark.thorough
def test_unloading_and_loading_again() -> None:
    app = opened(pair_panel="true")
    until(app, lambda: "is loaded" in words(app))
    sound(app.button(key="unload_pair").click().run())
    until(app, lambda: "No pair is loaded" in words(app))
    sound(app.button(key="load_pair").click().run())
    until(app, lambda: "is loaded" in words(app))


def test_a_pair_that_fails_to_load_is_replaced_by_the_previous_one(tmp_path: Path) -> None:
    app = with_folders(tmp_path / "nowhere", tmp_path / "nothing")
    until(app, lambda: "is loaded" in words(app))
    sound(app.button(key="load_pair").click().run())
    until(app, lambda: "does not exist" in words(app))
    assert app.button(key="load_pair").label == "Load this pair"  # to try again
    sound(app.button(key="run").click().run())
    assert "does not exist" in until_state(app, "failed")["run"]["detail"]
    sound(app.segmented_control(key="pair").set_value("Embedded").run())
    assert app.button(key="run").label == "Run"
    app.slider(key="length").set_value(16)
    sound(app.button(key="run").click().run())
    until_over(app)
    assert app.session_state["history"].current.trace.pair.name == "tinystories"


def test_the_failure_of_another_tab_is_not_shown(tmp_path: Path) -> None:
    app = with_folders(tmp_path / "nowhere", tmp_path / "nothing")
    sound(app.button(key="load_pair").click().run())
    until(app, lambda: "does not exist" in words(app))
    other = opened()
    assert "nowhere" not in words(other)
    assert "nowhere" not in str(sent(other))


def test_another_tab_shows_and_stops_a_new_measurement() -> None:
    app = opened()
    until(app, lambda: any(each.key == "measure_again" for each in app.button))
    sound(app.button(key="measure_again").click().run())
    elsewhere = sound(opened().switch_page("pages/runs.py").run())
    until(elsewhere, lambda: "Measuring the step costs again" in words(elsewhere))
    sound(elsewhere.button(key="calibration_stop").click().run())
    until(elsewhere, lambda: "Measuring the step costs again" not in words(elsewhere))


def test_size_ratios_are_described() -> None:
    assert size_words(5.0).startswith("The target is 5")
    assert size_words(1.0).startswith("The draft is as large as the target")
    assert size_words(0.5).startswith("The draft is larger than the target")


def test_two_tokenizers_use_their_common_tokens(tmp_path: Path) -> None:
    """Refused without the toggle; with it, a run reports the number of shared tokens."""
    two_models(tmp_path, "words", "other words")
    app = with_folders(tmp_path / "target", tmp_path / "draft")
    sound(app.button(key="check_pair").click().run())
    until(app, lambda: "different tokenizers" in words(app))
    assert not app.toggle(key="shared_vocabulary").value
    sound(app.toggle(key="shared_vocabulary").set_value(True).run())
    sound(app.button(key="check_pair").click().run())
    until(app, lambda: "Shared vocabulary: 390 of the target's 700 tokens" in words(app))
    app.slider(key="length").set_value(16)
    sound(app.button(key="run").click().run())
    until_over(app)
    assert app.session_state["history"].current.trace.pair.shared_tokens == 390


def test_a_link_can_set_the_shared_vocabulary(tmp_path: Path) -> None:
    places = {"target_folder": str(tmp_path), "draft_folder": str(tmp_path)}
    app = opened(pair="Local", shared_vocabulary="true", **places)
    assert app.toggle(key="shared_vocabulary").value
    sound(app.button(key="load_pair").click().run())
    assert app.session_state["pair asked for"].shared_vocabulary


def test_a_head_of_another_target_needs_its_switch(tmp_path: Path) -> None:
    head = PairSpec(name="tinystories-eagle3")
    (tmp_path / "renamed").symlink_to(head.target_place)
    app = with_folders(tmp_path / "renamed", str(head.draft_place))
    switch = app.toggle(key="other_target")
    assert "tinystories/target" in switch.help
    sound(app.button(key="load_pair").click().run())
    until(app, lambda: "name the target tinystories/target" in words(app))
    sound(app.toggle(key="other_target").set_value(True).run())
    sound(app.button(key="load_pair").click().run())
    until(app, lambda: "few of the head" in words(app))
    assert app.session_state["pair asked for"].other_target


def test_no_switch_for_a_head_of_this_target() -> None:
    head = PairSpec(name="tinystories-eagle3")
    app = with_folders(head.target_place, str(head.draft_place))
    assert not [each for each in app.toggle if each.key in ("other_target", "shared_vocabulary")]
