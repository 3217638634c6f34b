"""Describe the request that the button Ask sends, and send it."""

from __future__ import annotations

from specviz.access.roles import Action
from specviz.figures.server_words import sent_words
from specviz.servers.asking import ask
from specviz.ui.servers.controls import Choices
from specviz.ui.session.answers import AnswerRun, Answers
from specviz.ui.session.person import require
from specviz.ui.session.worker import Tab
from specviz.ui.widgets.run_controls import refuse_empty


def request_text(choices: Choices) -> str:
    assert choices.server is not None
    sent = sent_words(
        characters=len(choices.prompt), answers=1, tokens=choices.settings.max_new_tokens,
        address=choices.server.address,
    )  # fmt: skip
    return f"Ask sends {sent}."


def begin_answer(answers: Answers, tab: Tab, choices: Choices) -> None:
    """Send the request that the controls describe, and add its answer to ``answers``.

    Raises:
        SpecvizError: The request is invalid.
    """
    require(Action.ASK_SERVER)
    server = choices.server
    if server is None or server.info is None:
        return
    refuse_empty(choices.prompt)
    answer = ask(server.info, choices.prompt, choices.settings, allow_remote=server.granted)
    tab.tabs.end_with(tab.id, answers.stop)
    answers.begin(AnswerRun(answer, allow_remote=server.granted))
