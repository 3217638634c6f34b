"""Downloads from the Hub: progress in bytes, cancellation, resumption."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import transformers as hf
from huggingface_hub import constants

from specviz.engine.model.pair import Pair
from specviz.record.numbers import SIZE
from specviz.record.pairs import Progress
from tests.engine.asking import load
from tests.engine.fake_hub import PIECE, FakeHub

PROMPTLY = 5.0  # seconds
STALLED = 8.0  # the network's own timeout is ten


class EnoughError(Exception):
    """Raised by a caller to stop a download."""


class Stopper:
    """Raises ``error`` at the first report that satisfies ``when``, and records the time."""

    def __init__(self, error: BaseException, when: Callable[[Progress], bool]) -> None:
        self.error = error
        self.when = when
        self.raised = 0.0
        self.threads: set[threading.Thread] = set()

    def __call__(self, progress: Progress) -> None:
        self.threads.add(threading.current_thread())
        if self.when(progress):
            self.raised = time.monotonic()
            raise self.error


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", PIECE)


@pytest.fixture
def served(llama_copy: Path, hub: FakeHub) -> Path:
    hub.repositories = {"us/target": llama_copy / "target", "us/draft": llama_copy / "draft"}
    return llama_copy


def load_from_hub(folder: Path, on_progress: Callable[[Progress], None] | None = None) -> Pair:
    return load(folder, target="us/target", draft="us/draft", progress=on_progress)


def weights_size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("*.safetensors"))


def some_bytes(progress: Progress) -> bool:
    return (progress.done_bytes or 0) > 0


def ended_within(seconds: float) -> bool:
    """Whether the download's threads end in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not any(thread.name.startswith("hub") for thread in threading.enumerate()):
            return True
        time.sleep(0.02)
    return False


def test_downloaded_bytes_rise_to_the_total(served: Path, hub: FakeHub) -> None:
    size = weights_size(served / "target")
    hub.pace = 1.5 / (size / PIECE)
    reports: list[tuple[float, Progress]] = []

    def note(progress: Progress) -> None:
        reports.append((time.monotonic(), progress))
        if progress.text.startswith("downloading us/draft"):
            hub.pace = 0.0  # its bytes are not looked at

    load_from_hub(served, note)
    words = [(at, each) for at, each in reports if each.text.startswith("downloading us/target")]
    done = [each.done_bytes or 0 for _, each in words]
    assert {each.total_bytes for _, each in words} == {size}
    assert {each.activity for _, each in words} == {"downloading"}
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, size)
    assert len(set(done)) >= 4
    assert len(words) <= 3 + 4 * (words[-1][0] - words[0][0])
    assert words[-1][1].text == f"downloading us/target: 100 % of {SIZE.shown(size)}"


@pytest.mark.parametrize(
    "error",
    [
        EnoughError("stop"),
        pytest.param(ConnectionResetError("the pipe is gone"), marks=pytest.mark.thorough),
        pytest.param(KeyboardInterrupt(), marks=pytest.mark.thorough),
    ],
)
def test_an_exception_of_the_callback_stops_the_download(
    served: Path, hub: FakeHub, error: BaseException
) -> None:
    hub.pace = 12 / (weights_size(served / "target") / PIECE)
    stopper = Stopper(error, some_bytes)
    with pytest.raises(type(error)) as caught:
        load_from_hub(served, stopper)
    assert caught.value is error
    assert time.monotonic() - stopper.raised < PROMPTLY
    assert ended_within(PROMPTLY)
    assert stopper.threads == {threading.current_thread()}
    hub.pace = 0
    assert load_from_hub(served).name == "us/target + us/draft"


def test_whole_files_are_not_fetched_again(served: Path, hub: FakeHub) -> None:
    target = served / "target"
    model = hf.AutoModelForCausalLM.from_pretrained(target)
    (target / "model.safetensors").unlink()
    model.save_pretrained(target, max_shard_size="50KB")
    shards = sorted(file.name for file in target.glob("*.safetensors"))
    assert len(shards) > 2
    hub.held = {shards[-1]}
    rest = weights_size(target) - (target / shards[-1]).stat().st_size
    stopper = Stopper(EnoughError(), lambda each: (each.done_bytes or 0) > rest)
    with pytest.raises(EnoughError):
        load_from_hub(served, stopper)
    assert time.monotonic() - stopper.raised < STALLED  # the network hangs: do not wait for it
    hub.release.set()
    assert ended_within(PROMPTLY)
    hub.sent.clear()
    reports: list[Progress] = []
    load_from_hub(served, reports.append)
    assert [name for name in hub.sent if name in shards] == shards[-1:]
    last = (target / shards[-1]).stat().st_size
    totals = {each.total_bytes for each in reports if each.text.startswith("downloading us/target")}
    assert totals == {last}


def test_local_weights_are_not_requested(served: Path, hub: FakeHub) -> None:
    load_from_hub(served)
    hub.sent.clear()
    reports: list[Progress] = []
    load_from_hub(served, reports.append)
    assert hub.sent == []
    assert {each.activity for each in reports} == {"looking", "compiling", "loading"}


def test_a_download_from_a_xet_store_can_be_stopped(served: Path, hub: FakeHub) -> None:
    hub.xet = True
    for _ in range(2):  # the store is queried again after a stop
        hub.xet_asked.clear()
        stopper = Stopper(EnoughError(), lambda _: hub.xet_asked.is_set())
        with pytest.raises(EnoughError):
            load_from_hub(served, stopper)
        assert time.monotonic() - stopper.raised < PROMPTLY
        assert ended_within(PROMPTLY)
    assert "model.safetensors" not in hub.sent


@pytest.mark.parametrize("stage", ["looking", "loading"])
def test_an_exception_of_the_callback_stops_any_stage(
    served: Path, hub: FakeHub, stage: str
) -> None:
    error = EnoughError()
    with pytest.raises(EnoughError) as caught:
        load_from_hub(served, Stopper(error, lambda each: each.activity == stage))
    assert caught.value is error
