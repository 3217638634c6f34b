"""Answers of other engines on the pages: imported, listed, filtered, opened and exported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specviz.store import Library, trace_to_json
from specviz.store.saving import save_run
from specviz.ui.runs.actions import _race
from specviz.ui.runs.importing import import_files
from specviz.ui.watch import player_events
from tests.record.server_traces import server_trace
from tests.traces import full_trace
from tests.ui.paging import opened, sent, sound
from tests.ui.runs_page import choose, runs_page, table, words

pytestmark = pytest.mark.usefixtures("loads_nothing")


@pytest.fixture
def library(tmp_path: Path, home: None, monkeypatch: pytest.MonkeyPatch) -> Library:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path / "home"))
    return Library()


def test_imports_an_answer_like_any_trace(library: Library) -> None:
    content = trace_to_json(server_trace()).encode()
    done = import_files(library, [("theirs.json", content), ("again.json", content)])
    assert (len(set(done.run_ids)), done.known, done.refused) == (1, 1, ())
    assert library.open_any(done.run_ids[0]) == server_trace()
    empty = trace_to_json(replace(server_trace(), rounds=())).encode()
    assert "It has 0 rounds" in import_files(library, [("empty.json", empty)]).refused[0]


def test_lists_known_values_and_filters_by_engine(library: Library) -> None:
    save_run(library, full_trace(), name="ours")
    save_run(library, server_trace(), name="theirs")
    app = runs_page()
    row = table(app).set_index("Run").loc["theirs"]
    assert (row["Engine"], row["Pair"], row["γ"], row["Tokens"]) == ("vLLM 0.32.0", "tiny", 5, 15)
    assert row[["Rule", "Drafter"]].isna().all()
    assert app.multiselect(key="runs_engines").options == ["vLLM 0.32.0", "specviz"]
    sound(app.multiselect(key="runs_engines").set_value(["vLLM 0.32.0"]).run())
    assert list(table(app)["Run"]) == ["theirs"]


def test_opens_in_the_player_of_watch(library: Library) -> None:
    answer = save_run(library, server_trace(), name="theirs")
    app = opened(run=answer)
    data = sent(app)
    assert data["run"]["id"] == answer
    assert data["run"]["engine"]["name"] == "vLLM 0.32.0"
    assert "from the library" in words(app)
    sound(app.button(key="close_opened").click().run())
    assert sent(app)["run"]["engine"] is None


def test_a_race_of_both_kinds_has_no_winner(library: Library) -> None:
    save_run(library, full_trace(), name="ours")
    save_run(library, server_trace(), name="theirs")
    html = _race(library, library.find())
    assert "No winner" in html
    app = choose(runs_page(), 0, 1)
    assert "2 chosen" in words(app)


def test_its_replay_opens_at_the_linked_moment(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = save_run(library, server_trace(), name="theirs")
    app = opened(run=run)
    request = {"run": run, "at": {"round": "2", "token": "2.1"}, "number": 7}
    monkeypatch.setattr(
        player_events, "player_state", lambda _, name: request if name == "moment" else None
    )
    sound(app.run())
    assert sent(app)["link"]["heard"] == 7
    history = app.session_state["history"]
    assert history.moment_of(run) == {"round": "2", "token": "2.1"}
    assert history.moment_of("another") is None
    request["run"] = "another"
    request["number"] = 8
    sound(app.run())
    assert history.moment_of(run) == {"round": "2", "token": "2.1"}
