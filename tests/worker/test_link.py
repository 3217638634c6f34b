"""The parent's end alone, with another program in the process's place."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

import pytest

from specviz.worker.messages import Event
from specviz.worker.parent.link import Link

IN_MID_MESSAGE = """#!{python}
import os
import signal
import sys

os.write(int(sys.argv[-1]), (100).to_bytes(4, "big") + b"the first of a hundred bytes")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_killed_in_mid_message_it_has_ended_and_nothing_else_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "python"
    program.write_text(IN_MID_MESSAGE.format(python=sys.executable))
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
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
