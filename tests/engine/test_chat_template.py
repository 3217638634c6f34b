"""Untrusted chat templates: the library's text, or an error in time."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import pytest

from specviz.engine.model.chat_template import render_chat
from specviz.errors import PromptError
from specviz.record.conversations import Message
from tests.engine.models import CHAT_TEMPLATE, small_tokenizer

FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


HELLO = [Message(role="user", content="hello")]


def tokenizer_with(template: object) -> Any:
    tokenizer: Any = small_tokenizer()
    tokenizer.chat_template = template
    return tokenizer


def refusal(template: object, seconds: float = 5.0) -> str:
    with pytest.raises(PromptError) as caught:
        render_chat(tokenizer_with(template), "a model", HELLO, seconds=seconds)
    message = str(caught.value)
    assert message.startswith("The chat template of a model ")
    assert "\n" not in message
    assert len(message) < 420
    return message


@pytest.mark.parametrize("text", ["hello", "ünïcode 🙂\n{{ 1/0 }}", "x" * 200_000])
def test_the_text_matches_the_library(text: str) -> None:
    tokenizer = tokenizer_with(CHAT_TEMPLATE)
    chat = [{"role": "user", "content": text}]
    own = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    assert render_chat(tokenizer, "a model", [Message(role="user", content=text)]) == own


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ raise_exception('no users here') }}", "fails: no users here"),
        ("{{ raise_exception('two\nlines') }}", "fails: two."),
        ("{{ 1/0 }}", "fails: division by zero"),
        ("{{ messages[9].content }}", "fails: "),
        ("{% for %}", "fails: "),
        ("{{ '' + 1 }}", "fails: "),
        ("{{ ''.__class__.__mro__ }}", "fails: "),
        ("{% for i in range(10**9) %}{% endfor %}", "fails: "),
        (7, "fails: "),
        ({"other": "x"}, "fails: "),
    ],
)
def test_a_failing_template_gives_one_line(template: object, words: str) -> None:
    assert words in refusal(template)


_LOOP = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"


@FORKS
@pytest.mark.parametrize(
    ("template", "words"),
    [
        (_LOOP, "did not finish within 0.5 s"),
        ("{{ 7 ** (10 ** 9) }}", "did not finish within 0.5 s"),
        ("{{ 'a' * 10 ** 10 }}", "fails: it needs too much memory"),
        ("{{ 'a' * (20 * 2 ** 20) }}", "writes more than 16 MB"),
    ],
)
def test_an_endless_template_is_stopped(template: str, words: str) -> None:
    began = time.monotonic()
    assert words in refusal(template, seconds=0.5 if "finish" in words else 5.0)
    assert time.monotonic() - began < 5.0


@FORKS
def test_no_process_and_no_file_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    children: list[int] = []
    fork = os.fork

    def noted() -> int:
        children.append(child := fork())
        return child

    monkeypatch.setattr(os, "fork", noted)
    before = set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else set()
    render_chat(tokenizer_with(CHAT_TEMPLATE), "a model", HELLO)
    refusal(_LOOP, seconds=0.2)
    assert len(children) == 2
    for child in children:
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)
    if before:
        assert set(os.listdir("/proc/self/fd")) == before


def test_also_from_another_thread_and_without_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    def work() -> None:
        written.append(render_chat(tokenizer_with(CHAT_TEMPLATE), "a model", HELLO))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    monkeypatch.delattr(os, "fork", raising=False)
    work()
    assert written[0] == written[1]
    assert "division by zero" in refusal("{{ 1/0 }}")
