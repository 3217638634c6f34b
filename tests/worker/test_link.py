"""The link with other programs instead of the worker process."""

from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig
from specviz.worker.messages import Event, RunRequest
from specviz.worker.parent.link import Link

pytestmark = pytest.mark.usefixtures("real_start")

IN_MID_MESSAGE = """#!{python}
import os
import signal
import sys

os.write(int(sys.argv[-1]), (100).to_bytes(4, "big") + b"the first of a hundred bytes")
os.kill(os.getpid(), signal.SIGKILL)
"""


NEVER_READS = """#!{python}
import time

time.sleep(600)
"""


def put_in_its_place(program: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program.write_text(text.format(python=sys.executable))
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))


def test_killed_during_a_message_reports_only_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put_in_its_place(tmp_path / "python", IN_MID_MESSAGE, monkeypatch)
    events: list[Event] = []
    codes: list[int | None] = []
    over = threading.Event()

    def on_end(_link: Link, code: int | None) -> None:
        codes.append(code)
        over.set()

    Link(lambda _link, event: events.append(event), on_end)
    assert over.wait(60)
    assert (events, codes) == ([], [-signal.SIGKILL])
    assert capsys.readouterr().err == ""


def test_send_does_not_wait_for_the_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_in_its_place(tmp_path / "python", NEVER_READS, monkeypatch)
    monkeypatch.setattr("specviz.worker.parent.link._SECONDS_TO_END", 0.5)
    codes: list[int | None] = []
    link = Link(lambda _link, _event: None, lambda _link, code: codes.append(code))
    request = RunRequest(
        id="1", spec=PairSpec(), prompt="a" * 2**21, config=RunConfig(), baseline=False, kind=None
    )

    def send() -> None:
        for _ in range(4):
            link.send(request)

    sending = threading.Thread(target=send, daemon=True)
    sending.start()
    sending.join(10)
    sent = not sending.is_alive()
    link.close()
    deadline = time.monotonic() + 10
    while not codes and time.monotonic() < deadline:
        time.sleep(0.05)
    assert sent
    assert codes == [-signal.SIGKILL]
