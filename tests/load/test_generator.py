"""One block of load: what is sent, what is counted, and what happens when an engine misbehaves.

Time limits are wide where nothing stalls, because the machine may be busy.
"""

from __future__ import annotations

import time
from dataclasses import replace
from threading import Thread

import pytest

from specviz.figures.load_blocks import BlockFigures, block_figures, ttft_of
from specviz.load.generator import LoadGenerator
from specviz.load.prompts import PromptDealer
from specviz.measure.stoppable import StoppedError
from specviz.record.load_run import LoadBlock, LoadMode, LoadSettings
from specviz.record.prompts import SuiteItem
from specviz.record.server_run import ServerSettings
from specviz.servers import ask
from specviz.servers.connection import Limits
from tests.load.scripted_engine import Fault, ScriptedEngine, info_at, running
from tests.servers.replaying import Served

ITEMS = tuple(
    SuiteItem(prompt=f"A secret prompt of some length, number {each}") for each in range(7)
)
STEP, TOKENS, PER_STEP = 0.015, 12, 3
QUICK = LoadSettings(
    levels=(3,), seconds=0.25, ramp=0.05, max_new_tokens=TOKENS, request_limit=30.0
)


def engine(fault: Fault = "", *, every: int = 2) -> ScriptedEngine:
    """Return an engine whose fault meets every second request."""
    return ScriptedEngine(
        step=lambda _: STEP, per_step=PER_STEP, fault=fault,
        failing=lambda number: number % every == every - 1,
    )  # fmt: skip


def generator(
    server: Served, settings: LoadSettings = QUICK, *, level: float = 3, left: int = 1000
) -> LoadGenerator:
    limits = Limits(between=settings.request_limit, total=settings.request_limit)
    wanted = ServerSettings(max_new_tokens=settings.max_new_tokens)
    return LoadGenerator(
        lambda prompt, number: ask(
            info_at(server.address), prompt, wanted, limits=limits, cache_salt=f"s-{number}"
        ),
        settings,
        level,
        PromptDealer(ITEMS, order="x", block=None),
        requests_left=left,
        pause=0.05,
    )


def open_loop(most_in_flight: int) -> LoadSettings:
    mode: LoadMode = "open"
    return replace(QUICK, mode=mode, levels=(40.0,), most_in_flight=most_in_flight)


def figures(block: LoadBlock, settings: LoadSettings = QUICK) -> BlockFigures:
    return block_figures(block, settings)


def test_a_closed_loop_keeps_its_users_in_flight_and_counts_what_was_sent() -> None:
    scripted = engine()
    with running(scripted) as server:
        block = generator(server).run()
        salts = [str(each["cache_salt"]) for each in server.bodies]
    found = figures(block)
    assert scripted.most <= 3
    assert found.most_in_flight == 3
    assert 2 < found.mean_in_flight < 3.01
    assert sum(each.tokens for each in block.requests) == scripted.generated
    assert {each.user for each in block.requests} == {0, 1, 2}
    assert all((each.tokens, each.finish) == (TOKENS, "length") for each in block.requests)
    assert min(each.arrivals[0] - each.sent for each in block.requests) > 0.9 * STEP
    assert found.tokens_per_second * QUICK.seconds < scripted.generated  # the ramps do not count
    # Prompts are real ones, none is sent again before all were sent, and no cache is shared.
    assert set(scripted.prompts) <= {each.prompt for each in ITEMS}
    first = [each.prompt for each in block.requests[: len(ITEMS)]]
    assert len(set(first)) == len(first)
    assert len(set(salts)) == len(salts) == len(block.requests)


def test_an_open_loop_counts_latency_from_when_a_request_was_due() -> None:
    """With one in flight at most, requests wait here; their waiting counts."""
    settings, scripted = open_loop(1), engine()
    with running(scripted) as server:
        block = generator(server, settings, level=40.0).run()
    assert scripted.most == 1
    assert max(each.sent - each.scheduled for each in block.requests) > 0.1
    assert block.unsent > 0
    waited = [ttft for each in block.requests if (ttft := ttft_of(each)) is not None]
    assert max(waited) > 0.1  # of which the engine took one step


def test_an_open_loop_overlaps_requests() -> None:
    scripted = engine()
    with running(scripted) as server:
        block = generator(server, open_loop(8), level=40.0).run()
    assert 1 < scripted.most <= 8
    assert all(each.scheduled <= each.sent for each in block.requests)


def test_the_ceiling_on_requests_is_kept() -> None:
    scripted = engine()
    with running(scripted) as server:
        block = generator(server, left=5).run()
    assert scripted.asked == len(block.requests) == 5


def test_a_stop_ends_all_requests_at_once() -> None:
    outcome = list[str]()
    with running(engine("stall", every=1)) as server:
        load = generator(server, replace(QUICK, seconds=60.0))

        def run() -> None:
            try:
                load.run()
            except StoppedError:
                outcome.append("stopped")

        thread = Thread(target=run)
        thread.start()
        while load.users != ("decoding",) * 3:
            time.sleep(0.01)
        began = time.monotonic()
        load.stop()
        thread.join(10)
        assert time.monotonic() - began < 3  # the engine would take 30
    assert outcome == ["stopped"]


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ("429", "answers 429: too many requests"),
        ("closes", "ended the stream before the answer was complete"),
        ("quotes", "answers 400: (the rest quotes the prompt)"),
        ("stall", "1.5 s"),
    ],
)
def test_a_misbehaving_engine_gives_failures_and_no_fast_answers(fault: Fault, line: str) -> None:
    settings = replace(QUICK, request_limit=1.5) if fault == "stall" else QUICK
    with running(engine(fault)) as server:
        block = generator(server, settings).run()
    failures = [each.failure for each in block.requests if each.failed]
    assert 0 < len(failures) < len(block.requests)
    assert all(line in each and "\n" not in each and "secret" not in each for each in failures)
    # Whole answers take four steps, however soon the failed ones ended.
    whole = [each.ended - each.sent for each in block.requests if not each.failed]
    assert min(whole) > 4 * 0.9 * STEP
    found = figures(block, settings)
    assert found.failures == len(failures)
    good = sum(each.tokens for each in block.requests if not each.failed)
    assert found.tokens_per_second * settings.seconds <= good
    assert found.problem  # too many failures for a speedup


def test_an_engine_that_never_finishes_does_not_hang_a_block() -> None:
    began = time.monotonic()
    with running(engine("stall", every=1)) as server:
        block = generator(server, replace(QUICK, request_limit=1.0)).run()
    assert time.monotonic() - began < 15  # the engine would take 30
    assert all(each.failed for each in block.requests)
    assert figures(block).tokens_per_second == 0
