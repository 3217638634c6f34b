"""What engines count of everything that they serve, and the rates between two moments."""

from __future__ import annotations

from dataclasses import dataclass

from specviz.record.server_run import Counters, ServerInfo
from specviz.servers.connection import SERVER_KEY, KeyName


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Between two moments. None where the engine does not count it, or counted nothing."""

    seconds: float
    alpha_by_position: tuple[float | None, ...] = ()
    accepted_length: float | None = None  # tokens a round, the bonus or recovered one included
    draft_acceptance_rate: float | None = None  # accepted / drafted
    drafted_per_second: float | None = None
    accepted_per_second: float | None = None
    generated_per_second: float | None = None


def read_counters(
    info: ServerInfo, *, allow_remote: bool = False, key: KeyName = SERVER_KEY
) -> Counters:
    """From the engine's /metrics."""
    raise NotImplementedError


def counters_of_dump(text: str) -> Counters:
    """Of a saved /metrics."""
    raise NotImplementedError


def counters_of_log(text: str) -> tuple[Counters, ...]:
    """Of vLLM's log lines "SpecDecoding metrics: ...", each added to those before it."""
    raise NotImplementedError


def rates(before: Counters, after: Counters) -> Rates | None:
    """None if a counter went back: the engine was started anew in between."""
    raise NotImplementedError
