"""Controls of the speculation method, on Watch and on Compare."""

from __future__ import annotations

import pytest

from specviz.record.run_config import RunConfig
from specviz.store import Library
from specviz.store.saving import save_run
from tests.traces import make_trace
from tests.ui.paging import opened, page_of, sound

pytestmark = pytest.mark.usefixtures("loads_nothing")


def warnings(app: object) -> list[str]:
    return [each.value for each in app.warning]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ({"rule": "block", "num_drafts": "4"}, "verifies only one chain"),
        ({"branching": "0x2"}, "branching of 0"),
        ({"branching": "9x9x9x9"}, "nodes"),
        ({"dynamic_tree": "8"}, "'8' is not a dynamic tree"),
        ({"dynamic_tree": "8x24", "branching": "2x1"}, "exclude each other"),
        ({"drafter": "nonsense"}, "drafter is 'nonsense'"),
        ({"drafter": "os:system"}, "do not run custom drafters"),
        ({"draft_until": "confidence:7"}, "confidence '7'"),
    ],
)
def test_a_contradictory_link_gives_a_warning_and_the_default_method(
    link: dict[str, str], words: str
) -> None:
    app = opened(**link)
    (warning,) = warnings(app)
    assert words in warning
    assert "default method" in warning


def test_a_link_sets_the_method() -> None:
    app = opened(branching="3x2x1", seed="4")
    assert warnings(app) == []
    assert app.text_input(key="branching").value == "3x2x1"
    assert any("15 candidates per round, depth 3." in each.value for each in app.caption)
    app = opened(dynamic_tree="8x24")
    assert warnings(app) == []
    assert app.text_input(key="dynamic_tree").value == "8x24"


def test_the_controls_take_over_the_method_of_a_saved_run() -> None:
    config = RunConfig(
        gamma=3, num_drafts=4, replacement=False, draft_until="count", max_new_tokens=40
    )
    app = opened(run=save_run(Library(), make_trace(config=config)))
    sound(app.button(key="use_opened").click().run())
    assert app.number_input(key="num_drafts").value == 4
    assert app.toggle(key="replacement").value is False
    assert app.session_state["more"] is True


def test_the_controls_do_not_support_a_custom_drafter() -> None:
    config = RunConfig(gamma=3, drafter="mine:Drafter", max_new_tokens=40)
    app = opened(run=save_run(Library(), make_trace(config=config)))
    button = app.button(key="use_opened")
    assert button.disabled
    assert "custom drafter" in button.help


def test_a_lane_and_its_link_have_the_method() -> None:
    lanes = ["rule=block", "dynamic_tree=4x12", "num_drafts=4,replacement=no", "drafter=os:system"]
    app = page_of("compare", lane=lanes)
    assert any("do not run custom drafters" in each for each in warnings(app))
    assert app.selectbox(key="compare_1_rule").value == "block"
    assert app.text_input(key="compare_2_dynamic_tree").value == "4x12"
    assert app.query_params["lane"] == lanes[:3]
    sound(app.number_input(key="compare_1_num_drafts").set_value(2).run())
    assert any("verifies only one chain" in each for each in warnings(app))
