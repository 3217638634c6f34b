"""Send the requests of one block to an engine, in a closed or in an open loop.

A block is the measurement of one server at one level of load.

Closed: each user sends the next prompt when its last answer has ended. Open: requests are due at
the times of a Poisson process. If the maximum number of requests is in flight, a due request waits,
and its latency still counts from the time at which it was due. After a failed request, its user
pauses, so that an engine that refuses requests immediately is not flooded.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from random import Random
from threading import Event, Lock, Thread

from specviz.errors import ServerError
from specviz.load.live import RECENT, UserState
from specviz.load.prompts import PromptDealer
from specviz.load.requests import STOPPED, Due, carried_out
from specviz.measure.stoppable import StoppableWork
from specviz.record.load_run import EngineGauges, LoadBlock, LoadRequest, LoadSettings
from specviz.record.server_run import ServerRound
from specviz.servers.asking import Answer
from specviz.servers.gauges import GaugeReader

PAUSE = 1.0  # seconds after a failure
_EVERY = 1.0  # seconds between two readings of the gauges
_LATE = 10.0  # seconds that a thread may take beyond the time limit of a request

Ask = Callable[[str, int], Answer]  # the prompt and the number of the request


class _User:
    """In a closed loop, a user; in an open loop, a slot for one request in flight."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.state: UserState = "idle"


class LoadGenerator(StoppableWork):
    """Sends requests to one engine at one level of load.

    All methods may be called from any thread.

    Args:
        level: Number of users, or requests per second.
        gauges: Reads the engine's gauges every second; None if the engine reports no gauges.
        requests_left: Maximum number of requests; the block ends when they have been sent.
    """

    def __init__(
        self,
        ask: Ask,
        settings: LoadSettings,
        level: float,
        dealer: PromptDealer,
        *,
        gauges: GaugeReader | None = None,
        requests_left: int = 10**9,
        pause: float = PAUSE,
    ) -> None:
        super().__init__()
        self._ask, self._settings, self._level = ask, settings, level
        self._dealer, self._reader, self._pause = dealer, gauges, pause
        self._over = Event()  # set at the end of the block, and by ``stop``
        self._lock = Lock()
        self._left, self._dealt = requests_left, 0
        self._requests = list[LoadRequest]()
        self._gauges = list[EngineGauges]()
        self._answers = dict[int, Answer]()  # in flight, by the number of the request
        self._recent = deque[tuple[float, int]]()  # arrivals and their tokens
        self._users = list[_User]()
        self._began = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Return the planned seconds: window and ramps, without the wait for the last answers."""
        return 2 * self._settings.ramp + self._settings.seconds

    @property
    def elapsed(self) -> float:
        return time.perf_counter() - self._began

    @property
    def in_flight(self) -> int:
        return len(self._answers)

    @property
    def sent(self) -> int:
        return self._dealt

    @property
    def failures(self) -> int:
        with self._lock:
            return sum(each.failed for each in self._requests)

    @property
    def tokens_per_second(self) -> float:
        now = self.elapsed
        with self._lock:
            while self._recent and self._recent[0][0] < now - RECENT:
                self._recent.popleft()
            tokens = sum(each for _, each in self._recent)
        return tokens / min(max(now, 0.1), RECENT)

    @property
    def users(self) -> tuple[UserState, ...]:
        return tuple(each.state for each in tuple(self._users))

    def stop(self) -> None:
        """Cancel all requests immediately."""
        super().stop()
        self._over.set()
        with self._lock:
            answers = tuple(self._answers.values())
        for each in answers:
            each.stop()
        if self._reader is not None:
            self._reader.stop()

    def run(self) -> LoadBlock:
        """Send the requests and return the measurements; raises StoppedError after ``stop``."""
        self._check_stop()
        started, cpu = datetime.now(UTC).isoformat(timespec="seconds"), time.process_time()
        self._began = time.perf_counter()
        reading = Thread(target=self._read_gauges, name="gauges", daemon=True)
        reading.start()
        closed = self._settings.mode == "closed"
        unsent = self._run_closed() if closed else self._run_open()
        seconds = self.elapsed
        self._over.set()
        self._check_stop()
        ramp = self._settings.ramp
        with self._lock:
            return LoadBlock(
                lane=0,
                level=self._level,
                begin=ramp,
                end=ramp + self._settings.seconds,
                seconds=seconds,
                requests=tuple(sorted(self._requests, key=lambda each: each.number)),
                gauges=tuple(self._gauges),
                unsent=unsent,
                client_cores=(time.process_time() - cpu) / seconds,
                started=started,
            )

    def _run_closed(self) -> int:
        self._users = [_User(number) for number in range(round(self._level))]
        self._join([self._start(self._serve_user, each) for each in self._users])
        return 0

    def _serve_user(self, user: _User) -> None:
        while self.elapsed < self.seconds and not self._stopped:
            due = self._due(user.number, self.elapsed)
            if due is None:
                break
            request = self._send(user, due)
            if request.failed and not self._stopped:
                user.state = "pausing"
                self._over.wait(min(self._pause, max(0.0, self.seconds - self.elapsed)))
        user.state = "idle"

    def _run_open(self) -> int:
        waiting, threads = deque[float](), list[Thread]()
        for at in self._schedule():
            self._over.wait(max(0.0, at - self.elapsed))
            if self._stopped or self._dealt >= self._left:
                break
            with self._lock:
                waiting.append(at)
                idle = next((each for each in self._users if each.state == "idle"), None)
                if idle is None and len(self._users) < self._settings.most_in_flight:
                    self._users.append(idle := _User(len(self._users)))
                if idle is not None:
                    idle.state = "prefill"
            if idle is not None:
                threads.append(self._start(self._serve_waiting, idle, waiting))
        self._join(threads)
        return len(waiting)

    def _serve_waiting(self, user: _User, waiting: deque[float]) -> None:
        while True:
            with self._lock:
                if not waiting or self._stopped or self.elapsed > self.seconds + self._tail:
                    user.state = "idle"
                    return
                at = waiting.popleft()
            if (due := self._due(None, at)) is not None:
                self._send(user, due)

    @property
    def _tail(self) -> float:
        """Return for how many seconds after its end the schedule still sends waiting requests."""
        return self._settings.ramp

    def _schedule(self) -> list[float]:
        random, found, at = Random(self._settings.seed), list[float](), 0.0
        while (at := at + random.expovariate(self._level)) < self.seconds:
            found.append(at)
        return found

    def _start(self, target: Callable[..., None], *arguments: object) -> Thread:
        thread = Thread(target=target, args=arguments, name="load", daemon=True)
        thread.start()
        return thread

    def _join(self, threads: list[Thread]) -> None:
        """Wait for the last answers, at most until their time limits have passed."""
        until = self.seconds + self._tail + self._settings.request_limit + _LATE
        for each in threads:
            while each.is_alive() and not self._stopped and self.elapsed < until:
                each.join(0.1)

    def _due(self, user: int | None, at: float) -> Due | None:
        """Return the next request, due ``at`` seconds after the start of the measurement.

        Return None if the maximum number of requests was sent.
        """
        with self._lock:
            if self._dealt >= self._left:
                return None
            number, self._dealt = self._dealt, self._dealt + 1
        item, prompt = self._dealer.deal()
        return Due(number=number, user=user, item=item, prompt=prompt, scheduled=at)

    def _send(self, user: _User, due: Due) -> LoadRequest:
        user.state = "prefill"

        def begin(answer: Answer) -> None:
            with self._lock:
                self._answers[due.number] = answer
            if self._stopped:
                answer.stop()

        def take(each: ServerRound) -> None:
            user.state = "decoding"
            with self._lock:
                self._recent.append((self.elapsed, each.num_tokens or 1))

        request = carried_out(
            due, lambda: self._ask(due.prompt, due.number), begin=self._began, on_begin=begin,
            on_round=take,
        )  # fmt: skip
        with self._lock:
            self._answers.pop(due.number, None)
            if request.failure != STOPPED:
                self._requests.append(request)
        return request

    def _read_gauges(self) -> None:
        if self._reader is None or not self._reader.can_read:
            return
        for turn in count():
            if self._over.wait(max(0.0, turn * _EVERY - self.elapsed)):
                return
            with suppress(ServerError):
                self._gauges.append(self._reader.read(self.elapsed))
