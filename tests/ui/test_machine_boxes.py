"""The models of this machine in the pair panel, and targets without a draft."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from streamlit import config
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Selectbox

from specviz.local_models.finding import Found
from specviz.local_models.local_model import LocalModel, ModelFacts
from specviz.record import pairs
from specviz.record.numbers import SIZE
from specviz.record.pairs import CHAT_HEAD, CHAT_PAIR, PairSpec
from specviz.store import Library
from specviz.store.saving import save_run
from specviz.ui.access import the_access
from specviz.ui.session import machine_models, person
from specviz.ui.session.machine_models import itemsize_of, size_in_memory
from specviz.ui.widgets import embedded_captions
from specviz.ui.widgets.machine_boxes import DRAFT_MODEL, TARGET_MODEL
from specviz.ui.widgets.method_boxes import early_exits
from tests.formats.tiny_gguf import tiny_gguf
from tests.traces import make_trace
from tests.ui.machine_folder import use_home, use_models, write_models
from tests.ui.paging import opened, page_of, sound, until, until_over


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_models(tmp_path_factory.mktemp("models"))


@pytest.fixture
def machine(folder: Path, tmp_path: Path, home: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    use_models(folder, tmp_path, monkeypatch)
    return folder


def words(app: AppTest) -> str:
    return " ".join(str(each.value) for each in [*app.caption, *app.error])


def listed(page: Callable[..., AppTest], **link: str) -> AppTest:
    """Open a page with the list of this machine's models, and wait until nothing is searched."""
    app = page(pair="Machine", **link)
    until(app, lambda: "Searching" not in words(app) and "Comparing" not in words(app))
    return app


def box(app: AppTest, name: str) -> Selectbox:
    """Return the control; it has another key after the page has changed it."""
    found = [each for each in app.selectbox if str(each.key).startswith(name)]
    if not found:  # while models are searched
        raise KeyError(name)
    return found[0]


def draft_box(app: AppTest) -> Selectbox:
    return box(app, DRAFT_MODEL)


def tune(**link: str) -> AppTest:
    return page_of("tune", **link)


def test_choosing_a_target_offers_its_drafts_and_loads_nothing(machine: Path) -> None:
    app = listed(tune)
    target = box(app, TARGET_MODEL)
    names = [each.partition(" · ")[0] for each in target.options]
    assert {"large", "small", "foreign"} <= set(names)
    assert target.value is None
    sound(target.set_value("large").run())
    until(app, lambda: draft_box(app).value == "small")
    same, other, none = draft_box(app).options
    assert same.startswith("small · same tokenizer")
    assert other.startswith("foreign · 56 % shared")
    assert none == "None: prompt lookup"
    assert not [each for each in app.toggle if each.key == "shared_vocabulary"]
    assert "pair asked for" not in app.session_state
    sound(app.button(key="load_pair").click().run())
    shown = PairSpec(target=str(machine / "large"), draft=str(machine / "small"))
    assert app.session_state["pair asked for"] == shown
    assert app.query_params[DRAFT_MODEL] == "small"  # a better one may be found later


def test_a_name_that_the_closed_list_cuts_off_is_in_the_caption(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = listed(tune, target_model="large", draft_model="small")
    for length, count in ((5, 0), (4, 2)):
        monkeypatch.setattr("specviz.ui.widgets.machine_boxes._NAME_IN_LIST", length)
        sound(app.run())
        named = [each.value for each in app.caption if each.value.startswith(("large", "small"))]
        assert len(named) == count


def test_the_measured_acceptance_is_that_of_the_chosen_weights(machine: Path) -> None:
    trace = make_trace(["ar"])
    name = f"{machine / 'large'} + {machine / 'small'}"
    target = replace(trace.pair.target, weights_option="q8_0")
    save_run(Library(), replace(trace, pair=replace(trace.pair, name=name, target=target)))
    app = listed(tune, target_model="large", draft_model="small")
    until(app, lambda: draft_box(app).options[0].startswith("small · same tokenizer"))
    assert "measured α" not in draft_box(app).options[0]
    sound(app.selectbox(key="target_weights").set_value("q8_0").run())
    assert "measured α 0.500" in draft_box(app).options[0]


def test_decoded_weights_have_their_size_in_memory(home: None) -> None:
    assert size_in_memory(98_000_000, 540_000_000) == "98 MB, 540 MB in memory"
    assert size_in_memory(4100, 4000) == "4.1 kB"  # a file also has a header
    assert [itemsize_of("bfloat16", "cpu"), itemsize_of("auto", "cpu")] == [2, None]
    facts = ModelFacts(
        format="GGUF", quantization="Q4_1", family="llama", parameters=135, file_bytes=98,
        layers=None, context=None, vocabulary=None, chat=True, head="",
    )  # fmt: skip
    assert [facts.memory(None), facts.memory(2)] == [98, 270]
    assert replace(facts, quantization="Q2_K").memory(None) == 540
    assert replace(facts, family="gemma3_text").memory(None) == 540


def test_another_tokenizer_switches_the_shared_vocabulary_on(machine: Path) -> None:
    app = listed(tune, target_model="large")
    until(app, lambda: draft_box(app).value == "small")
    sound(draft_box(app).set_value("foreign").run())
    toggle = app.toggle(key="shared_vocabulary")
    assert (toggle.value, toggle.disabled) == (True, True)
    assert app.query_params[DRAFT_MODEL] == "foreign"
    sound(app.button(key="load_pair").click().run())
    assert app.session_state["pair asked for"].shared_vocabulary
    sound(box(app, TARGET_MODEL).set_value("small").run())  # and its default draft
    until(app, lambda: draft_box(app).value == "none")
    assert DRAFT_MODEL not in app.query_params


def test_the_choice_is_the_same_on_another_page(machine: Path) -> None:
    app = listed(tune, target_model="large", draft_model="none")
    assert draft_box(app).value == "none"
    app.switch_page("pages/lossless.py")
    app.query_params.clear()
    sound(app.run())
    assert box(app, TARGET_MODEL).value == "large"
    assert draft_box(app).value == "none"
    sound(app.segmented_control(key="pair").set_value("Embedded").run())
    assert TARGET_MODEL not in app.query_params


def test_folders_are_added_and_what_is_not_usable_has_a_reason(
    folder: Path, tmp_path: Path, home: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_home(tmp_path, monkeypatch)
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path / "specviz"))
    app = listed(tune, target_model="large")
    assert "large is not on this machine" in words(app)
    sound(app.text_input(key="model_folder").set_value(str(tmp_path / "nowhere")).run())
    assert "is not a folder" in words(app)
    sound(app.text_input(key="model_folder").set_value(str(folder)).run())
    until(app, lambda: box(app, TARGET_MODEL).value == "large")
    assert "**broken**" in words(app)
    sound(app.button(key="forget_folder_0").click().run())
    until(app, lambda: box(app, TARGET_MODEL).value is None)


def test_a_dashboard_that_others_can_reach_searches_nothing(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("searched")

    kept = config.get_option("server.address")
    monkeypatch.setattr(machine_models, "find_models", refuse)
    monkeypatch.setattr(the_access(), "guarded", True)
    monkeypatch.setattr(person, "_mark", lambda: the_access().open_mark)  # of an owner
    config.set_option("server.address", "0.0.0.0")
    try:
        app = tune(pair="Machine", target_model="large")
        assert "Others can reach this dashboard" in words(app)
        assert not [each for each in app.selectbox if str(each.key).startswith(TARGET_MODEL)]
    finally:
        config.set_option("server.address", kept)


def test_a_target_alone_runs_with_prompt_lookup_and_its_template(machine: Path) -> None:
    app = listed(opened, target_model="large", draft_model="none", length="16")
    assert app.toggle(key="chat").value  # known before the model is loaded
    assert app.selectbox(key="drafter_alone").value == "prompt-lookup"
    assert "early-exit:4" in app.selectbox(key="drafter_alone").options
    assert "model" not in app.selectbox(key="drafter_alone").options
    assert not [each for each in app.toggle if each.key == "shared_vocabulary"]
    assert app.button(key="run").label == "Load this model and run"
    sound(app.button(key="run").click().run())
    until_over(app)
    trace = app.session_state["history"].current.trace
    assert trace.pair.draft is None
    assert (trace.config.drafter, trace.config.chat) == ("prompt-lookup", True)
    sound(app.segmented_control(key="pair").set_value("Embedded").run())
    assert app.selectbox(key="drafter").value == "model"
    assert not [each for each in app.toggle if each.key == "chat"]


def test_a_search_that_ends_while_the_page_is_drawn_draws_it_again(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models, named = machine_models.the_machine_models(), machine_models.MachineModels.named
    find, looked = machine_models.find_models, Event()

    def find_afterwards(*given: Any) -> Found:
        assert looked.wait(60)
        return find(*given)

    def search_ends_after(self: machine_models.MachineModels, name: str) -> LocalModel | None:
        found = named(self, name)
        looked.set()
        while models.activity().searching:
            time.sleep(0.01)
        return found

    def page() -> None:
        import streamlit as st

        from specviz.record.pairs import PairSpec
        from specviz.ui.widgets.machine_boxes import chosen_models, show_machine_boxes

        st.write("found" if chosen_models(PairSpec()) else "not found")
        show_machine_boxes(PairSpec(), lambda: None)

    monkeypatch.setattr(machine_models, "find_models", find_afterwards)
    monkeypatch.setattr(machine_models.MachineModels, "named", search_ends_after)
    app = AppTest.from_function(page, default_timeout=60)
    app.query_params.update({TARGET_MODEL: "large", DRAFT_MODEL: "none"})
    app.run()
    assert app.markdown[0].value == "not found"
    assert "Searching" in words(app)
    until(app, lambda: "Searching" not in words(app))
    assert app.markdown[0].value == "found"


def test_the_drafters_with_and_without_a_draft_are_chosen_apart() -> None:
    app = opened(pair="Local", target_folder="one", drafter="suffix")
    assert app.selectbox(key="drafter_alone").value == "suffix"
    sound(app.selectbox(key="drafter_alone").set_value("prompt-lookup").run())
    sound(app.text_input(key="draft_folder").set_value("two").run())
    sound(app.selectbox(key="drafter").set_value("model").run())
    sound(app.text_input(key="draft_folder").set_value("").run())
    assert app.selectbox(key="drafter_alone").value == "prompt-lookup"
    sound(app.text_input(key="draft_folder").set_value("two").run())
    assert app.selectbox(key="drafter").value == "model"


def test_the_chat_model_is_offered_where_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed: list[Path | None] = [None]
    for module in (embedded_captions, pairs):
        monkeypatch.setattr(module, "chat_file", lambda: installed[0])
    app = page_of("tune", embedded=CHAT_PAIR)
    assert "make chat" in words(app)
    assert pair_of(app) == PairSpec()
    installed[0] = path = tiny_gguf(tmp_path / "model.gguf", tokens=40)
    app = opened()
    assert app.radio(key="embedded").value == "tinystories"
    captions = app.radio(key="embedded").proto.captions
    assert any(SIZE.shown(path.stat().st_size) in each for each in captions)
    path.write_bytes(b"GGUF")
    captions = sound(app.run()).radio(key="embedded").proto.captions
    assert "Chat model without a draft" in captions
    sound(app.radio(key="embedded").set_value(CHAT_PAIR).run())
    assert app.button(key="run").label == "Load the chat model and run"
    assert app.toggle(key="chat").value
    assert app.selectbox(key="drafter_alone").value == "prompt-lookup"
    sound(app.radio(key="embedded").set_value(CHAT_HEAD).run())
    assert app.button(key="run").label == "Load the chat model with its head and run"
    assert app.toggle(key="chat").value
    assert app.selectbox(key="draft_weights").value == "auto"


def pair_of(app: AppTest) -> PairSpec:
    """Load the shown pair, unless it is the default of every tab, and return it."""
    app.button(key="load_pair").click().run()
    return app.session_state["pair asked for"]


def test_early_exits_depend_on_the_depth() -> None:
    assert early_exits(None) == ["early-exit:1", "early-exit:2"]
    assert early_exits(30) == ["early-exit:8", "early-exit:15", "early-exit:22"]
    assert early_exits(2) == ["early-exit:1"]
    assert early_exits(1) == []
