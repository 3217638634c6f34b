"""The record of a load sweep: serving engines measured with many requests in flight.

A lane is one way to serve the target: with speculation at some γ, or alone. A block is the time
during which one lane is under one level of load: a number of users (closed loop) or of requests per
second (open loop). All times are seconds since the block began. The number of accepted candidates
comes only from the engine's own counters: under load, several rounds may arrive in one chunk, so
chunks cannot be counted as rounds.
"""

from __future__ import annotations

from typing import Literal

from specviz.record.server_run import Counters, ServerInfo
from specviz.record.trace import Finish
from specviz.values import Value

LoadMode = Literal["closed", "open"]
LaneKind = Literal["speculative", "alone"]
LEVEL_UNITS: dict[LoadMode, str] = {"closed": "users", "open": "requests/s"}


class LoadLane(Value):
    """One of the alternatives that a load sweep measures: speculation, or the target alone.

    ``gamma``: candidates per round, as given to the restart command. If there is no restart
    command, ``gamma`` is what the engine reports. ``switched_off``: whether each request turns
    speculation off. ``baseline``: whether requests are sent with the API key of the server that
    runs the target alone.
    """

    kind: LaneKind
    info: ServerInfo
    gamma: int | None = None
    switched_off: bool = False
    baseline: bool = False

    @property
    def label(self) -> str:
        if self.kind == "alone":
            return "target alone"
        return "with speculation" if self.gamma is None else f"γ {self.gamma}"


class LoadSettings(Value):
    """The settings of a load sweep, the same for every engine and every level of load.

    ``levels``: the numbers of users, or of requests per second. ``ramp``: seconds of load before
    the measured window, and again after it; throughput and latencies cover only the window.
    ``most_in_flight``: the maximum number of requests in flight in an open loop. ``numbered``:
    whether each prompt begins with a number that is new in every measurement, so that no prefix
    cache contains the prompt. Prompts get no numbers if all engines can turn their prefix cache
    off for a request.
    """

    mode: LoadMode = "closed"
    levels: tuple[float, ...]
    seconds: float = 10.0  # of a window
    ramp: float = 2.0
    budget: float = 600.0  # seconds of the whole sweep, restarts included
    max_new_tokens: int = 64
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    chat: bool = False
    ignore_eos: bool = True
    most_in_flight: int = 256
    most_requests: int = 10_000  # of the whole sweep, which ends when they are sent
    request_limit: float = 120.0  # seconds; a request that takes longer is a failure
    numbered: bool = True
    suite: str = ""  # the name of the suite
    prompts: int = 0  # the number of its prompts


class LoadRequest(Value):
    """One request of a load sweep.

    ``scheduled`` is the time at which the request was due. In an open loop, latencies begin at this
    time. Chunk i arrived at ``arrivals[i]`` with ``chunk_tokens[i]`` tokens. ``divided``: whether
    the engine reports only the total number of tokens, which is divided among the chunks.
    ``failure`` is one line of text, empty if the request succeeded.
    """

    number: int
    user: int | None = None  # None in an open loop
    prompt: int  # its index in the suite
    scheduled: float
    sent: float
    ended: float
    arrivals: tuple[float, ...] = ()
    chunk_tokens: tuple[float, ...] = ()
    divided: bool = False
    tokens: int = 0
    prompt_tokens: int | None = None
    finish: Finish | None = None
    failure: str = ""

    @property
    def first(self) -> float | None:
        """The time at which the first chunk arrived; None without chunks."""
        return self.arrivals[0] if self.arrivals else None

    @property
    def last(self) -> float | None:
        return self.arrivals[-1] if self.arrivals else None

    @property
    def failed(self) -> bool:
        return bool(self.failure)


class EngineGauges(Value):
    """Values that an engine reports about its state at one moment; unreported values are None.

    ``preemptions``, ``prefix_hits`` and ``prefix_queries`` are counts since the engine's start.
    """

    at: float  # seconds from the block's begin
    kv_use: float | None = None  # share of the KV cache in use
    running: float | None = None  # requests
    waiting: float | None = None
    preemptions: float | None = None
    prefix_hits: float | None = None  # tokens
    prefix_queries: float | None = None
    prompt_tokens: float | None = None  # read in prefill since the engine's start


class LoadBlock(Value):
    """The measurement of one engine, with or without speculation, under one level of load.

    ``lane`` is the engine's index in ``LoadSweep.lanes``. ``begin`` and ``end`` bound the measured
    window. With a restart command, the sweep starts engines several times, and ``start`` is the
    index of the start that served this block. Otherwise ``start`` is 0. ``repetition`` is the index
    of the sweep's repetition.
    Under each load, the lanes are measured in turn, then in reverse order (A B B A); ``unit`` is
    the index of this series, counted from 0 after each start. ``restarted``: whether the engine
    restarted by itself during the block.
    """

    lane: int
    level: float
    start: int = 0
    repetition: int = 0
    unit: int = 0
    begin: float
    end: float
    seconds: float  # until the last request had ended
    requests: tuple[LoadRequest, ...]
    before: Counters | None = None
    after: Counters | None = None
    gauges: tuple[EngineGauges, ...] = ()
    restarted: bool = False
    unsent: int = 0  # requests of an open loop that were due, with the most already in flight
    client_cores: float | None = None  # CPU seconds of this process per second
    started: str = ""  # date and time
    notices: tuple[str, ...] = ()


class LoadSweep(Value):
    """A load sweep, complete or in progress: engines measured at several levels of load.

    ``id`` identifies the sweep in the data folder. ``starts``: how often the sweep started an
    engine; 0 without a restart command. ``shared_cores``: the number of cores that an engine on
    this machine shares with the client; None if no engine runs on this machine.
    """

    id: str
    created: str
    lanes: tuple[LoadLane, ...]
    settings: LoadSettings
    blocks: tuple[LoadBlock, ...] = ()
    starts: int = 0
    planned_units: int = 0  # A B B A units of each level and start, 0 before the pilot's end
    shared_cores: int | None = None
    complete: bool = False
    notices: tuple[str, ...] = ()
