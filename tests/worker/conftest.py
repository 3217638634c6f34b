"""One worker process, on the embedded pair, for all tests that leave it alive.

It is forked, so it starts at once; tests of its start and end use a real one. Step costs are stored
beforehand; measuring them is tested elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from specviz.engine import load_pair
from specviz.engine.model.pair import Pair
from specviz.record.pairs import PairSpec
from specviz.worker.parent.client import Worker
from tests.engine.models import write_pair
from tests.ready_processes import fork_workers
from tests.step_costs import place_step_costs
from tests.tiny_pair import one_thread
from tests.tiny_pair import shared_home as home
from tests.worker.waiting import wait_until

__all__ = ["home", "one_thread"]  # fixtures


@pytest.fixture(autouse=True)
def _start(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    fork_workers(request, monkeypatch)


@pytest.fixture(scope="package")
def spec() -> PairSpec:
    return PairSpec(name="tinystories", threads=1)


@pytest.fixture(autouse=True, scope="package")
def pair(home: Path) -> Pair:
    """The embedded pair in this process, for comparison with the worker's runs."""
    loaded = load_pair(PairSpec(name="tinystories", threads=1))
    place_step_costs(loaded)
    return loaded


@pytest.fixture(scope="package")
def other_spec(tmp_path_factory: pytest.TempPathFactory) -> PairSpec:
    folder = write_pair(tmp_path_factory.mktemp("other"), num_hidden_layers=1)
    return PairSpec(draft=str(folder / "draft"), target=str(folder / "target"), threads=1)


@pytest.fixture(scope="package")
def shared_worker(home: Path) -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.close()


@pytest.fixture
def worker(shared_worker: Worker) -> Iterator[Worker]:
    """The shared worker, without requests after the test."""
    yield shared_worker
    for session in ("a", "b", "c"):
        shared_worker.release(session, grace=0.0)
    wait_until(lambda: not shared_worker.busy)


@pytest.fixture
def new_worker(home: Path) -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.close()
