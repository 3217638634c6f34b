"""Downloads from the Hugging Face Hub, with progress and cancellation.

The Hub client downloads in its own threads. Only the caller's thread calls ``on_progress``, four
times a second; an exception that ``on_progress`` raises stops the download and propagates. Finished
files stay in the cache.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from threading import Event
from typing import Any, ClassVar
from weakref import WeakSet

import httpx2
from huggingface_hub import errors, snapshot_download
from huggingface_hub.file_download import DryRunFileInfo
from huggingface_hub.utils._xet import abort_xet_session  # there is no public way to stop Xet
from tqdm.asyncio import tqdm_asyncio

from specviz.errors import PairError
from specviz.record.numbers import SIZE
from specviz.record.pairs import Progress, ProgressCallback

_SMALL_FILES = ("*.json", "*.model", "*.jinja", "*.txt", "*.tiktoken")
_WEIGHT_FILES = ("model.safetensors", "model-*-of-*.safetensors")
_TICK = 0.25  # seconds between progress reports
_PATIENCE = 2.0  # seconds for the threads of a stopped download to end

_MakeProgress = Callable[[int], Progress]  # takes the bytes received


def fetch_small_files(hub_id: str, on_progress: ProgressCallback) -> Path:
    """Download configuration and tokenizer; return the cache folder, whose name is the commit."""
    make_progress = _lookup_progress(hub_id)
    return Path(_watch(hub_id, make_progress, on_progress, allow_patterns=[*_SMALL_FILES]))


def list_weights(
    hub_id: str, commit: str, on_progress: ProgressCallback, names: Sequence[str] = _WEIGHT_FILES
) -> list[DryRunFileInfo]:
    """Return the files of this commit whose names match ``names``; download none."""
    return _watch(
        hub_id,
        _lookup_progress(hub_id),
        on_progress,
        revision=commit,
        allow_patterns=[*names],
        dry_run=True,
    )


def fetch_weights(
    hub_id: str,
    commit: str,
    total: int,
    on_progress: ProgressCallback,
    names: Sequence[str] = _WEIGHT_FILES,
) -> None:
    """Download the weights of this commit.

    ``total``: how many bytes of the weights are not in the cache yet.
    """
    make_progress = _download_progress(hub_id, total)
    _watch(hub_id, make_progress, on_progress, revision=commit, allow_patterns=[*names])
    on_progress(make_progress(total))


def _lookup_progress(hub_id: str) -> _MakeProgress:
    progress = Progress(activity="looking", text=f"looking up {hub_id} on the Hub")
    return lambda _received: progress


def _download_progress(hub_id: str, total: int) -> _MakeProgress:
    def make_progress(received: int) -> Progress:
        done = min(received, total)
        percent = 10 * (10 * done // max(total, 1))
        text = f"downloading {hub_id}: {percent} % of {SIZE.shown(total)}"
        return Progress(activity="downloading", text=text, done_bytes=done, total_bytes=total)

    return make_progress


def _watch(
    hub_id: str, make_progress: _MakeProgress, on_progress: ProgressCallback, **what: Any
) -> Any:
    """Run ``snapshot_download`` in a thread and report its progress."""
    meter = _Meter()
    executor = ThreadPoolExecutor(1, thread_name_prefix="hub")
    task = executor.submit(_snapshot, hub_id, meter, what)
    executor.shutdown(wait=False)
    try:
        on_progress(make_progress(0))
        while not wait([task], _TICK).done:
            on_progress(make_progress(meter.received()))
    except BaseException:
        _stop(task, meter)
        raise
    with _hub_errors(hub_id):
        return task.result()


def _snapshot(hub_id: str, meter: _Meter, what: dict[str, Any]) -> Any:
    return snapshot_download(hub_id, ignore_patterns=["*/*"], tqdm_class=meter.bar_class(), **what)


def _stop(task: Future[Any], meter: _Meter) -> None:
    """Stop the download, and wait up to 2 s for its thread.

    If the thread waits for the network, it may end later.
    """
    meter.stopped.set()
    deadline = time.monotonic() + _PATIENCE
    while not task.done() and time.monotonic() < deadline:
        abort_xet_session()  # repeatedly, since a thread may begin its download only now
        wait([task], 0.1)


class _StoppedError(Exception):
    """Raised in the Hub client's threads to end them."""


class _Meter:
    """Invisible progress bars that count bytes and raise once ``stopped`` is set."""

    def __init__(self) -> None:
        self.stopped = Event()
        self._bars: list[tqdm_asyncio] = []
        self._most = 0

    def received(self) -> int:
        """Return the number of bytes received or written: the highest number on any bar so far."""
        self._most = max([self._most, *(int(bar.n) for bar in self._bars)])
        return self._most

    def bar_class(self) -> type[tqdm_asyncio]:
        meter = self

        class Bar(tqdm_asyncio):
            monitor_interval = 0  # start no monitor thread
            _instances: ClassVar[WeakSet[Any]] = WeakSet()  # hidden from other bars' monitor thread

            def __init__(self, *args: Any, **settings: Any) -> None:
                super().__init__(*args, **(settings | {"file": StringIO()}))
                if self.unit == "B":
                    meter._bars.append(self)

            def update(self, n: float | None = 1) -> bool | None:
                meter._go_on()
                return super().update(n)

            def refresh(self, *args: Any, **settings: Any) -> None:
                meter._go_on()  # the client refreshes a bar before each file
                super().refresh(*args, **settings)

        return Bar

    def _go_on(self) -> None:
        if self.stopped.is_set():
            raise _StoppedError


@contextmanager
def _hub_errors(hub_id: str) -> Iterator[None]:
    try:
        yield
    except errors.HFValidationError:
        raise PairError(
            f"{hub_id!r} is neither a folder nor a Hub id.", remedy="Check the spelling."
        ) from None
    except errors.GatedRepoError as error:  # before its parent, RepositoryNotFoundError
        raise PairError(
            f"{hub_id} is gated on the Hub.",
            remedy="Request access on the Hub, then log in with `hf auth login` or set HF_TOKEN.",
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise PairError(
            f"The Hub has no model {hub_id}, or it is private.",
            remedy="Check the spelling; for a private model log in with `hf auth login`.",
        ) from error
    except (
        errors.LocalEntryNotFoundError,
        errors.OfflineModeIsEnabled,
        errors.DryRunError,
    ) as error:
        raise PairError(
            f"{hub_id} is not in the local cache and the Hub cannot be reached.",
            remedy="Connect to the network, or give a local folder.",
        ) from error
    except (errors.HfHubHTTPError, httpx2.HTTPError, ConnectionError, TimeoutError) as error:
        raise PairError(
            f"The Hub failed to send {hub_id} ({type(error).__name__}).",
            remedy="Try again later, or give a local folder.",
        ) from error
    except OSError as error:
        raise PairError(
            f"{hub_id} could not be stored in the Hub cache ({error.strerror or error}).",
            remedy="Free some disk space, or set HF_HOME to another folder.",
        ) from error
