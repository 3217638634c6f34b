"""A chat in the browser: three messages with their answers, under the template of the model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.browser.conftest import Server, wait_for_state
from tests.browser.reading import ROUND, at_rest, click_run, wait_for_script
from tests.engine.models import CHAT_TEMPLATE, write_pair

MESSAGES = ("heating", "And Tom?")  # the first is in the first chat prompt
ROLES = """() => [...document.querySelectorAll('#root [data-testid="role"]')]
  .map((each) => each.dataset.role)"""
FIRST_NUMBER = f"() => Number(document.querySelector('#root {ROUND} .number').textContent)"


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chat")
    return write_pair(folder, chat_template=CHAT_TEMPLATE, max_position_embeddings=512) / "target"


@pytest.fixture(scope="module")
def own_server(serve: Callable[..., Server]) -> Server:
    """A server of its own: other tests expect that the embedded pair is loaded."""
    return serve()


@pytest.mark.thorough
def test_two_messages_are_one_conversation(
    own_server: Server, open_page: Callable[..., Any], target: Path
) -> None:
    from playwright.sync_api import expect

    page = open_page(
        f"{own_server.url}/?pair=Local&target_folder={quote(str(target))}&length=8&live=false"
    )
    at_rest(page)
    box = page.locator(".st-key-next_message textarea")
    box.fill("too early")
    box.press("Enter")
    wait_for_script(page)
    expect(box).to_have_value("too early")
    for number, message in enumerate(MESSAGES):
        if number == 0:
            click_run(page)
        else:
            box.fill(message)
            box.press("Enter")
            expect(page.locator(".st-key-prompt textarea")).to_have_value(message)
        wait_for_script(page)
        # Before its roles are shown, the state is that of the answer before.
        roles = f"count => ({ROLES})().length === count"
        page.wait_for_function(roles, arg=2 * (number + 1), timeout=120_000)
        wait_for_state(page, "done", seconds=120)
        assert page.evaluate(ROLES) == ["user", "assistant"] * (number + 1)
        assert message.split()[-1] in page.inner_text('#root [data-testid="text-pane"]')
        assert (page.evaluate(FIRST_NUMBER) > 1) is (number > 0)
    expect(page.locator(".st-key-conversation")).to_contain_text("Message 2 of a conversation")
