"""The parent's end of one worker process: starts it, hears it, notices its end.

The process is a plain child on an inherited socket, not a multiprocessing one: those would
import the parent's main module, which here may be Streamlit.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread

from specviz import ROOT
from specviz.worker.messages import Event, Request, Signal

_SECONDS_TO_END = 5.0


class Link:
    """Calls back from a thread of its own: each event, and last of all the exit code.

    Another thread sends, so that nobody waits for a process that takes nothing: a large prompt
    does not fit into a socket that is not read.
    """

    def __init__(
        self,
        on_event: Callable[[Link, Event], None],
        on_end: Callable[[Link, int | None], None],
    ) -> None:
        self._on_event = on_event
        self._on_end = on_end
        self._ours, self._theirs = socket.socketpair()
        self._connection = Connection(os.dup(self._ours.fileno()))
        self._to_send: SimpleQueue[Request | Signal | None] = SimpleQueue()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = Thread(target=self._live, name="worker link", daemon=True)
        self._sender = Thread(target=self._send_all, name="worker link sender", daemon=True)
        self._sender.start()
        self._thread.start()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def send(self, message: Request | Signal) -> None:
        """After what was sent before, without waiting.

        To a process that has just died it goes nowhere: its end is told in any case.
        """
        self._to_send.put(message)

    def close(self) -> None:
        """End the process, and wait until it is gone."""
        with suppress(OSError):
            self._ours.shutdown(socket.SHUT_RDWR)
        self._thread.join(2 * _SECONDS_TO_END)

    def _live(self) -> None:
        try:
            with self._theirs:
                self._process = _start(self._theirs.fileno())
            self._hear()
        except OSError as error:
            print(f"The worker process cannot be started: {error}", file=sys.stderr)  # noqa: T201
        finally:
            code = self._wait()
            with suppress(OSError):  # a sending that is under way ends
                self._ours.shutdown(socket.SHUT_RDWR)
            self._to_send.put(None)
            self._sender.join()
            self._connection.close()
            self._ours.close()
            self._on_end(self, code)

    def _send_all(self) -> None:
        """In the order given, until the link ends."""
        while (message := self._to_send.get()) is not None:
            with suppress(OSError):
                self._connection.send(message)

    def _hear(self) -> None:
        while True:
            try:
                event = self._connection.recv()
            except (EOFError, OSError):
                return  # its end, perhaps in mid-message
            self._on_event(self, event)

    def _wait(self) -> int | None:
        """The exit code; a process that closed its pipe and lives on is killed."""
        if self._process is None:
            return None
        try:
            return self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def _start(descriptor: int) -> subprocess.Popen[bytes]:
    """Specviz is found from any folder; modules in the present folder are not (-P)."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "specviz.worker", str(descriptor)],
        stdin=subprocess.DEVNULL,
        pass_fds=[descriptor],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
    )
