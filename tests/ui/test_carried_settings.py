"""The prompt, the temperature and the chat setting of Watch are the first ones of other pages."""

from __future__ import annotations

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from specviz.record.prompts import read_chat_prompts
from specviz.ui.widgets.prompt_boxes import _preset_texts
from tests.ui.paging import opened, page_of, sound

pytestmark = pytest.mark.usefixtures("own_home", "loads_nothing")

FIRST_MESSAGE = "{0.kind} · {0.title}".format(read_chat_prompts()[0])


def test_other_pages_start_with_the_prompt_and_the_temperature_of_watch() -> None:
    app = opened(live="false")
    sound(app.text_area(key="prompt").set_value("A dog ran.").run())
    sound(app.slider(key="temperature").set_value(0.2).run())
    sound(app.switch_page("pages/tune.py").run())
    assert app.text_area(key="tune_prompt").value == "A dog ran."
    assert app.slider(key="tune_temperature").value == 0.2
    assert app.query_params["tune_temperature"] in ("0.2", ["0.2"])
    sound(app.switch_page("pages/compare.py").run())
    assert app.text_area(key="compare_prompt").value == "A dog ran."
    assert [app.slider(key=f"compare_{n}_temperature").value for n in (1, 2)] == [0.2, 0.2]


def taking(app: AppTest) -> list[Any]:
    """Return the button that takes the prompt of Watch, if it is drawn."""
    return [each for each in app.button if each.key == "tune_take_prompt"]


def test_a_prompt_that_changed_on_watch_is_taken_by_a_button() -> None:
    app = opened(live="false")
    sound(app.text_area(key="prompt").set_value("A dog ran.").run())
    sound(app.switch_page("pages/tune.py").run())
    assert not taking(app)
    sound(app.text_area(key="tune_prompt").set_value("A cat sat.").run())
    (button,) = taking(app)
    sound(button.click().run())
    assert app.text_area(key="tune_prompt").value == "A dog ran."
    assert not taking(app)


def test_a_first_message_is_not_offered_as_a_text_to_continue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("widgets.pair_panel", "watch.stage"):
        monkeypatch.setattr(f"specviz.ui.{module}.has_chat", lambda *_: True)
    app = opened(live="false")
    assert app.selectbox(key="preset").value == FIRST_MESSAGE
    sound(app.switch_page("pages/tune.py").run())
    assert app.selectbox(key="tune_preset").value == FIRST_MESSAGE
    sound(app.toggle(key="tune_chat").set_value(False).run())
    assert app.selectbox(key="tune_preset").value != FIRST_MESSAGE
    assert not taking(app)  # its press would change nothing


def test_other_pages_start_without_the_chat_template_if_watch_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("specviz.ui.widgets.pair_panel.has_chat", lambda *_: True)
    app = opened(live="false", chat="false")  # Watch does not know yet of a template
    for page in ("tune", "compare", "lossless"):
        sound(app.switch_page(f"pages/{page}.py").run())
        key = "audit_chat" if page == "lossless" else f"{page}_chat"
        assert app.toggle(key=key).value is False
        assert app.query_params[key] in ("false", ["false"])


@pytest.mark.parametrize(("first", "then"), [("learn", "watch"), ("watch", "learn")])
def test_a_prompt_that_only_a_link_has_set_is_the_next_pages(first: str, then: str) -> None:
    """The browser has sent no value of the prompt before the second page is opened."""
    preset = list(_preset_texts())[1]
    app = page_of(first, preset=preset)
    sound(app.switch_page(f"pages/{then}.py").run())
    assert app.selectbox(key="preset").value == preset
    assert app.text_area(key="prompt").value == _preset_texts()[preset]


def test_an_empty_prompt_stays_empty_on_the_next_page() -> None:
    app = page_of("learn")
    sound(app.text_area(key="prompt").set_value("").run())
    sound(app.switch_page("pages/watch.py").run())
    assert app.text_area(key="prompt").value == ""
