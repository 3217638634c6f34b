"""Send a prompt to an engine, and iterate over the rounds of its answer as they arrive.

A separate thread reads the stream, so a slow consumer neither distorts the arrival times nor causes
chunks to merge. Every failure in that thread, even an unexpected one, reaches the iterator.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
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
from specviz.servers.failures import other_engine, unreadable
from specviz.servers.pieces import Outcome, Prompt, Reading, Request

_BROKE_OFF = "The engine ended the stream before the answer was complete."
_SECONDS_A_TOKEN = 2.0  # added to a request's time limit for each token


def ask(
    info: ServerInfo,
    prompt: Prompt,
    settings: ServerSettings,
    *,
    speculate: bool = True,
    allow_remote: bool = False,
    key: KeyName = SERVER_KEY,
    limits: Limits | None = None,
    cache_salt: str | None = None,
) -> Answer:
    """Send the prompt to the engine and return the answer in progress.

    Args:
        cache_salt: If given, the request shares no prefix cache with requests that have another
            salt. Some engines ignore the salt.
        speculate: If False, request decoding without speculation. Raises ServerError if the engine
            may speculate and cannot turn speculation off for a request.
    """
    if not speculate:
        _check_switch(info)
    engine = engine_of(info)
    limits = limits or _limits_for(settings)
    connection = Connection(info.address, key=key, allow_remote=allow_remote, limits=limits)
    make_reading = (settings.chat and engine.chat_reading) or engine.reading
    reading = make_reading(info, settings)
    request = engine.adapter.request(info, prompt, settings)
    if cache_salt is not None and engine.uncached is not None:
        request = replace(request, body={**request.body, **engine.uncached(cache_salt)})
    return Answer(info, prompt, settings, connection, request, reading)


class Answer(Iterator[ServerRound]):
    """An answer in progress. All methods except ``__next__`` may be called from any thread.

    On a failure, ``__next__`` raises ``ServerError`` once; earlier rounds remain in the trace.
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
        self._received: SimpleQueue[ServerRound | ServerError | None] = SimpleQueue()
        self._error: ServerError | None = None
        self._over = self._read_all = False
        self._waiting: list[ServerRound] = []  # held back, because they may contain part of the key
        self._created = datetime.now(UTC).isoformat(timespec="seconds")
        self._began = time.perf_counter()
        Thread(target=self._read, name="answer", daemon=True).start()

    def __next__(self) -> ServerRound:
        if self._over:
            raise StopIteration
        received = self._received.get()
        if isinstance(received, ServerRound):
            return received
        self._over = True
        if received is not None:
            raise received
        raise StopIteration

    def stop(self) -> None:
        """End the answer at once. Earlier rounds remain; the trace's finish is ``stopped``."""
        self._connection.stop()
        self._received.put(None)

    def trace(self) -> ServerTrace:
        """Return the trace so far, checked against the totals that the engine has reported."""
        over, found = self._read_all, self._outcome()
        error = self._error
        rounds = self._connection.remover.from_rounds(found.rounds, over=over)
        failure = () if error is None else (str(error),)
        return ServerTrace(
            info=self._info,
            settings=self._settings,
            prompt=self._prompt if isinstance(self._prompt, str) else "",
            prompt_ids=() if isinstance(self._prompt, str) else self._prompt,
            prompt_tokens=found.prompt_tokens,
            rounds=rounds,
            grounds=found.grounds,
            text="".join(text for each in rounds for text in each.texts),
            finish="stopped" if error is not None else found.finish or "stopped",
            created=self._created,
            seconds=rounds[-1].at if rounds else 0.0,
            totals=found.totals,
            notices=(*found.notices, *failure),
        )

    def _read(self) -> None:
        try:
            self._take_all()
            with self._lock:
                rest = self._reading.close()
            self._deliver(rest, over=True)
            self._outcome()  # so that a failure is raised before the answer ends
        except ServerError as error:
            if not self._connection.stopped:
                self._error = self._error or self._explained(error)
        except Exception as error:  # the iterator must end whatever an engine sends
            self._error = unreadable(self._connection.address, error)
        finally:
            self._end()

    def _explained(self, error: ServerError) -> ServerError:
        known = self._info.engine != "openai"
        if known and self._connection.lacks_page:
            return other_engine(error, self._info.title)
        return error

    def _outcome(self) -> Outcome:
        """Return the outcome so far.

        If the adapter fails to compute the outcome, store the error and return an empty outcome.
        """
        with self._lock:
            try:
                return self._reading.outcome()
            except Exception as error:
                self._error = self._error or unreadable(self._connection.address, error)
                return Outcome(rounds=(), grounds="none")

    def _end(self) -> None:
        """Deliver the remaining rounds of an interrupted answer, then the error or the end mark."""
        with suppress(Exception), self._lock:
            self._deliver(self._reading.close(), over=True)
        self._read_all = True
        self._received.put(self._error)

    def _take_all(self) -> None:
        lines = self._connection.lines(self._request.path, self._request.body)
        stream = EventStream(self._connection, lines)
        for event, at in stream:
            with self._lock:
                rounds = self._reading.take(event, at - self._began)
            self._deliver(rounds, over=False)
        found = self._outcome()
        if found.finish is None and not (stream.done and found.rounds):
            raise ServerError(
                f"{self._connection.address}: {_BROKE_OFF}", remedy="Check the engine's log."
            )

    def _deliver(self, rounds: Sequence[ServerRound], *, over: bool) -> None:
        self._waiting += rounds
        ready = self._connection.remover.from_rounds(self._waiting, over=over)
        del self._waiting[: len(ready)]
        for each in ready:
            self._received.put(each)


def _limits_for(settings: ServerSettings) -> Limits:
    return replace(PATIENT, total=PATIENT.total + _SECONDS_A_TOKEN * settings.max_new_tokens)


def _check_switch(info: ServerInfo) -> None:
    capabilities = info.capabilities
    if capabilities.speculates is not False and not capabilities.can_switch_off:
        raise ServerError(
            f"{ENGINES[info.engine]} cannot turn speculation off for a single request.",
            remedy="Start a second engine without a draft; give its address as the target alone.",
        )
