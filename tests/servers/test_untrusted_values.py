"""Invalid numbers, texts and pages of an engine do not get through."""

from __future__ import annotations

import json
import time

import pytest

from specviz.errors import ServerError
from specviz.record.server_run import (
    EngineName,
)
from specviz.servers import find_server
from specviz.servers.connection import Limits
from specviz.servers.foreign_json import KeyRemover, decoded
from specviz.servers.prometheus import samples_of
from tests.servers.hostile_engines import (
    answered,
    raw,
    recognisable,
)
from tests.servers.replaying import Handler, Page, served

pytestmark = pytest.mark.usefixtures("bounded")


# Numbers and texts in JSON


@pytest.mark.parametrize(
    "value",
    ["NaN", "-Infinity", "Infinity", "1e999", "1" * 400, "-" + "9" * 400, "0.5", "true", '"x"'],
)
@pytest.mark.parametrize("engine", ["vllm", "openai"])
def test_notice_for_invalid_log_probabilities(engine: EngineName, value: str) -> None:
    listed = f'{{"tokens": ["a", "b"], "token_logprobs": [-0.5, {value}]}}'
    choice = f'{{"index": 0, "text": "ab", "logprobs": {listed}, "finish_reason": "stop"}}'
    trace, failure = answered(engine, raw(f'{{"choices": [{choice}]}}'))
    assert failure == ""
    assert [each.logprobs for each in trace.rounds] == [()]
    assert any("Ignored log-probabilities" in each for each in trace.notices)
    json.dumps(trace.text, allow_nan=False)


def test_numbers_that_do_not_fit_are_missing() -> None:
    text = "[NaN, Infinity, -Infinity, 1e999, -1e999, 0.5, 7, " + "1" * 400 + "]"
    assert decoded(text, KeyRemover(None)) == [None, None, None, None, None, 0.5, 7, None]


def test_replaces_lone_surrogates() -> None:
    trace, failure = answered("openai", raw(r'{"choices": [{"text": "a\ud800b"}]}'))
    assert failure == ""
    assert trace.text in ("a?b", "a\ufffdb")
    trace.text.encode()


@pytest.mark.parametrize(
    "body", ['{"a": ' * 100_000, "[" * 100_000, '{"choices": [{"text": ' + "[" * 3000]
)
def test_rejects_deep_nesting(body: str) -> None:
    _, failure = answered("openai", raw(body))
    assert "not JSON" in failure


def test_cuts_names_to_one_line() -> None:
    names = ["m" * 10**6, "two\nlines\x1b[2J", "\ud800"]
    models = {"data": [{"id": each, "owned_by": None} for each in names]}
    with served({"/v1/models": Page(body=json.dumps(models).encode())}) as server:
        assert len(find_server(server.address).model) == 200
        assert find_server(server.address, model="two lines [2J").model == "two lines [2J"


def test_rejects_bodies_with_too_many_values() -> None:
    with pytest.raises(ValueError, match="too many values"):
        decoded("[" + "[]," * 4_000_000 + "[]]", KeyRemover(None))


def test_pages_have_single_and_total_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {"/v1/models": Page(body=b" " * 17_000_000)}
    with served(pages) as server, pytest.raises(ServerError, match="more than 16 MB"):
        find_server(server.address)

    def slow(handler: Handler) -> None:
        handler.served.over.wait(1.0)
        handler.send(Page(body=b'{"data": [{"id": "tiny"}]}'))

    monkeypatch.setattr("specviz.servers.finding._PAGES", 2)
    paths = ("/v1/models", "/metrics", "/version", "/props", "/server_info", "/api/v0/models")
    with served(dict.fromkeys(paths, Page(behave=slow))) as server:
        began = time.monotonic()
        with pytest.raises(ServerError, match="did not finish"):
            find_server(server.address, limits=Limits(connect=1.0, between=1.0, total=0.5))
        assert time.monotonic() - began < 5.0  # all pages take 6 s


def test_reads_counters_in_linear_time() -> None:
    began = time.process_time()
    samples_of(("vllm:x{" + "a" * 9000 + "} 1\n") * 100)
    assert samples_of('vllm:x{a="' + "a" * 20_000 + '"} 1') == ()
    assert time.process_time() - began < 2


# Two engines behind one address


def test_rejects_two_engines_at_one_address() -> None:
    with served(recognisable("vllm", "llama.cpp")) as server:
        with pytest.raises(ServerError, match=r"as vLLM 0\.32\.0 and as llama\.cpp b1") as caught:
            find_server(server.address)
        assert "single engine" in caught.value.remedy


def test_explains_a_missing_page_of_a_recognised_engine() -> None:
    page = Page(status=404, body=b"{}")
    _, failure = answered("llama.cpp", page)
    assert "answers 404, although llama.cpp was recognised there" in failure
    assert "Several engines may share" in failure
