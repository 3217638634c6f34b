"""Interfaces of lanes that play whole rounds on the device; implemented in ``engine/graphed/``.

The decoding loop, the target alone and the step costs use only these names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from specviz.engine.decoding.judging import Verdicts
from specviz.engine.decoding.recording import CandidateRecord
from specviz.record.run_config import RunConfig
from specviz.record.trace import Prefill, RoundTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedRound:
    """A round played on the device, as host values; the end of the text is not considered."""

    uniforms: np.ndarray  # of the round
    overruled: dict[int, float]  # the seed's draws that forks replaced, by position
    verdicts: Verdicts
    records: list[CandidateRecord]  # empty with the record off
    times: RoundTimes
    catch_up: int


class RoundLane(Protocol):
    """The rounds of one run. The device may be one round ahead of the host."""

    prefill: Prefill

    def collect(self, room: int) -> PlayedRound:
        """Return the oldest uncollected round, and start the next one.

        ``room``: tokens that still fit in the text. Candidates beyond it are left out.
        """
        ...

    def set_position(self, length: int, index: int) -> None:
        """Return to the state before this round, with so many tokens in the text."""
        ...


class TargetLane(Protocol):
    """The target alone, with its cache."""

    prefill: float  # seconds of reading the prompt

    @property
    def length(self) -> int:
        """Tokens held in the cache."""
        ...

    def read(self, token_ids: Sequence[int]) -> None:
        """Append to the context without a draw."""
        ...

    def next_token(self, last: int, index: int) -> int:
        """Return the token after the text, whose ``last`` token is not in the cache yet.

        Call it for consecutive positions; the device may run ahead of the caller.
        """
        ...

    def timed(self, token_ids: Sequence[int], index: int) -> tuple[float, ...]:
        """Feed these tokens in turn as if the target had emitted them.

        Returns:
            The seconds of each step, its draw included.
        """
        ...

    def forget(self, count: int) -> None: ...


class StepTimer(Protocol):
    """Times the steps of both models at one context length, as a run makes them."""

    @property
    def drafts(self) -> bool:
        """Whether there are draft phases to time."""
        ...

    @property
    def drafts_trees(self) -> bool: ...

    @property
    def readers(self) -> Sequence[Callable[[Sequence[int]], None]]:
        """Functions that append tokens to a model's context; feed all of them the same tokens."""
        ...

    def plain_step(self) -> float: ...

    def draft_phase(self, tokens: int, count: int) -> float:
        """Return the seconds of feeding ``tokens`` and drafting ``count``."""
        ...

    def verification(self, tokens: int) -> float: ...

    def tree_round(self) -> tuple[float, float]:
        """Return the seconds of drafting the run's tree and of verifying it."""
        ...


class DeviceLanes(Protocol):
    """The lanes of a loaded pair; their memory and graphs are reused from run to run."""

    def unsupported_reason(self, config: RunConfig) -> str:
        """Return why rounds of these settings cannot be played here; empty if they can."""
        ...

    def rounds(self, prompt_ids: Sequence[int], config: RunConfig, capacity: int) -> RoundLane:
        """Return a lane that has read the prompt up to its last token."""
        ...

    def target_lane(
        self, prompt_ids: Sequence[int], config: RunConfig, capacity: int
    ) -> TargetLane: ...

    def step_timer(self, token_ids: Sequence[int], config: RunConfig, context: int) -> StepTimer:
        """Return a timer at that context length; the tokens after it are the ones fed."""
        ...
