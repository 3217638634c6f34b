"""The worker's end of the link to the dashboard: an inbox with a thread, and an outbox.

When the dashboard dies or closes the link, the worker process ends at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Lock, Thread

from specviz.worker.child.interrupts import TaskInterrupts
from specviz.worker.messages import Event, PingSignal, Pong, Request, Signal, StopSignal


class Inbox:
    """A queue of requests; a thread receives the requests and records stop and cancel signals.

    The thread answers pings with ``send``.
    """

    def __init__(
        self, connection: Connection, interrupts: TaskInterrupts, send: Callable[[Pong], None]
    ) -> None:
        self._connection = connection
        self._send = send
        self._interrupts = interrupts
        self._requests: SimpleQueue[Request] = SimpleQueue()
        self._stopped: set[str] = set()
        self._cancelled: set[str] = set()
        Thread(target=self._listen, name="inbox", daemon=True).start()

    def take(self) -> Request:
        """Wait for the next request and return it."""
        return self._requests.get()

    def waiting(self) -> bool:
        return not self._requests.empty()

    def stopped(self, request_id: str) -> bool:
        return request_id in self._stopped

    def cancelled(self, request_id: str) -> bool:
        return request_id in self._cancelled

    def forget(self, request_id: str) -> None:
        self._stopped.discard(request_id)
        self._cancelled.discard(request_id)

    def _listen(self) -> None:
        try:
            while True:
                self._sort(self._connection.recv())
                self._interrupts.poke()
        except (EOFError, OSError):
            os._exit(0)

    def _sort(self, message: Request | Signal) -> None:
        match message:
            case Request():
                self._requests.put(message)
            case StopSignal():
                self._stopped.add(message.request_id)
            case PingSignal():
                self._send(Pong(request_id=message.request_id))
            case _:
                self._cancelled.add(message.request_id)


class Outbox:
    """A sender of events; any thread (for example, of a download) may call ``send``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = Lock()

    def send(self, event: Event | Pong) -> None:
        try:
            with self._lock:
                self._connection.send(event)
        except OSError:
            os._exit(0)
