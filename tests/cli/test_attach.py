"""``attach``: recorded engines in the terminal and as JSON, counters, and refused input."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from specviz.cli import main
from specviz.store import Library
from tests.servers.replaying import Handler, Page, Served, replayed, served

PROMPT = "Tom had a big red ball. He took it to the garden and"
KEYS = {"engine", "version", "capabilities", "text", "token_ids", "rounds", "metrics"}
METRICS = {
    "num_rounds", "num_drafted", "num_accepted", "draft_acceptance_rate", "tau",
    "alpha_by_position", "tokens_per_second",
}  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SPECVIZ_SERVER_KEY", "a-secret-key")
    monkeypatch.setenv("SPECVIZ_SERVER_KEY_FOR", "127.0.0.1")


def attached(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["attach", *arguments, "--json"]) == 0
    output = capsys.readouterr()
    assert "a-secret-key" not in output.out + output.err
    return json.loads(output.out)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main(["attach", *arguments]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert len(output.err.strip().splitlines()) == 1
    return output.err


def test_json_of_an_engine_that_reports_every_step(capsys: pytest.CaptureFixture[str]) -> None:
    with replayed("vllm", "ended") as server:
        record = attached(capsys, server.address, "--prompt", PROMPT, "--temperature", "0")
        sent = server.bodies[-1]
    assert record.keys() >= KEYS
    assert record["metrics"].keys() >= METRICS
    assert (record["engine"], sent["prompt"]) == ("vllm", PROMPT)
    rounds = [each for each in record["rounds"] if each["drafted"]]
    metrics = record["metrics"]
    assert metrics["num_rounds"] == len(rounds)
    assert metrics["num_drafted"] == sum(each["drafted"] for each in rounds)
    assert metrics["num_accepted"] == sum(each["accepted"] for each in rounds)
    passed = [sum(each["accepted"] > place for each in rounds) for place in range(5)]
    bases = [len(rounds), *passed]
    assert metrics["alpha_by_position"] == [
        pytest.approx(count / base) if base else None
        for count, base in zip(passed, bases, strict=False)
    ]
    ids = [token for each in record["rounds"] for token in each["token_ids"]]
    assert record["token_ids"] == ids
    assert record["speedup"] is None  # no baseline
    assert len(Library().find()) == 1


def test_text_pieces_are_not_counted_as_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    events = [{"choices": [{"text": text, "index": 0}]} for text in (" a", " dog")]
    events.append({"choices": [{"text": "", "index": 0, "finish_reason": "length"}]})
    stream = "".join(f"data: {json.dumps(each)}\n\n" for each in events) + "data: [DONE]\n\n"
    pages = {
        "/v1/models": Page(body=b'{"object": "list", "data": [{"id": "some"}]}'),
        "/v1/completions": Page(body=stream.encode(), kind="text/event-stream"),
    }
    with served(pages) as server:
        record = attached(capsys, server.address, "--prompt", "I saw", "--no-keep")
    unreported = METRICS - {"alpha_by_position", "tokens_per_second"}
    assert {name: record["metrics"][name] for name in unreported} == dict.fromkeys(unreported)
    assert (record["engine"], record["text"]) == ("openai", " a dog")
    assert Library().find() == ()


def streamed(*events: str) -> dict[str, Page]:
    body = "".join(f"data: {each}\n\n" for each in events) + "data: [DONE]\n\n"
    return {
        "/v1/models": Page(body=rb'{"object": "list", "data": [{"id": "half \ud800 a pair"}]}'),
        "/v1/completions": Page(body=body.encode(), kind="text/event-stream"),
    }


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1" * 400])
def test_drops_non_finite_logprobs_with_a_notice_before_saving(
    value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = f'{{"tokens": ["a"], "token_logprobs": [{value}]}}'
    choice = f'{{"text": "a", "logprobs": {listed}, "finish_reason": "stop"}}'
    with served(streamed(f'{{"choices": [{choice}]}}')) as server:
        record = attached(capsys, server.address, "--prompt", "I saw")
    assert record["runs"][0]["rounds"][0]["logprobs"] == []
    assert "log-probabilities" in record["runs"][0]["notices"][-1]
    (row,) = Library().find()
    assert Library().open_any(row.id)


def test_an_incomplete_answer_fails(capsys: pytest.CaptureFixture[str]) -> None:
    with served(streamed('{"usage": {"completion_tokens": 1000}}')) as server:
        assert main(["attach", server.address, "--prompt", "I saw", "--json"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "were requested" in shown.err.splitlines()[-1]
    assert Library().find() == ()


def test_pools_the_counts_of_several_prompts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = tmp_path / "suite.jsonl"
    suite.write_text('{"prompt": "One"}\n{"prompt": "Two"}\n')
    with replayed("llamacpp", "short") as server:
        record = attached(capsys, server.address, "--suite", str(suite), "--no-keep")
    own = [each["metrics"]["num_accepted"] for each in record["runs"]]
    assert len(own) == 2
    assert record["metrics"]["num_accepted"] == sum(own)
    assert (record["text"], record["rounds"]) == (None, None)


def paced(server: Served, seconds: float) -> None:
    """Send the answer event by event, with a pause between events."""
    events = server.pages["/v1/completions"].body.split(b"\n\n")

    def answer(handler: Handler) -> None:
        handler.begin_stream()
        for each in events:
            handler.wfile.write(each + b"\n\n")
            handler.wfile.flush()
            time.sleep(seconds)

    server.pages["/v1/completions"] = Page(behave=answer)


@pytest.mark.thorough
def test_times_blocks_against_the_baseline(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with replayed("vllm", "ended") as server, replayed("vllm-plain", "short") as alone:
        paced(server, 0.006)
        paced(alone, 0.006)
        for name, engine in (("SERVER", server), ("BASELINE", alone)):
            monkeypatch.setenv(f"SPECVIZ_{name}_KEY", f"{name}-key")
            monkeypatch.setenv(f"SPECVIZ_{name}_KEY_FOR", engine.address)
        record = attached(
            capsys, server.address, "--prompt", PROMPT, "--baseline", alone.address, "--no-keep"
        )
        requested = len(server.bodies), len(alone.bodies)
    assert requested == (1 + 1 + 12, 1 + 12)  # the answer, a warm-up, six blocks of two
    for name, engine in (("SERVER", server), ("BASELINE", alone)):  # each gets its own key
        assert {headers["Authorization"] for _, headers in engine.asked} == {f"Bearer {name}-key"}
    assert record["speedup"]["count"] == len(record["runs"][0]["blocks"]) == 6
    assert record["speedup"]["value"] > 1.2  # one piece per round against one per token
    assert record["speedup"]["low"] <= record["speedup"]["value"] <= record["speedup"]["high"]


def test_prints_rounds_figures_and_their_evidence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with replayed("llamacpp", "short") as server:
        assert main(["attach", server.address, "--prompt", PROMPT, "--no-keep"]) == 0
    output = capsys.readouterr()
    assert "sending 1 prompt (52 characters), 1 time each, for at most 128 tokens" in output.err
    for words in ("llama.cpp", "Not reported: ", "received at", "draft acceptance rate",
                  "Rounds are counted", "No speedup"):  # fmt: skip
        assert words in " ".join(output.out.split())


@pytest.mark.parametrize("engine", ["vllm-chat", "llamacpp-chat"])
def test_chat_sends_a_message_and_prints_the_answer_on_its_own_line(
    engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with replayed(engine, "short") as server:
        requested = ["attach", server.address, "--prompt", "Tell me.", "--chat", "--no-keep"]
        assert main([*requested, "--max-new-tokens", "40"]) == 0
        sent = server.bodies[-1]
    assert sent["messages"] == [{"role": "user", "content": "Tell me."}]
    assert sent["stream_options"] == {"include_usage": True}
    lines = [each.strip() for each in capsys.readouterr().out.splitlines()]
    assert lines[lines.index("Tell me.") + 1].startswith("Yes, please. I like to play")
    assert any(each.split() == ["tokens", "per", "round,", "τ", "3.09"] for each in lines)


def test_counters_of_a_server_and_of_a_saved_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with replayed("vllm") as server:
        live = attached(capsys, server.address)
        page = server.pages["/metrics"].body
    saved = tmp_path / "metrics.txt"
    saved.write_bytes(page)
    read = attached(capsys, str(saved))
    assert live.keys() >= KEYS
    assert read["metrics"] == live["metrics"]
    assert read["metrics"]["num_accepted"] > 0
    assert (live["engine"], read["engine"]) == ("vllm", None)


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["http://127.0.0.1:9"], "cannot be reached"),
        (["http://example.com:9", "--prompt", "a"], "another machine"),
        (["http://me:secret@127.0.0.1:9"], "name or password"),
        (["http://127.0.0.1:9?key=secret"], "query or fragment"),
        (["http://127.0.0.1:9", "--every", "nan"], "--every is nan"),
        (["http://127.0.0.1:9", "--baseline", "http://127.0.0.1:8"], "--baseline compares answers"),
        (["http://127.0.0.1:9", "--prompt", "a", "--temperature", "-1"], "temperature is -1"),
        (["http://127.0.0.1:9", "--prompt", ""], "prompt is empty"),
    ],
)
def test_refuses_invalid_options(
    arguments: list[str], output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    complaint = refused(capsys, *arguments)
    assert output in complaint
    assert "secret" not in complaint


def test_refuses_a_file_without_counters_and_a_prompt_to_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "some.log"
    file.write_text("nothing of the kind\n")
    assert "no counters of vLLM" in refused(capsys, str(file))
    assert "is a file" in refused(capsys, str(file), "--prompt", "a")
