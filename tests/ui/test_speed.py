"""The Speed page: numbers match the library, also at the ends of the sliders."""

from __future__ import annotations

import re
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from specviz.figures.metrics import metrics
from specviz.store import load_trace
from specviz.theory.papers import LEVIATHAN
from specviz.theory.speed import (
    accepted_from,
    best_gamma,
    break_even_alpha,
    expected_tokens,
    operations_factor,
    oracle_speedup,
    speedup,
)
from specviz.ui.theory.speed.charts import MAP_COSTS, SpeedupPoint, speedup_map
from tests.ui.paging import ROOT, opened, page_of, sound, until_over
from tests.ui.theory_pages import LIMIT_MS, charts, median_ms, unexplained, words

TABS = ("Over γ", "Over α and c", "Tokens a round", "When to stop", "What papers measured")


def shown(app: AppTest) -> dict[str, str]:
    return {each.label: each.value for each in app.metric}


def test_opens_with_the_curves_over_gamma() -> None:
    app = page_of("speed")
    curve = next(
        each
        for each in charts(app)["speed_over_gamma"]["data"]
        if each["name"].startswith("verification")
    )
    assert curve["y"] == pytest.approx([speedup(0.7, gamma, 0.05, 1.1) for gamma in range(25)])
    best, value = best_gamma(0.7, 0.05, 1.1, 24)
    assert f"is **{best}**: decoding is **{value:.2f} times** as fast" in words(app)


def test_key_figures() -> None:
    app = page_of("speed", speed_alpha="0.8", speed_c="0.1", speed_v="1.5", speed_gamma="12")
    assert shown(app) == {
        "Tokens per round, τ": f"{expected_tokens(0.8, 12):.2f}",
        "Breaks even at α": f"{break_even_alpha(0.1, 1.5, max_gamma=24):.3f}",
        "With an oracle": f"{oracle_speedup(0.8, 0.1, 1.5):.2f}×",
        "Arithmetic": f"{operations_factor(0.8, 12, 0.1):.2f}×",
    }
    assert f"Your γ, 12, gives {speedup(0.8, 12, 0.1, 1.5):.2f}" in words(app)


@pytest.mark.parametrize(
    ("alpha", "c", "v", "says"),
    [
        ("0.2", "0.3", "1", "Drafting would pay above α 0.300"),
        ("1", "1", "4", "Drafting would not pay at any α"),
        ("0.7", "1", "1", "Drafting would not pay at any α"),
        ("0.5", "1", "1", "Drafting would not pay at any α"),
        ("1", "0", "1", "towards **∞**"),
        ("0.3", "0", "1", "towards **1.43×**"),
        ("1", "0.05", "1", "nothing is ever rejected, so"),
        ("0.5", "0", "2.5", "no γ pays"),
        ("0.95", "0.01", "1", "is **40**: decoding is **12.54 times**"),
        ("0.99", "0.005", "1", "The search ends at γ 64; a longer draft would be faster"),
        ("0", "0", "1", "no γ pays"),
    ],
)
def test_speed_sentence_at_the_ends(alpha: str, c: str, v: str, says: str) -> None:
    app = page_of("speed", speed_alpha=alpha, speed_c=c, speed_v=v)
    assert says in words(app)
    assert "inf" not in shown(app)["With an oracle"]
    marks = [each["name"] for each in charts(app)["speed_over_gamma"]["data"]]
    best = re.search(r"candidates per round is \*\*(\d+)\*\*", words(app))
    unlimited = "**no γ is best**" in words(app)
    assert (
        (f"best, γ {best[1]}" in marks)
        if best
        else unlimited == (not any(each.startswith("best") for each in marks))
    )


def test_shows_three_decimals_and_calls_a_tie_as_fast() -> None:
    app = page_of("speed", speed_alpha="0.759", speed_c="0.294", speed_v="1", speed_gamma="10")
    assert app.slider(key="speed_c").proto.format == "%.3f"
    assert app.slider(key="speed_alpha").proto.format == "%.3f"
    assert "α 0.759, draft cost c 0.294 and" in words(app)
    assert "Your γ, 10, gives 1.00, as fast as the target alone." in words(app)
    sound(app.slider(key="speed_gamma").set_value(20).run())
    assert ", slower than the target alone." in words(app)


@pytest.mark.parametrize("tab", TABS)
@pytest.mark.parametrize("end", ["min", "max"])
def test_survives_sliders_at_their_ends(tab: str, end: str) -> None:
    app = page_of("speed", speed_tab=tab)
    assert not unexplained(app)
    for name in ("alpha", "c", "v", "gamma"):
        widget = app.slider(key=f"speed_{name}")
        widget.set_value(getattr(widget, end))
    assert charts(sound(app.run()))


def test_ignores_link_values_out_of_range() -> None:
    app = page_of("speed", speed_alpha="7", speed_gamma="-3", speed_c="x", speed_tab="Nothing")
    alpha: Any = app.slider(key="speed_alpha").value
    gamma: Any = app.slider(key="speed_gamma").value
    assert 0.0 <= alpha <= 1.0
    assert 0 <= gamma <= 64
    assert "speed_over_gamma" in charts(app)


def test_points_open_rows_of_papers_and_runs() -> None:
    app = page_of("speed", speed_tab="Over α and c")
    data = {each["name"]: each for each in charts(app)["speed_map"]["data"] if "name" in each}
    assert len(data["papers (reported)"]["customdata"]) == len(LEVIATHAN) + 3
    assert data["runs (measured)"]["customdata"][0][0] == "recorded"
    sound(app.selectbox(key="speed_point").set_value("leviathan-4").run())
    assert {"α": "0.68", "expected": "2.4"}.items() <= shown(app).items()
    sound(app.selectbox(key="speed_point").set_value("chinchilla-2").run())
    assert shown(app)["α, implied"] == "0.851"
    sound(app.selectbox(key="speed_point").set_value("recorded").run())
    figures = metrics(load_trace(ROOT / "assets" / "first_trace.json"))
    assert shown(app)["Speedup, observed"] == f"{figures.speedup_observed:.2f}×"
    assert shown(app)["v, a verification"] == f"{figures.v:.2f}"


def test_points_out_of_range_are_drawn_at_the_edge() -> None:
    points = [
        SpeedupPoint(label=name, alpha=0.6, c=c, speedup=1.2, run_id=name)
        for name, c in (("copying", 0.0), ("costly draft", 1.7))
    ]
    made: Any = speedup_map(1.0, (0.7, 0.1), runs=points)
    drawn = next(each for each in made.data if each.name == "runs (measured)")
    assert list(drawn.x) == [MAP_COSTS[0], MAP_COSTS[-1]]
    assert [each[2] for each in drawn.customdata] == [0.0, 1.7]
    assert "%{customdata[2]" in drawn.hovertemplate


def test_forgets_a_point_whose_run_is_gone() -> None:
    app = opened()
    app.session_state["speed_point"] = "a deleted run"
    app.switch_page("pages/speed.py")
    app.query_params["speed_tab"] = "Over α and c"
    assert sound(app.run()).selectbox(key="speed_point").value is None


def test_draws_a_run_of_the_session_as_a_point() -> None:
    app = opened(gamma="3", length="24")
    sound(app.button(key="run").click().run())
    until_over(app)
    run = app.session_state["history"].current
    app.switch_page("pages/speed.py")
    app.query_params["speed_tab"] = "Over α and c"
    sound(app.run())
    (points,) = [
        each for each in charts(app)["speed_map"]["data"] if each.get("name") == "runs (measured)"
    ]
    assert [each[0] for each in points["customdata"]] == [run.id]
    sound(app.selectbox(key="speed_point").set_value(run.id).run())
    figures = metrics(run.trace)
    assert shown(app)["α expected"] == f"{figures.alpha_expected:.3f}"
    assert shown(app)["Speedup, observed"] == f"{figures.speedup_observed:.2f}×"


def test_recursion_matches_the_closed_form() -> None:
    app = page_of("speed", speed_tab="Tokens a round", speed_gamma="3")
    table = app.dataframe[0].value
    assert list(table["recursion"]) == pytest.approx(list(accepted_from(0.7, 3)))
    assert list(table["closed form"]) == pytest.approx(list(table["recursion"]))


def test_shows_all_rows_of_the_papers() -> None:
    app = page_of("speed", speed_tab="What papers measured")
    leviathan, chinchilla = (each.value for each in app.dataframe)
    assert list(leviathan["measured"]) == [row.measured for row in LEVIATHAN]
    assert list(chinchilla["α, implied"].round(3)) == [0.724, 0.748, 0.851]
    assert app.dataframe[0].proto.columns.count("%.2f") == 3
    assert "For conversation, no result with prompt lookup is reported." in words(app)
    axis = charts(app)["speed_papers"]["layout"]["yaxis"]
    assert axis["automargin"]


@pytest.mark.parametrize("tab", TABS)
def test_rerun_after_a_change_is_fast(tab: str) -> None:
    app = page_of("speed", speed_tab=tab)

    def change(app: AppTest, turn: int) -> None:
        app.slider(key="speed_alpha").set_value(0.5 + 0.05 * turn)

    assert median_ms(app, change) < LIMIT_MS
