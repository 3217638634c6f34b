"""Exclusive cores: one process at a time, pinned for all threads, released at its end."""

from __future__ import annotations

import os
import subprocess
import sys
from threading import Event, Thread

import pytest

from specviz.cluster import cores
from specviz.cluster.cores import Cores
from specviz.errors import DeviceError

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="exclusive cores need Linux"
)

HOLDER = (
    "import sys, threading; from specviz.cluster.cores import Cores; "
    "event = threading.Event(); threading.Thread(target=event.wait, daemon=True).start(); "
    "held = Cores(1); print(*held.numbers, held.hold, flush=True); sys.stdin.read()"
)


def holder() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def printed(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    return process.stdout.readline().split()


def test_processes_have_different_cores_and_a_kill_releases_them() -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is one core only")
    first, second = holder(), holder()
    (one, holds), (other, holds_too) = printed(first), printed(second)
    assert (holds, holds_too) == ("True", "True")
    assert one != other
    first.kill()
    first.wait()
    third = holder()
    assert printed(third)[0] == one
    for process in (second, third):
        process.kill()
        process.communicate()


def test_more_cores_than_are_free_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "_PATIENCE", 0.0)
    with pytest.raises(DeviceError, match="cores free"):
        Cores(10_000)
    taken = cores._lock(9_999)
    assert taken is not None
    with pytest.raises(DeviceError, match="other devices use the rest"):
        Cores(1, among=[9_999])
    taken.close()


def test_a_thread_on_another_core_is_detected() -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is one core only")
    before, leave = os.sched_getaffinity(0), Event()
    held = Cores(1)
    thread = Thread(target=leave.wait)
    thread.start()
    try:
        assert held.hold
        assert thread.native_id is not None
        os.sched_setaffinity(thread.native_id, before)
        assert not held.hold
    finally:
        leave.set()
        thread.join()
        held.release()
        for each in cores._threads():
            os.sched_setaffinity(each, before)
