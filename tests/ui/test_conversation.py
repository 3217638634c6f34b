"""A chat on Watch: the next message continues the conversation, under one system prompt."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from specviz.engine import load_pair
from specviz.player.round_values import round_items
from specviz.record.pairs import PairSpec
from specviz.record.trace import Trace
from tests.engine.models import CHAT_TEMPLATE, write_pair
from tests.step_costs import place_step_costs
from tests.ui.paging import opened, sent, sound, until_over


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, data_folder: Path) -> Path:
    """A chat model alone, whose context holds a few short messages; its step costs are stored."""
    folder = write_pair(
        tmp_path_factory.mktemp("chat"),
        chat_template=CHAT_TEMPLATE,
        max_position_embeddings=4_096,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECVIZ_HOME", str(data_folder))
        pair = load_pair(PairSpec(target=str(folder / "target"), threads=1))
        place_step_costs(pair, "prompt-lookup")
    return folder


def shown(app: AppTest) -> Trace:
    return app.session_state["history"].current.trace


def roles(app: AppTest) -> list[str]:
    return [each["role"] for each in sent(app)["prompt"] if not isinstance(each, str)]


def test_the_next_message_continues_the_conversation(folder: Path) -> None:
    app = opened(pair="Local", target_folder=str(folder / "target"), length="8", live="false")
    sound(app.button(key="load_pair").click().run())
    sound(app.button(key="run").click().run())
    until_over(app)
    assert shown(app).config.chat  # although the page did not know of the template
    sound(app.run())
    app.text_input(key="system").set_value("Be brief.")
    sound(app.text_area(key="prompt").set_value("Who is Lily?").run())
    sound(app.button(key="run").click().run())
    until_over(app)
    first = shown(app)
    assert first.config.chat
    assert [each.role for each in first.prompt.before] == ["system"]
    assert roles(app) == ["system", "user", "assistant"]
    assert first.finish == "length"
    stated = sent(sound(app.run()))["run"]
    assert "cut off at 8 tokens" in stated["detail"]
    assert "· prompt lookup ·" in stated["label"]

    sound(app.run())
    sound(app.chat_input(key="next_message").set_value("And Tom?").run())
    until_over(app)
    second = shown(app)
    assert second.prompt.text == "And Tom?"
    said = [(each.role, each.content) for each in second.prompt.before]
    assert said[:2] == [("system", "Be brief."), ("user", "Who is Lily?")]
    assert said[2][0] == "assistant"
    assert said[2][1] in first.text or not first.text.strip()
    assert second.prompt.before[2].rounds == len(first.rounds)
    assert round_items(second)[0]["number"] == len(first.rounds) + 1
    assert first.prefill.copied == 0
    assert second.prefill.copied >= len(first.prompt.token_ids)  # the models read only the message

    sound(app.button(key="new_conversation").click().run())
    sound(app.button(key="run").click().run())
    until_over(app)
    assert [each.role for each in shown(app).prompt.before] == ["system"]
