"""What a viewer, a student and the owner see of each other's runs on the pages."""

from __future__ import annotations

import io
import json
from collections.abc import Callable

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

import specviz.ui.shell  # noqa: F401  # imports the person before a test replaces it
from specviz.errors import StoreError
from specviz.store import SHARED, Library, Query, trace_to_json
from specviz.store.measured_alphas import measured_alphas
from specviz.store.saving import save_run
from specviz.ui.runs.actions import _file, _race, _rounds_table, _runs_table
from specviz.ui.runs.importing import import_files
from specviz.ui.session import person
from specviz.ui.session.page_library import the_library
from specviz.ui.train.controls import _prompts_of_runs
from tests.store.persons import ADA, BOB, PERSONS, SEEN, Shelf, trace_named
from tests.ui.compare_page import compare_page
from tests.ui.paging import opened, sent, sound
from tests.ui.runs_page import choose, home, runs_page, table, words
from tests.ui.tune_page import tune_page

pytestmark = pytest.mark.usefixtures("loads_nothing")

__all__ = ["home"]  # fixture

Login = Callable[[str], None]


@pytest.fixture
def shelf(home: None) -> Shelf:
    return Shelf()


@pytest.fixture
def login(monkeypatch: pytest.MonkeyPatch) -> Login:
    """Return a function that makes somebody the person of all scripts."""
    return lambda role: monkeypatch.setattr(person, "the_person", lambda: PERSONS[role])


def listed(app: AppTest) -> set[str]:
    return set(table(app)["Run"])


def place_of(app: AppTest, name: str) -> int:
    return list(table(app)["Run"]).index(name)


def keys(app: AppTest) -> set[str]:
    return {str(each.key) for each in app.button}


# The page Runs


@pytest.mark.parametrize("role", ["demo", "viewer", "ada", "owner"])
def test_the_page_lists_what_the_person_sees(role: str, shelf: Shelf, login: Login) -> None:
    login(role)
    app = runs_page(runs_of_comparisons="true")
    assert listed(app) == SEEN[role]
    assert ("Person" in table(app)) == (role == "owner")


def test_the_owner_sees_whose_run_it_is(shelf: Shelf, login: Login) -> None:
    login("owner")
    app = runs_page()
    persons = dict(zip(table(app)["Run"], table(app)["Person"], strict=True))
    assert (persons["secret"], persons["hers"], persons["his"]) == ("owner", ADA, BOB)
    sound(app.multiselect(key="runs_persons").set_value([ADA]).run())
    assert listed(app) == {"hers"}


def test_the_owner_shares_with_one_click(shelf: Shelf, login: Login) -> None:
    login("owner")
    app = runs_page()
    choose(app, place_of(app, "secret"), place_of(app, "his"))
    sound(app.button(key="runs_share").click().run())
    assert SHARED in shelf.library.row(shelf.ids["his"]).tags
    login("viewer")
    assert {"secret", "his"} <= listed(runs_page())
    login("owner")
    assert app.button(key="runs_share").label == "Stop sharing"
    sound(app.button(key="runs_share").click().run())
    login("viewer")
    assert not {"secret", "his"} & listed(runs_page())


def test_without_a_login_nothing_is_added(home: None) -> None:
    save_run(Library(), trace_named("one"), name="one")
    app = choose(runs_page(), 0)
    assert "Person" not in table(app)
    assert "runs_share" not in keys(app)
    assert not app.button(key="runs_delete").disabled
    assert "person" not in pd.read_parquet(io.BytesIO(_runs_table(Library(), Query())))


def test_a_student_changes_only_their_own_runs(shelf: Shelf, login: Login) -> None:
    login("ada")
    app = runs_page()
    choose(app, place_of(app, "his shared"))
    assert app.button(key="runs_delete").disabled
    assert "only your own runs" in words(app)
    assert not [each for each in app.text_input if each.label == "Name"]
    assert "runs_share" not in keys(app)
    choose(app, place_of(app, "hers"))
    assert not app.button(key="runs_delete").disabled
    sound(app.button(key="runs_delete").click().run())
    assert "hers" not in listed(app)
    sound(app.button(key="runs_undo").click().run())
    assert "hers" in listed(app)


def test_a_student_types_the_shared_tag_in_vain(shelf: Shelf, login: Login) -> None:
    login("ada")
    app = runs_page()
    choose(app, place_of(app, "hers"))
    tags = next(each for each in app.text_input if each.label.startswith("Tags"))
    tags.set_value("mine, shared")
    save = next(each for each in app.button if each.label == "Save")
    sound(save.click().run())
    assert "Only the owner" in app.error[0].value
    assert shelf.library.row(shelf.ids["hers"]).tags == ()


def test_a_viewer_may_not_import_or_change(shelf: Shelf, login: Login) -> None:
    login("viewer")
    app = runs_page()
    choose(app, place_of(app, "shared"))
    assert not {"runs_delete", "runs_share"} & keys(app)
    assert not [each for each in app.button if each.label in ("Save", "Import these")]
    done = import_files(the_library(), [("a.json", trace_to_json(trace_named("a")).encode())])
    assert done.run_ids == ()
    assert "You may not store runs here" in done.refused[0]


def test_a_forged_undo_restores_nothing(shelf: Shelf, login: Login) -> None:
    shelf.library.delete([shelf.ids["his"]])
    login("ada")
    app = runs_page()
    app.session_state["runs deleted"] = (shelf.ids["his"], shelf.ids["shared gone"])
    sound(app.run())
    sound(app.button(key="runs_undo").click().run())
    assert {row.name for row in shelf.library.find(Query(deleted=True))} >= {"his", "shared gone"}


def test_a_button_pressed_after_the_role_ended_does_nothing(shelf: Shelf, login: Login) -> None:
    login("owner")
    app = runs_page()
    choose(app, place_of(app, "secret"))
    login("viewer")
    app.button(key="runs_share").click().run()
    assert shelf.library.row(shelf.ids["secret"]).tags == ()
    login("owner")
    app = runs_page()
    choose(app, place_of(app, "secret"))
    login("ada")
    app.button(key="runs_delete").click().run()
    assert shelf.library.row(shelf.ids["secret"]).name == "secret"


# Links


def link_words(app: AppTest, run_id: str) -> list[str]:
    """Return what the page shows, without the state of the pair, which changes by itself."""
    parts = (*app.error, *app.warning, *app.info, *app.caption, *app.markdown)
    words = [each.value.replace(run_id, "ID") for each in parts]
    return [each for each in words if "“embedded pair”" not in each]


@pytest.mark.parametrize("role", ["viewer", "ada"])
def test_a_link_to_a_hidden_run_opens_nothing(role: str, shelf: Shelf, login: Login) -> None:
    login(role)
    hidden, missing = shelf.ids["his"], "f" * 32
    app, other = opened(run=hidden), opened(run=missing)
    assert sent(app)["run"]["id"] == "recorded"
    assert link_words(app, hidden) == link_words(other, missing)
    assert app.error
    assert sent(opened(run=shelf.ids["his shared"]))["run"]["id"] == shelf.ids["his shared"]


def test_hidden_runs_are_left_out_side_by_side(shelf: Shelf, login: Login) -> None:
    login("ada")

    def left_out(run_id: str) -> list[str]:
        app = compare_page(compare_tab="Side by side")
        app.query_params["beside"] = [run_id, shelf.ids["shared"], shelf.ids["hers"]]
        sound(app.run())
        return [each.value.replace(run_id, "ID") for each in app.warning]

    assert len(left_out(shelf.ids["his"])) == 1
    assert left_out(shelf.ids["his"]) == left_out("e" * 32)


def test_a_run_that_is_no_longer_shared_is_closed(shelf: Shelf, login: Login) -> None:
    login("ada")
    shared = shelf.ids["his shared"]
    app = opened(run=shared)
    side = compare_page(compare_tab="Side by side")
    side.query_params["beside"] = [shared, shelf.ids["shared"]]
    assert not sound(side.run()).warning
    shelf.library.share([shared], shared=False)
    assert sent(sound(app.run()))["run"]["id"] == "recorded"
    assert "There is no run" in app.error[0].value
    assert len(sound(side.run()).warning) == 1


@pytest.mark.parametrize("key", ["half", "closed", "missing"])
def test_a_link_to_a_hidden_comparison_shows_none(key: str, shelf: Shelf, login: Login) -> None:
    login("ada")
    app = compare_page(compare_tab="Kept", kept=key)
    assert "not in this library" in app.warning[0].value
    assert not any("half" in option for box in app.selectbox for option in box.options)


@pytest.mark.parametrize("key", ["closed", "missing"])
def test_the_list_of_a_hidden_comparison_is_empty(key: str, shelf: Shelf, login: Login) -> None:
    login("ada")
    assert "No run matches" in words(runs_page(comparison=key))


# Exports, made after the click, outside of any script


def test_exports_have_only_what_the_person_sees(shelf: Shelf, login: Login) -> None:
    login("ada")
    library = the_library()
    login("owner")  # nobody is current outside of a script
    runs = pd.read_parquet(io.BytesIO(_runs_table(library, Query())))
    assert set(runs["name"]) == SEEN["ada"]
    assert "person" not in runs
    rounds = pd.read_parquet(io.BytesIO(_rounds_table(library, Query())))
    assert shelf.names(set(rounds["run"])) == SEEN["ada"]
    for hidden in ("his", "secret", "shared gone"):
        with pytest.raises(StoreError, match="There is no run"):
            _file(library, shelf.ids[hidden], trace_to_json)
    row = shelf.library.row(shelf.ids["his"])
    with pytest.raises(StoreError, match="There is no run"):
        _race(library, [row])
    with pytest.raises(StoreError, match="There is no run"):
        _rounds_table(library, [row])


def test_the_owners_export_names_the_persons(shelf: Shelf, login: Login) -> None:
    login("owner")
    runs = pd.read_parquet(io.BytesIO(_runs_table(the_library(), Query())))
    assert dict(zip(runs["name"], runs["person"], strict=True))["his"] == BOB


# Imports


@pytest.mark.parametrize("field", ["person", "owner", "tags", "id", "comparison"])
def test_a_file_cannot_say_whose_run_it_is(field: str, shelf: Shelf, login: Login) -> None:
    login("ada")
    forged = json.loads(trace_to_json(trace_named("new"))) | {field: BOB}
    done = import_files(the_library(), [("a.json", json.dumps(forged).encode())])
    assert (done.run_ids, len(done.refused)) == ((), 1)


def test_an_import_does_not_reveal_a_hidden_run(shelf: Shelf, login: Login) -> None:
    shelf.library.delete([shelf.ids["his"]])
    login("ada")
    files = [(f"{name}.json", trace_to_json(trace_named(name)).encode()) for name in ("his", "new")]
    done = import_files(the_library(), files)
    assert (done.known, len(done.run_ids)) == (0, 2)
    assert not set(done.run_ids) & set(shelf.ids.values())
    assert {shelf.library.row(each).person for each in done.run_ids} == {ADA}
    assert "his" in {row.name for row in shelf.library.find(Query(deleted=True))}


# Other readers of stored runs


def test_texts_for_a_training_are_only_those_the_person_sees(shelf: Shelf, login: Login) -> None:
    login("ada")
    assert set(_prompts_of_runs()) == {f"prompt of {name}" for name in SEEN["ada"]}


def test_the_analysis_of_runs_offers_only_visible_runs(shelf: Shelf, login: Login) -> None:
    login("ada")
    options = tune_page(tune_tab="A run").selectbox(key="tune_run").options
    assert {each.split(" · ")[0] for each in options} == SEEN["ada"]


def test_earlier_acceptance_is_of_visible_runs(shelf: Shelf, login: Login) -> None:
    for name in ("hers", "his", "secret"):
        with shelf.library._writing() as db:
            db.execute(
                "UPDATE runs SET alpha_observed = 0.5, pair = ? WHERE id = ?",
                (f"target of {name} + draft", shelf.ids[name]),
            )
    login("ada")
    found = {target for target, _ in measured_alphas(library=the_library())}
    assert "target of hers" in found
    assert not {"target of his", "target of secret"} & found


def test_a_session_that_changes_hands_starts_anew(shelf: Shelf, login: Login) -> None:
    login("ada")
    app = opened(run=shelf.ids["hers"])
    assert sent(app)["run"]["id"] == shelf.ids["hers"]
    login("viewer")
    sound(app.run())
    assert sent(app)["run"]["id"] == "recorded"
    assert "prompt of hers" not in json.dumps(sent(app))
