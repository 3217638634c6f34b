"""A judge on loopback that is fair, biased, silent, slow or broken."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

import pytest

from specviz.errors import ConfigError, ServerError
from specviz.quality import judge as judging
from specviz.quality.judge import (
    PROMPT,
    Judge,
    JudgedPair,
    bias_of,
    fill,
    outcomes_of_judged,
    pairs_to_judge,
    read_choice,
)
from specviz.quality.scorers import AnswerText
from specviz.servers.connection import Limits
from tests.quality.record_judge import PAIRS, TAPE, answer
from tests.servers.replaying import Handler, Page, Served, served
from tests.servers.tapes import replayed_tape

CHAT = "/v1/chat/completions"
Answers = Callable[[str, str], str]  # from the two shown answers to the reply


def text_of(text: str) -> AnswerText:
    return AnswerText(prompt="p", prompt_ids=(1,), token_ids=(2,), text=text, chat=False)


def shown(body: object) -> tuple[str, str]:
    asked = body["messages"][0]["content"]  # type: ignore[index]
    first, second = asked.split("Answer A:\n")[1].split("\n\nAnswer B:\n")
    return first, second.split("\n\nReply with")[0]


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "_PAUSE", 0.0)


@contextmanager
def judge_server(answers: Answers) -> Iterator[Served]:
    def behave(handler: Handler) -> None:
        reply = answers(*shown(handler.served.bodies[-1]))
        body = {"choices": [{"message": {"role": "assistant", "content": reply}}]}
        handler.send(Page(body=json.dumps(body).encode()))

    models = json.dumps({"data": [{"id": "judge-1"}]}).encode()
    pages = {"/v1/models": Page(body=models), CHAT: Page(behave=behave)}
    with served(pages) as server:
        yield server


def longer_wins(first: str, second: str) -> str:
    return "A" if len(first) > len(second) else "B"


def wait_in_silence(handler: Handler) -> None:
    handler.served.over.wait(5)


def test_a_consistent_judge_decides_in_both_orders() -> None:
    with judge_server(longer_wins) as server:
        judge = Judge(server.address)
        judged = [
            judge.judge(0, text_of("long answer"), text_of("short")),
            judge.judge(1, text_of("tiny"), text_of("a longer one")),
        ]
        assert judge.model == "judge-1"
        assert len(server.bodies) == 4
    assert outcomes_of_judged(judged) == {0: [1.0], 1: [0.0]}
    bias = bias_of(judged)
    assert (bias.first_place, bias.longer, bias.unclear, bias.replies) == (0.5, 1.0, 0, 4)


def test_a_judge_that_always_prefers_the_first_makes_ties() -> None:
    with judge_server(lambda first, second: "A") as server:
        judge = Judge(server.address)
        judged = [judge.judge(at, text_of("one text"), text_of("other")) for at in range(3)]
    assert outcomes_of_judged(judged) == {0: [0.5], 1: [0.5], 2: [0.5]}
    assert bias_of(judged).first_place == 1.0
    assert bias_of(judged).longer == 0.5


def test_nonsense_leaves_the_pair_out() -> None:
    replies = iter(["This is a hard choice.", "A", "A or B", "", "tie", "B"])
    with judge_server(lambda first, second: next(replies)) as server:
        judge = Judge(server.address)
        judged = [judge.judge(at, text_of(f"one {at}"), text_of("other")) for at in range(3)]
    assert [each.outcome for each in judged] == [None, None, 1.0 - 0.5 + 0.0]
    assert outcomes_of_judged(judged) == {2: [0.5]}
    assert bias_of(judged).unclear == 3


def test_equal_texts_are_a_tie_without_a_request() -> None:
    with judge_server(longer_wins) as server:
        judged = Judge(server.address).judge(0, text_of("same"), text_of("same"))
        assert server.bodies == []
    assert judged.outcome == 0.5


def test_a_question_is_asked_once() -> None:
    with judge_server(longer_wins) as server:
        judge = Judge(server.address)
        first = judge.judge(0, text_of("long answer"), text_of("short"))
        again = Judge(server.address, replies=judge.replies)
        assert again.judge(0, text_of("long answer"), text_of("short")) == first
        assert len(server.bodies) == 2


@pytest.mark.parametrize("status", [400, 429, 500])
def test_refusals_end_with_the_servers_message(status: int) -> None:
    with judge_server(longer_wins) as server:
        judge = Judge(server.address)
        server.pages[CHAT] = Page(body=b'{"error": {"message": "not now"}}', status=status)
        assert judge.choose("p", "a", "b") == "failed"
        assert judge.choose("p", "b", "a") == "failed"
        with pytest.raises(ServerError, match="not now"):
            judge.choose("p", "c", "d")
        assert judge.replies == {}


def test_a_failed_request_is_sent_again() -> None:
    with judge_server(longer_wins) as server:
        judge, fine = Judge(server.address), server.pages[CHAT]

        def refuse_once(handler: Handler) -> None:
            server.pages[CHAT] = fine
            handler.send(Page(status=429))

        server.pages[CHAT] = Page(behave=refuse_once)
        assert judge.choose("p", "long one", "b") == "first"
        assert (len(server.bodies), judge.failure) == (2, "")


def test_failed_questions_are_counted_apart_from_unclear_replies() -> None:
    judged = [
        JudgedPair(prompt=0, forward="failed", backward="first", longer="first"),
        JudgedPair(prompt=1, forward="none", backward="second", longer="first"),
        JudgedPair(prompt=2, forward="tie", backward="tie", longer="neither", asked=False),
    ]
    found = bias_of(judged, "not now")
    assert (found.replies, found.unclear, found.failed, found.failure) == (3, 1, 1, "not now")
    assert [each.outcome for each in judged] == [None, None, 0.5]


def test_a_judge_that_never_chooses_ends_the_job_with_a_sample() -> None:
    with judge_server(lambda first, second: "Both are lovely.") as server:
        judge = Judge(server.address)
        assert {judge.choose("p", f"a{at}", "b") for at in range(19)} == {"none"}
        with pytest.raises(ServerError, match="Both are lovely"):
            judge.choose("p", "a", "b")


def test_single_failures_leave_pairs_out_and_are_asked_again() -> None:
    with judge_server(longer_wins) as server:
        judge, fine = Judge(server.address), server.pages[CHAT]
        for _ in range(3):
            server.pages[CHAT] = Page(status=500)
            assert judge.choose("p", "long one", "b") == "failed"
            server.pages[CHAT] = fine
            assert judge.choose("p", "long one", "b") == "first"
            judge.replies.clear()


def test_a_silent_judge_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "_LIMITS", Limits(between=0.2, total=0.4))
    with judge_server(longer_wins) as server:
        judge = Judge(server.address)
        server.pages[CHAT] = Page(behave=wait_in_silence)
        assert judge.choose("p", "a", "b") == "failed"
        assert judge.choose("p", "a", "b") == "failed"
        with pytest.raises(ServerError):
            judge.choose("p", "a", "b")


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"choices": [7]}', b'{"choices": []}'])
def test_other_json_is_an_unclear_reply(body: bytes) -> None:
    with judge_server(longer_wins) as server:
        judge = Judge(server.address)
        server.pages[CHAT] = Page(body=body)
        assert judge.choose("p", "a", "b") == "none"


def test_another_machine_needs_permission() -> None:
    with pytest.raises(ServerError, match="another machine"):
        Judge("http://192.0.2.1:9")


@pytest.mark.parametrize(
    ("reply", "choice"),
    [
        ("A", "first"),
        ("answer b.", "second"),
        ("**B**", "second"),
        ("Tie", "tie"),
        ("A is better than B", "first"),
        ("B, because it is shorter.", "second"),
        ("A tie.", "tie"),
        ("A or B", "none"),
        ("A hard question", "none"),
        ("This is a hard question.", "none"),
        ("a", "first"),
        ("Both are good", "none"),
        ("abacus", "none"),
        (None, "none"),
        (7, "none"),
        ("The answer is A.", "first"),
        ("The better answer is B", "second"),
        ("A, a clear choice", "first"),
        ("A, B or tie.", "none"),
        ("A/B", "none"),
        ("A is better, B is better.", "none"),
        ("<think>A or B?\nB is better</think>\n\nA", "first"),
        ("<think>A is better", "none"),
    ],
)
def test_replies_are_read(reply: object, choice: str) -> None:
    assert read_choice(reply) == choice


def test_placeholders_inside_a_text_stay() -> None:
    made = fill("{prompt}|{first}|{second}", "{second}", "{prompt}", "x")
    assert made == "{second}|{prompt}|x"


def test_a_question_without_a_placeholder_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"\{second\}"):
        Judge("http://127.0.0.1:1", prompt=PROMPT.replace("{second}", ""))


def test_pairs_are_distinct_and_bounded() -> None:
    drawn = list(pairs_to_judge(3, 5, Random(1)))
    assert len(set(drawn)) == 5
    assert sorted(pairs_to_judge(2, 99, Random(1))) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_length_bias_counts_choices_with_different_lengths() -> None:
    alike = JudgedPair(prompt=0, forward="first", backward="first", longer="neither")
    assert bias_of([alike]).longer is None


def test_a_real_small_judge_prefers_the_first_place() -> None:
    pairs = json.loads(PAIRS.read_text(encoding="utf-8"))
    with replayed_tape(TAPE) as server:
        judge = Judge(server.address)
        judged = [
            judge.judge(at, answer(prompt, first), answer(prompt, second))
            for at, (prompt, first, second) in enumerate(pairs)
        ]
    bias = bias_of(judged)
    assert (bias.first_place, bias.unclear, bias.replies) == (1.0, 3, 20)
    assert [each.outcome for each in judged].count(0.5) == 8  # both orders: the first place
    assert [each.outcome for each in judged].count(None) == 2
