"""The pair as the dashboard sees it: none, loading, ready, or failed with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from specviz.errors import SpecvizError
from specviz.record.pairs import PairCheck, PairSpec, Progress

PairState = Literal["none", "loading", "ready", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairStatus:
    """``spec`` is the pair that is there, being loaded, or that failed.

    ``preparing`` holds while a pair is loaded or let go, or will be before anything else;
    ``progress`` tells what takes the time just now, in any state; ``check`` is the last check,
    if it was of this pair.
    """

    state: PairState = "none"
    spec: PairSpec | None = None
    preparing: bool = False
    progress: Progress | None = None
    error: SpecvizError | None = None
    memory_bytes: int | None = None
    has_chat: bool = False
    check: PairCheck | None = None
