"""Conversations: the template has every message; the target writes the missing answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from specviz.engine import decode_plainly
from specviz.engine.model.chat import encode_prompt
from specviz.engine.model.pair import Pair
from specviz.errors import PromptError
from specviz.measure.answered_turns import with_answers
from specviz.measure.measured_run import measured_run
from specviz.record.conversations import Conversation, Message
from specviz.record.prompts import SuiteItem
from specviz.record.trace import RunConfig
from specviz.store.traces import trace_from_json, trace_to_json
from tests.engine.asking import load
from tests.engine.models import CHAT_TEMPLATE, write_pair

GREEDY = RunConfig(temperature=0, max_new_tokens=6, chat=True)
TURNS = (
    Message(role="system", content="Be brief."),
    Message(role="user", content="Who is Lily?"),
    Message(role="assistant", content=""),
)


@pytest.fixture(scope="module")
def chatting(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder: Path = write_pair(tmp_path_factory.mktemp("chat"), chat_template=CHAT_TEMPLATE)
    return load(folder)


def rendered(pair: Pair, asked: Conversation) -> str:
    return pair.tokenizer.decode(encode_prompt(pair, asked, chat=True))


def test_every_message_is_in_the_template(chatting: Pair) -> None:
    before = (*TURNS[:2], Message(role="assistant", content="A girl."))
    asked = Conversation(before=before, text="And Tom?")
    assert rendered(chatting, asked).splitlines() == [
        "[system] Be brief.", "[user] Who is Lily?", "[assistant] A girl.", "[user] And Tom?",
        "[assistant] ",
    ]  # fmt: skip
    with pytest.raises(PromptError, match="chat template"):
        encode_prompt(chatting, asked, chat=False)


def test_the_target_writes_missing_answers(chatting: Pair) -> None:
    asked = SuiteItem(prompt="And Tom?", before=TURNS).whole
    assert isinstance(asked, Conversation)
    written = with_answers(chatting, asked, GREEDY)
    assert written.unanswered is None
    assert written.before[2].content
    assert written.before[:2] == TURNS[:2]
    assert with_answers(chatting, asked, GREEDY) == written


def test_an_answer_has_no_end_token(chatting: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Conversation(before=TURNS, text="And Tom?")
    first, second, *_ = decode_plainly(chatting, asked.until(2), GREEDY)
    monkeypatch.setattr(chatting, "eos_ids", frozenset({second}) - {first})
    written = with_answers(chatting, asked, GREEDY)
    assert written.before[2].content == chatting.token_table.join([first]).strip()


def test_a_run_records_its_conversation(chatting: Pair) -> None:
    asked = Conversation(before=TURNS, text="And Tom?")
    run = measured_run(chatting, asked, GREEDY, baseline=False)
    for _ in run:
        pass
    trace = run.trace()
    assert trace.prompt.text == "And Tom?"
    assert trace.prompt.before == with_answers(chatting, asked, GREEDY).before
    assert trace_from_json(trace_to_json(trace)) == trace
