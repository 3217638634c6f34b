"""The boxes of a way to speculate, on Watch and on Compare."""

from __future__ import annotations

import pytest

from specviz.record.run_config import RunConfig
from specviz.store import Library
from specviz.store.saving import save_run
from tests.traces import make_trace
from tests.ui.paging import opened, page_of, sound


def warnings(app: object) -> list[str]:
    return [each.value for each in app.warning]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ({"rule": "block", "num_drafts": "4"}, "judges one chain"),
        ({"branching": "0x2"}, "branching of 0"),
        ({"branching": "9x9x9x9"}, "nodes"),
        ({"drafter": "nonsense"}, "drafter is 'nonsense'"),
        ({"drafter": "os:system"}, "not run from a page"),
        ({"draft_until": "confidence:7"}, "confidence '7'"),
    ],
)
def test_a_link_that_contradicts_itself_is_dropped_with_a_word(
    link: dict[str, str], words: str
) -> None:
    app = opened(**link)
    (warning,) = warnings(app)
    assert words in warning
    assert "goes the usual way" in warning


def test_a_link_sets_the_way() -> None:
    app = opened(branching="3x2x1", seed="4")
    assert warnings(app) == []
    assert app.text_input(key="branching").value == "3x2x1"
    assert any("15 candidates a round, 3 deep." in each.value for each in app.caption)


def test_the_boxes_take_over_the_way_of_a_kept_run() -> None:
    config = RunConfig(
        gamma=3, num_drafts=4, replacement=False, draft_until="count", max_new_tokens=40
    )
    app = opened(run=save_run(Library(), make_trace(config=config)))
    sound(app.button(key="use_opened").click().run())
    assert app.number_input(key="num_drafts").value == 4
    assert app.toggle(key="replacement").value is False
    assert app.session_state["more"] is True


def test_the_controls_cannot_show_a_drafter_of_ones_own() -> None:
    config = RunConfig(gamma=3, drafter="mine:Drafter", max_new_tokens=40)
    app = opened(run=save_run(Library(), make_trace(config=config)))
    button = app.button(key="use_opened")
    assert button.disabled
    assert "a drafter of your own" in button.help


def test_a_lanes_card_holds_its_way_and_the_link_too() -> None:
    lanes = ["rule=block", "branching=3x2x1", "num_drafts=4,replacement=no", "drafter=os:system"]
    app = page_of("compare", lane=lanes)
    assert any("not run from a page" in each for each in warnings(app))
    assert app.selectbox(key="compare_1_rule").value == "block"
    assert app.text_input(key="compare_2_branching").value == "3x2x1"
    assert app.query_params["lane"] == lanes[:3]
    sound(app.number_input(key="compare_1_num_drafts").set_value(2).run())
    assert any("judges one chain" in each for each in warnings(app))
