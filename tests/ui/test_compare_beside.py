"""Kept runs side by side on Compare: chosen on Runs or opened by a link."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from specviz.record.server_run import AnyTrace
from specviz.store import Library
from specviz.store.saving import save_run
from specviz.ui.runs.actions import _race
from tests.player.races import thrifty, wasteful
from tests.record.server_traces import server_trace, timed, without_rounds
from tests.ui.compare_page import compare_page, lanes_of, unescaped
from tests.ui.paging import sent, sound
from tests.ui.runs_page import choose, runs_page

NO_SPEEDUP = "No speedup between these runs is computed"


@pytest.fixture(autouse=True)
def library(tmp_path: Path, home: None, monkeypatch: pytest.MonkeyPatch) -> Library:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path / "home"))
    return Library()


def beside(*ids: str) -> AppTest:
    return sound(side_page(ids).run())


def side_page(ids: tuple[str, ...]) -> AppTest:
    app = compare_page(compare_tab="Side by side")
    app.query_params["beside"] = list(ids)
    return app


def said(app: AppTest) -> str:
    parts = (*app.markdown, *app.caption, *app.info, *app.warning, *app.error)
    return unescaped(" ".join(each.value for each in parts)).replace("\u2060", "")


def figures(app: AppTest) -> pd.DataFrame:
    return app.table[0].value.map(lambda each: unescaped(each).replace("\u2060", ""))


def kept(library: Library, **traces: AnyTrace) -> list[str]:
    return [save_run(library, trace, name=name) for name, trace in traces.items()]


def test_hands_runs_of_both_kinds_from_runs_to_compare(library: Library) -> None:
    theirs, ours = kept(library, theirs=server_trace(), ours=thrifty())
    app = choose(runs_page(), 0, 1)
    sound(app.button(key="runs_compare").click().run())
    links = {each.proto.label: each for each in app.get("page_link")}
    assert "Compare 1 lane" in links  # another engine's run cannot be measured again here
    query = links["See 2 runs side by side"].proto.query_string
    assert set(query.split("&")) == {
        "compare_tab=Side+by+side", f"beside={theirs}", f"beside={ours}"
    }  # fmt: skip
    sound(app.switch_page("pages/compare.py").run())
    assert len(lanes_of(app)) == 2  # that lane, and the spare one
    app.query_params["compare_tab"] = "Side by side"
    sound(app.switch_page("pages/compare.py").run())
    assert set(app.query_params["beside"]) == {theirs, ours}
    assert "runs for compare" not in app.session_state


def test_asks_for_a_second_server_run(library: Library) -> None:
    kept(library, first=server_trace(), second=without_rounds(server_trace()))
    app = choose(runs_page(), 0)
    sound(app.button(key="runs_compare").click().run())
    assert not app.error
    assert "Add a second run" in said(app)
    sound(choose(app, 1).button(key="runs_compare").click().run())
    assert any(each.proto.label == "See 2 runs side by side" for each in app.get("page_link"))


def test_a_run_is_handed_over_once(library: Library) -> None:
    theirs, ours = kept(library, theirs=server_trace(), ours=thrifty())
    app = choose(runs_page(), 0, 1)
    for _ in range(2):
        sound(app.button(key="runs_compare").click().run())
    assert sorted(app.session_state["runs for compare"]) == sorted([theirs, ours])
    assert len(app.session_state["compare_lanes"]) == 1
    assert "Left out: 1 run with the same pair and settings as an added lane." in said(app)


def test_the_last_visit_replaces_the_runs_handed_over(library: Library) -> None:
    ids = kept(library, a=server_trace(), b=thrifty(), c=server_trace(), d=wasteful())
    app = side_page(())
    app.session_state["runs for compare"] = ids[:2]
    sound(app.run())
    assert list(app.query_params["beside"]) == ids[:2]
    app.query_params["beside"] = ids[2:]
    sound(app.run())
    del app.query_params["beside"]
    sound(app.run())
    assert list(app.query_params["beside"]) == ids[2:]


def test_hands_over_at_most_four_runs(library: Library) -> None:
    for number in range(6):
        save_run(library, server_trace(), name=f"answer {number}")
    app = choose(runs_page(), *range(6))
    sound(app.button(key="runs_compare").click().run())
    assert "Left out: 2 runs (at most 4 fit side by side)." in said(app)


def test_link_opens_runs_with_race_and_figures(library: Library) -> None:
    ids = kept(
        library, ours=thrifty(), theirs=timed(server_trace()), silent=without_rounds(server_trace())
    )
    app = beside(*ids)
    assert [each.value.partition(" :small")[0] for each in app.title] == ["Side by side"]
    race = sent(app)["race"]
    labels = ["ours · specviz", "theirs · vLLM 0.32.0", "silent · OpenAI-compatible server"]
    assert [lane["label"] for lane in race["lanes"]] == labels
    assert "No winner" in race["unlike"]
    table = figures(app)
    assert list(table.loc["Engine"]) == ["specviz", "vLLM 0.32.0", "OpenAI-compatible server"]
    assert table.loc["Where"].iloc[1] == "http://127.0.0.1:8765"
    assert list(table.loc["Draft acceptance rate"]) == ["1.000", "0.500", "–"]
    assert list(table.loc["τ, tokens per round"]) == ["4.00", "3.50", "–"]
    assert list(table.loc["Rounds"]) == ["4", "4", "–"]
    assert list(table.loc["α observed"])[1:] == ["–", "–"]
    assert table.loc["Speedup over the target alone"].iloc[1] == "2.00×"
    assert NO_SPEEDUP in said(app)
    assert NO_SPEEDUP in said(app)


def test_leaves_out_figures_that_no_run_has(library: Library) -> None:
    first, second = kept(
        library, a=without_rounds(server_trace()), b=without_rounds(server_trace())
    )
    table = figures(beside(first, second))
    assert "τ, tokens per round" not in table.index
    assert "Speedup over the target alone" not in table.index
    assert "Tokens/s" in table.index


def test_own_runs_have_no_winner_unless_they_took_turns(library: Library) -> None:
    ids = kept(library, a=thrifty(), b=wasteful())
    app = beside(*ids)
    assert "not in turn" in sent(app)["race"]["unlike"]
    assert not sent(app)["race"]["open"]
    assert "The prompts differ" not in said(app)


def test_notes_different_prompts_and_numbers_equal_names(library: Library) -> None:
    other = replace(server_trace(), prompt="Another tale")
    first, second = (save_run(library, each, name="same") for each in (server_trace(), other))
    app = beside(first, second)
    assert "The prompts differ" in said(app)
    labels = [lane["label"] for lane in sent(app)["race"]["lanes"]]
    assert labels == ["same · vLLM 0.32.0 (1)", "same · vLLM 0.32.0 (2)"]


def test_warns_about_unknown_runs_in_the_link(library: Library) -> None:
    (run,) = kept(library, ours=thrifty())
    app = beside(run, "1e999", "![x](http://203.0.113.9/x)")
    assert said(app).count("A run is left out.") == 2
    assert "Choose one from the list of runs" in said(app)
    assert len(app.warning) == 2
    assert list(app.query_params["beside"]) == [run, "1e999", "![x](http://203.0.113.9/x)"]
    sound(beside().run())


def test_shows_only_four_runs_of_the_link(library: Library) -> None:
    ids = [save_run(library, server_trace()) for _ in range(5)]
    app = beside(*ids)
    assert len(sent(app)["race"]["lanes"]) == 4
    assert "Only the first 4 runs are shown" in said(app)


def test_escapes_names_with_markup(library: Library) -> None:
    evil = "![x](http://203.0.113.9/x)"
    ids = [save_run(library, each, name=evil) for each in (server_trace(), thrifty())]
    app = beside(*ids)
    drawn = [*app.table[0].value.columns, *(each.proto.label for each in app.get("page_link"))]
    assert not any("![" in each for each in drawn)


def test_replay_file_has_the_same_facts(library: Library) -> None:
    kept(library, ours=thrifty(), theirs=server_trace())
    html = _race(library, library.find())
    assert NO_SPEEDUP in html
    assert "Draft acceptance rate" in html
    assert "No winner" in html
