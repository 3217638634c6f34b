"""Recorded answers of real engines with one value replaced by a hostile one.

In every case an answer ends normally or with one ServerError, its figures are possible, and its
trace is stored and read back unchanged.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from specviz.errors import ServerError
from specviz.figures.server_figures import server_metrics
from specviz.record.server_run import ServerSettings
from specviz.servers import ask, counters_of_dump, find_server
from specviz.servers.connection import Limits
from specviz.store import Library
from specviz.store.saving import save_run
from tests.servers.replaying import ANSWERS, Page, replayed, served
from tests.servers.tapes import CASES, DRAFT, replayed_tape, worked

HOSTILE = (
    None, True, -1, 0, 1, 9, 2**31, 2**53 - 1, 2**53, 10**18, -(10**18), 0.5, 1e308, -1e308,
    "", "x", "\ud800", "\u202e", "x" * 20_000, [], [1], ["a"], [None], {}, {"a": 1}, [[[]]],
    float("nan"), float("inf"), -float("inf"),
)  # fmt: skip
TAPES = sorted(
    (folder.name, tape.stem) for folder in ANSWERS.iterdir() for tape in folder.glob("*.sse")
)
LIMITS = Limits(connect=1.0, between=5.0, total=20.0)
EACH = 8
BATCHES = (0, *(pytest.param(each, marks=pytest.mark.thorough) for each in range(1, 8)))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict | list):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*path, name))


def mutated(text: str, draws: random.Random) -> str:
    """Return the JSON text with a random value replaced."""
    value = json.loads(text)
    found = list(places(value)) if isinstance(value, dict | list) else []
    if not found:
        return json.dumps(draws.choice(HOSTILE))
    *path, last = draws.choice(found)
    inner = value
    for name in path:
        inner = inner[name]
    inner[last] = draws.choice(HOSTILE)
    return json.dumps(value)


def mutated_stream(body: bytes, draws: random.Random) -> bytes:
    lines = body.decode().split("\n")
    events = [place for place, line in enumerate(lines) if line.startswith("data: {")]
    for place in draws.sample(events, k=min(2, len(events))):
        lines[place] = f"data: {mutated(lines[place].removeprefix('data: '), draws)}"
    return "\n".join(lines).encode()


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize(("engine", "tape"), TAPES)
def test_mutated_answers(engine: str, tape: str, batch: int) -> None:
    draws, library = random.Random(f"{engine} {tape} {batch}"), Library()
    kept = 0
    with replayed(engine, tape) as server:
        info = find_server(server.address)
        paths = [path for path, page in server.pages.items() if page.kind == "text/event-stream"]
        path = paths[0]
        body = server.pages[path].body
        settings = ServerSettings(max_new_tokens=64, chat="chat" in path)
        for _ in range(EACH):
            page = Page(body=mutated_stream(body, draws), kind="text/event-stream")
            server.pages[path] = page
            answer = ask(info, "Once", settings, limits=LIMITS)
            with suppress(ServerError):
                list(answer)
            trace = answer.trace()
            assert not any("cannot be read" in each for each in trace.notices)  # no reader failed
            figures = server_metrics(trace)
            assert figures.tau is None or 1 <= figures.tau <= settings.max_new_tokens
            assert figures.draft_acceptance_rate is None or 0 <= figures.draft_acceptance_rate <= 1
            if trace.rounds:
                kept += 1
                assert library.open_any(save_run(library, trace)) == trace
    assert kept > EACH // 2


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("engine", sorted({engine for engine, _ in TAPES}))
def test_mutated_recognition_pages(engine: str, batch: int) -> None:
    draws = random.Random(f"{engine} {batch}")
    with replayed(engine) as original:
        pages = dict(original.pages)
    for _ in range(EACH):
        path = draws.choice([path for path, page in pages.items() if page.status == 200])
        body = pages[path].body.decode()
        if path == "/metrics":
            lines = body.split("\n")
            lines[draws.randrange(len(lines))] += draws.choice(["9" * 400, '"', "{", " -1", "e308"])
            changed = "\n".join(lines)
        else:
            changed = mutated(body, draws)
        with served({**pages, path: Page(body=changed.encode())}) as server:
            try:
                info = find_server(server.address)
            except ServerError:
                continue
        assert len(info.model) <= 200
        assert len(info.version or "") <= 200
        assert info.gamma is None or 1 <= info.gamma <= 1024
        if path == "/metrics" and "spec_decode" in changed:
            found = counters_of_dump(changed)
            assert all(0 <= each <= 2**53 for each in (found.drafts or 0, found.drafted or 0))


@pytest.mark.parametrize(("name", "count"), [("unfiltered", 12), ("top-k", 12), ("whole", 1)])
def test_mutated_scores(name: str, count: int) -> None:
    (case,) = (each for each in CASES if each.name == name)
    draws = random.Random(name)

    def change(answer: str) -> str:
        return mutated(answer, draws)

    for _ in range(count):
        with replayed_tape(name, change) as target:
            job = worked(case.question(target.address, DRAFT), endpoints=True)
        assert "unexpected error" not in str(job.error)
