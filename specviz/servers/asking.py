"""Ask an engine: an answer is an iterator of its rounds as they land.

A thread of its own reads what comes, so that a reader who is busy neither falsifies the times nor
makes pieces merge.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from queue import SimpleQueue
from threading import Lock, Thread

from specviz.errors import ServerError
from specviz.record.server_run import (
    ENGINES,
    ServerInfo,
    ServerRound,
    ServerSettings,
    ServerTrace,
)
from specviz.servers.address import SERVER_KEY, KeyName
from specviz.servers.connection import PATIENT, Connection, Limits
from specviz.servers.engines import engine_of
from specviz.servers.events import EventStream
from specviz.servers.pieces import Prompt, Reading, Request

_BROKE_OFF = "The engine ended the stream before the answer was done."


def ask(
    info: ServerInfo,
    prompt: Prompt,
    settings: ServerSettings,
    *,
    speculate: bool = True,
    allow_remote: bool = False,
    key: KeyName = SERVER_KEY,
    limits: Limits = PATIENT,
) -> Answer:
    """Without ``speculate`` an engine that can (``can_switch_off``) answers without drafts."""
    if not speculate:
        _check_switch(info)
    engine = engine_of(info)
    connection = Connection(info.address, key=key, allow_remote=allow_remote, limits=limits)
    reading = (engine.chat_reading if settings.chat else engine.reading)(info, settings)
    request = engine.request(info, prompt, settings)
    return Answer(info, prompt, settings, connection, request, reading)


class Answer(Iterator[ServerRound]):
    """One answer under way. Everything but ``__next__`` may be called from any thread.

    An engine that fails raises ``ServerError`` once, where the next round would have come; what
    came before stays in the trace.
    """

    def __init__(
        self,
        info: ServerInfo,
        prompt: Prompt,
        settings: ServerSettings,
        connection: Connection,
        request: Request,
        reading: Reading,
    ) -> None:
        self._info, self._prompt, self._settings = info, prompt, settings
        self._connection, self._request, self._reading = connection, request, reading
        self._lock = Lock()
        self._landed: SimpleQueue[ServerRound | ServerError | None] = SimpleQueue()
        self._error: ServerError | None = None
        self._over = False
        self._created = datetime.now(UTC).isoformat(timespec="seconds")
        self._began = time.perf_counter()
        Thread(target=self._read, name="answer", daemon=True).start()

    def __next__(self) -> ServerRound:
        if self._over:
            raise StopIteration
        landed = self._landed.get()
        if isinstance(landed, ServerRound):
            return landed
        self._over = True
        if landed is not None:
            raise landed
        raise StopIteration

    def stop(self) -> None:
        """Ends the answer at once: what came so far stays, its finish is ``stopped``."""
        self._connection.stop()
        self._landed.put(None)

    def trace(self) -> ServerTrace:
        """What came so far; when the answer is over, reconciled with what the engine told."""
        with self._lock:
            found = self._reading.outcome()
            error = self._error
        told = () if error is None else (str(error),)
        return ServerTrace(
            info=self._info,
            settings=self._settings,
            prompt=self._prompt if isinstance(self._prompt, str) else "",
            prompt_ids=() if isinstance(self._prompt, str) else self._prompt,
            prompt_tokens=found.prompt_tokens,
            rounds=found.rounds,
            grounds=found.grounds,
            text="".join(text for each in found.rounds for text in each.texts),
            finish=found.finish or "stopped",
            created=self._created,
            seconds=found.rounds[-1].at if found.rounds else 0.0,
            totals=found.totals,
            notices=(*found.notices, *told),
        )

    def _read(self) -> None:
        try:
            self._take_all()
        except ServerError as error:
            if not self._connection.stopped:
                self._fail(error)
        finally:
            with self._lock:
                held = self._reading.close()
            for each in held:
                self._landed.put(each)
            self._landed.put(self._error)

    def _take_all(self) -> None:
        lines = self._connection.lines(self._request.path, self._request.body)
        stream = EventStream(self._connection.address, lines)
        for event, at in stream:
            with self._lock:
                landed = self._reading.take(event, at - self._began)
            for each in landed:
                self._landed.put(each)
        with self._lock:
            finish = self._reading.outcome().finish
        if finish is None and not stream.done:
            raise ServerError(
                f"{self._connection.address}: {_BROKE_OFF}", remedy="Look into its log."
            )

    def _fail(self, error: ServerError) -> None:
        with self._lock:
            self._error = error


def _check_switch(info: ServerInfo) -> None:
    capabilities = info.capabilities
    if capabilities.speculates is not False and not capabilities.can_switch_off:
        raise ServerError(
            f"{ENGINES[info.engine]} cannot answer a single request without speculation.",
            remedy="Start it once more without a draft and give that address for the target alone.",
        )
