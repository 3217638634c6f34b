"""The Runs page without a browser: find, compare, annotate, delete and undo; its table."""

from __future__ import annotations

import io
import sqlite3
from dataclasses import replace

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from specviz.comparison.plan import Lane, parse_lane
from specviz.errors import StoreError
from specviz.figures.frames import rounds_frame
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig
from specviz.store import Library, Query, load_trace
from specviz.store.saving import save_run
from specviz.store.tables import parquet, rounds_of_runs, runs_frame
from specviz.ui.runs.actions import lane_of
from specviz.ui.runs.table import ACCEPTED, PAGE_ROWS, _cells, head_of, row_label
from specviz.ui.session.history import recorded_run
from tests.store.copied_runs import copy_first_run
from tests.traces import BODY, full_trace, make_trace, with_bodies
from tests.ui.paging import sound
from tests.ui.runs_page import FIRST, choose, home, library, runs_page, table, words
from tests.ui.theory_pages import median_ms

__all__ = ["home", "library"]  # fixtures

STATED_MS = 300


def test_an_empty_library_shows_what_to_do() -> None:
    app = runs_page()
    assert "No runs yet" in words(app)
    assert "Recorded example" in words(app)
    (row,) = app.dataframe[0].value.to_dict("records")
    recorded = recorded_run().trace
    assert row["Tokens"] == len(recorded.token_ids)
    assert list(row[ACCEPTED]) == [each.num_accepted for each in recorded.rounds][:60]


def test_the_table_has_the_figures_of_the_runs(library: Library) -> None:
    run_id = save_run(library, full_trace(), name="mine")
    summary = library.row(run_id).summary
    (row,) = table(runs_page()).to_dict("records")
    assert row["Run"] == "mine"
    assert summary.alpha_observed is not None
    assert (row["α observed"], row["τ"]) == (summary.alpha_observed, summary.tau)
    assert "α expected" not in row
    low, high = summary.speedup_low, summary.speedup_high
    assert low is not None
    assert high is not None
    assert row["Speedup"] == f"{low:.2f}–{high:.2f}×"
    assert row["Tokens/s"] == summary.tokens_per_second
    assert list(row[ACCEPTED]) == [each.num_accepted for each in full_trace().rounds]


@pytest.mark.parametrize("stored", [None, "", "1,,2", "-1", "nan", "1.5"])
def test_an_unreadable_list_of_accepted_candidates_is_left_out(
    library: Library, stored: str | None
) -> None:
    save_run(library, full_trace())
    row = library.find(Query())[0]
    assert _cells(replace(row, summary=replace(row.summary, accepted=stored)))[ACCEPTED] is None


def keep_older(library: Library, count: int) -> None:
    """Save runs in an older schema, each with half of its tested candidates accepted."""
    for _ in range(count):
        save_run(library, make_trace(["ar"]))
    with sqlite3.connect(library.path) as db:
        db.execute("UPDATE runs SET alpha_observed = NULL, unread = 1")


def test_reads_the_observed_alpha_of_older_runs(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specviz.ui.runs.older_runs._SLICE", 0.0)  # one run at a time
    keep_older(library, 3)
    app = runs_page()
    assert "reading the observed α of 2 older runs" in words(app)
    assert list(table(app)["α observed"].dropna()) == [0.5]
    assert "observed α of one older run" in words(sound(app.run()))
    sound(app.run())
    assert "older run" not in words(app)
    assert list(table(app)["α observed"]) == [0.5] * 3


def test_lists_a_library_that_cannot_be_written(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_library: Library, _seconds: float) -> int:
        raise StoreError("There is no room left.", remedy="Free some.")

    keep_older(library, 2)
    monkeypatch.setattr(Library, "complete_older", full)
    app = runs_page()
    assert "no room left" in app.error[0].value
    assert len(table(app)) == 2


def test_chosen_weights_are_a_part_of_the_name(library: Library) -> None:
    trace = make_trace()
    target = replace(trace.pair.target, weights="Q8_0", weights_option="q8_0")
    save_run(library, trace)
    save_run(library, replace(trace, pair=replace(trace.pair, target=target)))
    quantised, stored = table(runs_page()).to_dict("records")
    assert quantised["Run"] == f"target in Q8_0, {stored['Run']}"
    assert quantised["Pair"] == f"{stored['Pair']} · target in Q8_0"
    assert "Q8_0" not in stored["Run"]


def test_prompts_distinguish_runs_of_one_name(library: Library) -> None:
    trace = make_trace()
    for text in ("The red\nfox", "x" * 70):  # runs of one lane share a name
        save_run(library, replace(trace, prompt=replace(trace.prompt, text=text)), name="γ 2")
    app = runs_page()
    assert list(table(app)["Run"]) == ["γ 2", "γ 2"]
    assert list(table(app)["Prompt"]) == ["x" * 59 + "…", "The red fox"]
    assert "The red fox" in words(choose(app, 1))


def test_search_filter_order_and_pages(library: Library) -> None:
    for number in range(PAGE_ROWS + 3):
        config = RunConfig(gamma=1 + number % 2)
        save_run(library, make_trace(config=config), name=f"run {number:02}")
    app = runs_page()
    assert len(table(app)) == PAGE_ROWS
    sound(app.button(key="runs_on").click().run())
    assert list(table(app)["Run"]) == ["run 02", "run 01", "run 00"]
    sound(app.selectbox(key="runs_order").set_value("Name").run())
    assert table(app)["Run"].iloc[0] == "run 00"  # a new order begins at its first page
    sound(app.text_input(key="runs_search").set_value("RUN 17").run())
    assert list(table(app)["Run"]) == ["run 17"]
    sound(app.text_input(key="runs_search").set_value("").run())
    save_run(library, replace(make_trace(), finish="stopped"), name="broken off")
    sound(app.run())
    sound(app.multiselect(key="runs_finishes").set_value(["stopped"]).run())
    assert list(table(app)["Run"]) == ["broken off"]
    assert "Filtered by finish reason" in words(app)
    sound(app.text_input(key="runs_search").set_value("nothing such").run())
    assert "No run matches" in words(app)


def test_the_link_contains_the_search(library: Library) -> None:
    for name in ("pears", "plums"):
        save_run(library, make_trace(), name=name)
    assert list(table(runs_page(runs_search="plum"))["Run"]) == ["plums"]


def test_an_unknown_order_is_the_default(library: Library) -> None:
    save_run(library, make_trace(), name="mine")
    assert len(table(runs_page(runs_order="; DROP TABLE runs", runs_page="-3"))) == 1


def test_saves_name_tags_and_note(library: Library) -> None:
    run_id = save_run(library, make_trace())
    app = choose(runs_page(), 0)
    app.text_input[1].set_value("A name")
    app.text_input[2].set_value("one, two")
    app.text_area[0].set_value("A note")
    sound(next(each for each in app.button if each.label == "Save").click().run())
    row = library.row(run_id)
    assert (row.name, row.tags, row.note) == ("A name", ("one", "two"), "A note")


def test_saves_what_was_typed_before_another_run_ended(library: Library) -> None:
    run_id = save_run(library, make_trace())
    app = choose(runs_page(), 0)
    app.text_input[1].set_value("A name")
    app.text_area[0].set_value("A note")
    other = save_run(library, make_trace())
    sound(next(each for each in app.button if each.label == "Save").click().run())
    assert (library.row(run_id).name, library.row(run_id).note) == ("A name", "A note")
    assert not library.row(other).note
    assert app.text_area[0].value == "A note"


def test_refuses_too_many_tags(library: Library) -> None:
    save_run(library, make_trace())
    app = choose(runs_page(), 0)
    app.text_input[2].set_value(",".join(map(str, range(30))))
    sound(next(each for each in app.button if each.label == "Save").click().run())
    assert "too many tags" in app.error[0].value


def test_delete_and_undo(library: Library) -> None:
    for name in ("a", "b", "c"):
        save_run(library, make_trace(), name=name)
    app = choose(runs_page(), 0, 2)
    sound(app.button(key="runs_delete").click().run())
    assert list(table(app)["Run"]) == ["b"]
    assert "2 runs deleted." in words(app)
    sound(app.button(key="runs_undo").click().run())
    assert list(table(app)["Run"]) == ["c", "b", "a"]


def test_deletes_and_restores_the_last_run(library: Library) -> None:
    save_run(library, make_trace(), name="only")
    app = choose(runs_page(), 0)
    sound(app.button(key="runs_delete").click().run())
    assert "No runs yet" in words(app)
    sound(app.button(key="runs_undo").click().run())
    assert list(table(app)["Run"]) == ["only"]


def test_adds_the_lanes_of_runs_to_compare(library: Library) -> None:
    gammas = (2, 8, 2, 3, 4, 5)
    for gamma in gammas:
        save_run(library, make_trace(config=RunConfig(gamma=gamma, temperature=0.5)))
    app = choose(runs_page(), *range(6))
    sound(app.button(key="runs_compare").click().run())
    lanes = app.session_state["compare_lanes"]
    default = Lane(spec=PairSpec(), config=RunConfig())
    assert [parse_lane(each, default).config.gamma for each in lanes] == [5, 4, 3, 2]
    assert {parse_lane(each, default).config.temperature for each in lanes} == {0.5}
    left_out = words(app).partition("Left out: ")[2].split(";")
    # Runs like another one, over the number of lanes, and over the number side by side.
    assert [each.split()[0] for each in left_out[:3]] == ["1", "1", "2"]


def test_a_link_selects_the_runs_of_a_comparison(library: Library) -> None:
    library.begin_comparison("key", "{}", "one")
    save_run(library, make_trace(), name="of it", comparison="key", job=(0, 0, 0))
    save_run(library, make_trace(), name="another")
    app = runs_page(comparison="key")
    assert list(table(app)["Run"]) == ["of it"]
    assert "Runs of one comparison." in words(app)
    sound(app.button(key="runs_all").click().run())
    assert list(table(app)["Run"]) == ["another"]


def test_runs_of_comparisons_are_hidden_until_wanted(library: Library) -> None:
    library.begin_comparison("key", "{}", "one")
    for repeat in range(3):
        save_run(library, make_trace(), name="of it", comparison="key", job=(0, 0, repeat))
    app = runs_page()
    assert not app.dataframe
    assert "of comparisons match (3)" in words(app)
    save_run(library, make_trace(), name="another")
    sound(app.run())
    assert list(table(app)["Run"]) == ["another"]
    assert "1 run, hidden runs of comparisons: 3" in words(app)
    sound(app.toggle(key="runs_of_comparisons").set_value(True).run())
    assert len(table(app)) == 4
    assert "hidden runs of comparisons" not in words(app)


def test_chosen_rows_have_their_whole_names(library: Library) -> None:
    names = [f"{word} {'long name ' * 9}".strip() for word in ("older", "newer")]
    for name in names:
        save_run(library, make_trace(), name=name)
    app = runs_page()
    for chosen in ((0,), (0, 1)):
        shown = words(choose(app, *chosen))
        assert [name in shown for name in names] == [1 in chosen, 0 in chosen]


def test_a_lane_names_the_pair_of_the_run() -> None:
    trace = load_trace(FIRST)
    default = Lane(spec=PairSpec(), config=RunConfig())
    lane = parse_lane(lane_of(trace), default)
    assert lane.spec == PairSpec(name="tinystories", target_body="90M")
    named = replace(
        trace.pair, name="x", target=replace(trace.pair.target, name="org/big"), draft=None
    )
    lookup = replace(trace.config, drafter="prompt-lookup")
    lane = parse_lane(lane_of(replace(trace, pair=named, config=lookup)), default)
    assert (lane.spec.target, lane.spec.draft) == ("org/big", None)


# Tables


def test_tables_round_trip_through_parquet(library: Library) -> None:
    traces = {save_run(library, each): each for each in (full_trace(), make_trace())}
    rows = library.find()
    runs = pd.read_parquet(io.BytesIO(parquet(runs_frame(rows))))
    assert list(runs["id"]) == [row.id for row in rows]
    assert list(runs["tau"]) == [row.summary.tau for row in rows]
    rounds = pd.read_parquet(io.BytesIO(parquet(rounds_of_runs(traces.items()))))
    for run_id, trace in traces.items():
        own = rounds[rounds["run"] == run_id]
        assert list(own["emitted"]) == list(rounds_frame(trace)["emitted"])
    assert rounds.columns[0] == "run"


# Time


def test_a_rerun_over_ten_thousand_takes_less_than_twice_the_stated_time(
    library: Library,
) -> None:
    save_run(library, make_trace(), name="run")
    with sqlite3.connect(library.path) as db:
        copy_first_run(db, 9_999)

    def change(app: AppTest, turn: int) -> None:
        app.text_input(key="runs_search").set_value(f"run {'w1 ' * turn}")

    spent = median_ms(runs_page(), change)
    assert Library().count(Query()) == 10_000
    print(f"10,000 runs: {spent:.0f} ms")
    assert spent < 2 * STATED_MS


@pytest.mark.parametrize(
    ("ends", "shown"),
    [
        ((1.36, 1.5), "1.43× (1.36–1.50)"),
        ((1.1, 2.0), "1.10–2.00×"),
        ((None, None), "1.43× ?"),
    ],
)
def test_lists_a_speedup_with_its_interval(
    library: Library, ends: tuple[float | None, float | None], shown: str
) -> None:
    save_run(library, full_trace())
    row = library.find(Query())[0]
    low, high = ends
    summary = replace(row.summary, speedup=1.43, speedup_low=low, speedup_high=high)
    assert _cells(replace(row, summary=summary))["Speedup"] == shown
    assert row.summary.speedup_low is not None


def test_labels_a_run_by_what_distinguishes_it(library: Library) -> None:
    save_run(library, full_trace())
    row = library.find(Query())[0]
    gamma, temperature = row.summary.gamma, row.summary.temperature
    settings, seed = f"γ {gamma}, T {temperature:g}", f"seed {row.summary.seed}"
    plain = f"{settings}, {seed}"
    assert _cells(replace(row, name="mine"))["Run"] == "mine"
    assert (
        _cells(replace(row, name=head_of(row)))["Run"] == plain
    )  # the prompt is in the next column
    lookup = replace(row.summary, drafter="prompt-lookup", rule="over-accept")
    cells = _cells(replace(row, name="", summary=lookup))
    assert cells["Run"] == f"{settings}, prompt lookup, over-accept, {seed}"
    forked = replace(row.summary, fork="round 7, token 2")
    forks = [_cells(replace(row, name=name, summary=forked))["Run"] for name in ("mine", "")]
    assert forks == [f"forked at round 7, token 2, {each}" for each in ("mine", plain)]
    names = [row_label(replace(row, name=name, summary=forked)) for name in ("mine", "")]
    assert names == [f"{forks[0]} · specviz", f"specviz, {forks[1]}"]  # side by side in Compare


def test_distinguishes_and_finds_runs_with_bodies(library: Library) -> None:
    own = save_run(library, full_trace())
    grown = save_run(library, with_bodies(full_trace(), target=BODY))
    assert library.facets().bodies == ("target body 88 M", "without a body")
    assert [row.id for row in library.find(Query(bodies=("without a body",)))] == [own]
    cells = _cells(library.row(grown))
    assert cells["Simulated size"] == "target at the cost of an 88 M model"
    assert str(cells["Run"]).startswith("target at the cost of an 88 M model, ")


def test_a_run_without_a_speedup_shows_the_reason(library: Library) -> None:
    save_run(library, full_trace())
    row = library.find(Query())[0]
    stopped = replace(row.summary, speedup=None, finish="stopped")
    assert _cells(replace(row, summary=stopped))["Speedup"] == "stopped"
    untimed = replace(stopped, finish="length")
    assert _cells(replace(row, summary=untimed))["Speedup"] == "–"
