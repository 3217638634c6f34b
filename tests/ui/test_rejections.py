"""The Rejections page in bare mode: numbers match the library, and simulations end."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from specviz.theory.chains import random_chains
from specviz.theory.rejections import (
    batch_floor,
    bernoulli_improvement,
    rejections_by_step,
    scaling,
    total_rejections,
)
from specviz.theory.simulation import Simulator, lossless_rule
from specviz.ui.theory.growing_simulations import (
    NARROW,
    GrowingSimulation,
    SimulationGroup,
    progress_sentence,
)
from tests.ui.paging import page_of, sound
from tests.ui.theory_pages import LIMIT_MS, charts, median_ms, unexplained, words

TABS = ("One draft", "Several drafts", "On the real pair", "At one place", "The bound")


def lines(figure: Any) -> dict[str, Any]:
    return {each["name"]: each for each in figure["data"]}


def values(numbers: Any) -> Any:
    """Decode Plotly's base64 arrays."""
    if not isinstance(numbers, dict):
        return numbers
    return np.frombuffer(base64.b64decode(numbers["bdata"]), numbers["dtype"])


def simulated(app: AppTest, key: str) -> AppTest:
    """Rerun the page, as its timer would, until the simulation ends."""
    for _ in range(80):
        if app.session_state["simulations"][key].done:
            return sound(app.run())
        sound(app.run())
    raise AssertionError("the simulation does not end")


def test_simulated_mean_approaches_the_exact_one() -> None:
    app = simulated(page_of("rejections"), "one draft")
    exact = total_rejections(random_chains(10, 7, 50))
    assert f"**{exact:.3f}**" in words(app)
    assert "16.405" in words(app)
    shown = lines(charts(app)["rejections_mean"])
    assert shown[f"one draft, exact {exact:.3f}"]["y"] == [exact, exact]
    found = app.session_state["simulations"]["one draft"].simulations["one draft"].estimates
    assert shown["one draft, simulated"]["y"] == [each.mean for each in found]
    assert abs(found[-1].mean - exact) < 4 * found[-1].standard_error
    assert 1.96 * found[-1].standard_error <= NARROW * found[-1].mean
    assert "stopped" in words(app)
    steps = lines(charts(app)["rejections_steps"])["one draft, exact"]
    assert values(steps["y"]) == pytest.approx(rejections_by_step(random_chains(10, 7, 50)))


def test_curve_over_drafts() -> None:
    app = page_of("rejections", rejections_tab="Several drafts", rejections_horizon="20")
    sound(app.run())
    chains = random_chains(10, 7, 20)
    *counts, limit = scaling(chains, [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, math.inf])
    figure = charts(app)["rejections_curve"]
    assert lines(figure)["exact (theorem 3)"]["y"] == pytest.approx(counts)
    levels = [each["y0"] for each in figure["layout"]["shapes"]]
    assert levels == pytest.approx([limit, batch_floor(counts[0])])
    assert list(lines(figure)["simulated, 95 %"]["x"]) == [4, 5]
    assert f"**{total_rejections(chains, 4):.3f}** with 4 drafts" in words(app)


def test_asks_for_a_number_of_drafts_if_none_is_chosen() -> None:
    app = page_of("rejections", rejections_tab="Several drafts")
    app.button_group(key="rejections_drafts").set_value([])
    sound(app.run())
    assert "Choose at least one number of drafts" in app.info[0].value
    assert "rejections_curve" in charts(app)


def test_coins_curve_matches_the_closed_form() -> None:
    app = page_of("rejections", rejections_tab="At one place", rejections_u="0.8")
    line = charts(app)["rejections_coins"]["data"][0]
    assert line["y"] == pytest.approx([bernoulli_improvement(0.8, 0.5, num) for num in line["x"]])


def test_block_verification_is_below_the_bound() -> None:
    app = page_of("rejections", rejections_tab="The bound", rejections_horizon="12")
    app = simulated(app, "bound")
    bound = total_rejections(random_chains(10, 7, 12))
    found = app.session_state["simulations"]["bound"].estimates()
    assert found["block verification"].interval[1] < bound
    assert found["4 drafts"].interval[1] < bound
    assert f"at least **{bound:.3f}** rejections" in words(app)
    assert charts(app)["rejections_bound"]["data"][0]["x"] == [each.mean for each in found.values()]


@pytest.mark.parametrize("tab", TABS)
@pytest.mark.parametrize(
    "link",
    [
        {"seed": "0", "horizon": "1", "stickiness": "1.0", "u": "1.0", "v": "0.0", "r": "1.0"},
        {"seed": "100", "horizon": "100", "stickiness": "0.0", "u": "0.0", "v": "1.0", "r": "64.0"},
        {"seed": "-7", "horizon": "10000", "stickiness": "nan", "u": "x", "drafts": "999"},
    ],
)
def test_survives_extreme_and_invalid_link_values(tab: str, link: dict[str, str]) -> None:
    settings = {f"rejections_{name}": value for name, value in link.items()}
    app = page_of("rejections", rejections_tab=tab, **settings)
    assert charts(app)
    assert not app.error
    for wrong in ("Of 1 tokens", "the first 1 tokens", "over 1 times", "class: and"):
        assert wrong not in words(app)
    assert not unexplained(app)


@pytest.mark.parametrize("tab", TABS)
def test_rerun_after_a_change_is_fast(tab: str) -> None:
    app = page_of("rejections", rejections_tab=tab)

    def change(app: AppTest, turn: int) -> None:
        app.slider(key="rejections_seed").set_value(11 + turn)

    spent = median_ms(app, change)
    print(f"{tab}: {spent:.0f} ms")
    assert spent < LIMIT_MS


def test_pausing_stops_the_simulation() -> None:
    app = page_of("rejections", rejections_pause="true")
    assert not app.session_state["simulations"]["one draft"].estimates()
    assert "nothing simulated yet" in words(app)
    sound(app.toggle(key="rejections_pause").set_value(False).run())
    sound(app.run())
    texts = app.session_state["simulations"]["one draft"].texts
    assert texts >= 64
    sound(app.toggle(key="rejections_pause").set_value(True).run())
    sound(app.run())
    assert app.session_state["simulations"]["one draft"].texts == texts
    assert f"Paused after {texts:,} texts" in words(app)
    app = page_of("rejections", rejections_tab="The bound", rejections_pause="true")
    assert "so the bound does not apply to it." in words(app)


def test_changed_settings_restart_the_simulation() -> None:
    app = page_of("rejections")
    first = app.session_state["simulations"]["one draft"]
    sound(app.run())
    assert app.session_state["simulations"]["one draft"] is first
    sound(app.slider(key="rejections_seed").set_value(3).run())
    assert app.session_state["simulations"]["one draft"] is not first


def test_batches_double_within_their_time() -> None:
    chains = random_chains(1, 7, 10)
    simulation = GrowingSimulation(Simulator(chains, lossless_rule(chains)))
    for _ in range(4):
        simulation.advance(10.0)
    assert [each.count for each in simulation.estimates] == [32, 64, 128, 256]
    simulation.advance(0.0)
    assert simulation.estimates[-1].count == 256 + 32


def test_group_without_uncertainty_is_done() -> None:
    assert SimulationGroup(1, {}).done
    chains = random_chains(1, 1, 5)  # one token: never a rejection
    group = SimulationGroup(2, {"identical": Simulator(chains, lossless_rule(chains))})
    for _ in range(8):
        group.advance()
    assert group.done
    assert "stopped" in progress_sentence(group, paused=False)
