"""The link to one worker process: it starts the process, exchanges messages and reports the exit.

The process is an ordinary child on an inherited socket. A multiprocessing child would import the
parent's main module, which may be Streamlit.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Event as Flag
from threading import Thread

from specviz.access.demo import refuse_in_demo
from specviz.folders import child_environment
from specviz.worker.messages import Event, PingSignal, Pong, Request, Signal

_SECONDS_TO_END = 5.0


class Link:
    """A worker process. A thread calls ``on_event`` for each event, then ``on_end`` once.

    ``on_end`` gets the exit code, or None if the process did not start. A second thread sends
    messages, so callers never block, even if a large prompt fills the socket's buffer. In demo
    mode, no process is started: creating a link raises SpecvizError.
    """

    def __init__(
        self,
        on_event: Callable[[Link, Event], None],
        on_end: Callable[[Link, int | None], None],
    ) -> None:
        refuse_in_demo("load models")
        self._on_event = on_event
        self._on_end = on_end
        self._ours, self._theirs = socket.socketpair()
        self._connection = Connection(os.dup(self._ours.fileno()))
        self._pings: dict[str, Flag] = {}
        self._to_send: SimpleQueue[Request | Signal | None] = SimpleQueue()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = Thread(target=self._run, name="worker link", daemon=True)
        self._sender = Thread(target=self._send_all, name="worker link sender", daemon=True)
        self._sender.start()
        self._thread.start()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def send(self, message: Request | Signal) -> None:
        """Queue a message and return at once; messages are sent in order.

        A message to a process that has just died is lost; ``on_end`` is called in any case.
        """
        self._to_send.put(message)

    def answers(self, seconds: float) -> bool:
        """Return whether the process answers a ping in time."""
        ping, answered = PingSignal(request_id=uuid.uuid4().hex), Flag()
        self._pings[ping.request_id] = answered
        self.send(ping)
        found = answered.wait(seconds)
        self._pings.pop(ping.request_id, None)
        return found

    def close(self) -> None:
        """End the process and wait for its end."""
        with suppress(OSError):
            self._ours.shutdown(socket.SHUT_RDWR)
        self._thread.join(2 * _SECONDS_TO_END)

    def _run(self) -> None:
        try:
            with self._theirs:
                self._process = _start(self._theirs.fileno())
            self._receive_all()
        except OSError as error:
            print(f"The worker process cannot be started: {error}", file=sys.stderr)  # noqa: T201
        finally:
            code = self._wait()
            with suppress(OSError):  # ends a pending send
                self._ours.shutdown(socket.SHUT_RDWR)
            self._to_send.put(None)
            self._sender.join()
            self._connection.close()
            self._ours.close()
            self._on_end(self, code)

    def _send_all(self) -> None:
        """Send queued messages until the link ends."""
        while (message := self._to_send.get()) is not None:
            with suppress(OSError):
                self._connection.send(message)

    def _receive_all(self) -> None:
        while True:
            try:
                event = self._connection.recv()
            except (EOFError, OSError):
                return  # the process ended, possibly in the middle of a message
            if isinstance(event, Pong):
                if (answered := self._pings.get(event.request_id)) is not None:
                    answered.set()
                continue
            self._on_event(self, event)

    def _wait(self) -> int | None:
        """Return the exit code; kill a process that closed its socket but does not end."""
        if self._process is None:
            return None
        try:
            return self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def _start(descriptor: int) -> subprocess.Popen[bytes]:
    """Start a process that can import specviz, but nothing from the current folder (-P)."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "specviz.worker", str(descriptor)],
        stdin=subprocess.DEVNULL,
        pass_fds=[descriptor],
        env=child_environment(),
    )
