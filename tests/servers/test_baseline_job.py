"""The baseline job: completed, stopped during an answer, and failed."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator

import pytest

from specviz.record.server_run import ServerInfo, ServerSettings, ServerTrace
from specviz.servers import BASELINE_KEY, SERVER_KEY, ask, find_server
from specviz.servers.baseline_job import BLOCKS, MOST_ANSWERS, BaselineJob, BaselineRequest
from tests.servers.replaying import Handler, Page, Served, served

MODELS = Page(body=b'{"data": [{"id": "tiny"}]}')
SETTINGS = ServerSettings(max_new_tokens=8)


def piece(text: str) -> dict[str, object]:
    return {"choices": [{"text": text, "finish_reason": None}]}


def slow(seconds: float, pieces: int = 4) -> Page:
    """Return an answer whose chunks are this many seconds apart."""

    def behave(handler: Handler) -> None:
        handler.begin_stream()
        for place in range(pieces):
            handler.event(piece(f" word{place}"))
            if handler.served.over.wait(seconds):
                return
        end = {"choices": [{"text": "", "finish_reason": "length"}]}
        usage = {"prompt_tokens": 3, "completion_tokens": pieces, "total_tokens": 3 + pieces}
        handler.event(end)
        handler.event({"choices": [], "usage": usage})
        handler.wfile.write(b"data: [DONE]\n\n")

    return Page(behave=behave)


@pytest.fixture
def engines() -> Iterator[tuple[Served, Served]]:
    fast = {"/v1/models": MODELS, "/v1/completions": slow(0.008)}
    alone = {"/v1/models": MODELS, "/v1/completions": slow(0.024)}
    with served(fast) as first, served(alone) as second:
        yield first, second


def answered(info: ServerInfo) -> ServerTrace:
    answer = ask(info, "Once", SETTINGS)
    for _ in answer:
        pass
    return answer.trace()


def work_of(engines: tuple[Served, Served]) -> BaselineJob:
    info, alone = (find_server(each.address) for each in engines)
    return BaselineJob(BaselineRequest(trace=answered(info), alone=alone), "an answer")


def test_asks_both_engines_in_turn_each_with_its_own_key(
    engines: tuple[Served, Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, engine in zip((SERVER_KEY, BASELINE_KEY), engines, strict=True):
        monkeypatch.setenv(name, f"key-of-{name}")
        monkeypatch.setenv(f"{name}_FOR", engine.address)
    job = work_of(engines)
    before = [len(each.bodies) for each in engines]
    for engine in engines:
        engine.asked.clear()
    job.carry_out()
    assert job.error is None
    assert (job.state, len(job.blocks), job.progress) == ("done", BLOCKS, (MOST_ANSWERS,) * 2)
    asked = [len(each.bodies) - n for each, n in zip(engines, before, strict=True)]
    assert asked == [MOST_ANSWERS // 2] * 2
    assert all(body["prompt"] == "Once" for body in itertools.chain(*(e.bodies for e in engines)))
    found = job.speedup
    assert found is not None
    assert found.low is not None
    assert 1 < found.value < 6

    for name, engine in zip((SERVER_KEY, BASELINE_KEY), engines, strict=True):
        keys = {headers.get("Authorization") for _, headers in engine.asked}
        assert keys == {f"Bearer key-of-{name}"}


def test_stops_in_the_middle_of_an_answer(engines: tuple[Served, Served]) -> None:
    job = work_of(engines)
    engines[1].pages["/v1/completions"] = slow(5.0)

    def stop() -> None:
        while not engines[1].bodies:
            time.sleep(0.01)
        job.stop()

    threading.Thread(target=stop).start()
    began = time.monotonic()
    job.carry_out()
    assert time.monotonic() - began < 3
    assert (job.state, job.error, job.blocks) == ("stopped", None, ())


def test_fails_with_one_line_if_an_engine_fails(engines: tuple[Served, Served]) -> None:
    job = work_of(engines)
    engines[1].pages["/v1/completions"] = Page(status=500, body=b'{"error": "no memory"}')
    job.carry_out()
    assert job.state == "failed"
    assert "no memory" in str(job.error)
