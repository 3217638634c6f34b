"""Lanes that play on the device by themselves; who makes them stands in ``engine/graphed/``.

The loop, the target alone and the step costs speak to them through these few names.
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
    """What a round on the device came to, on the host; the text's end is not looked for."""

    uniforms: np.ndarray  # of the round
    overruled: dict[int, float]  # the seed's draws where forks put others, by place
    verdicts: Verdicts
    records: list[CandidateRecord]  # none with the record off
    times: RoundTimes
    catch_up: int


class RoundLane(Protocol):
    """Rounds of one run. The host may be one behind."""

    prefill: Prefill

    def collect(self, room: int) -> PlayedRound:
        """The oldest round that was not collected; the next one is under way then.

        ``room``: tokens that still fit in the text. Candidates beyond it are left out.
        """
        ...

    def state_at(self, length: int, index: int) -> None:
        """Go back to the moment before this round, when the text had so many tokens."""
        ...


class TargetLane(Protocol):
    """The target by itself, with its cache."""

    prefill: float  # seconds of reading the prompt

    @property
    def length(self) -> int:
        """Tokens held in the cache."""
        ...

    def read(self, token_ids: Sequence[int]) -> None:
        """Append to the context without a draw."""
        ...

    def next_token(self, last: int, index: int) -> int:
        """The token behind the text, whose last one is not in the cache yet. Called for one place
        after the other, it may be ahead of whoever calls."""
        ...

    def timed(self, token_ids: Sequence[int], index: int) -> tuple[float, ...]:
        """Feed these tokens in turn, as if the target had said them; the seconds of each step, its
        draw included."""
        ...

    def forget(self, count: int) -> None: ...


class StepTimer(Protocol):
    """Both models with caches of one length, whose steps are timed as a run makes them."""

    @property
    def drafts(self) -> bool:
        """Whether there are draft phases to be timed."""
        ...

    @property
    def grows_trees(self) -> bool: ...

    @property
    def readers(self) -> Sequence[Callable[[Sequence[int]], None]]:
        """What appends tokens to a context; all of them read the same."""
        ...

    def plain_step(self) -> float: ...

    def draft_phase(self, tokens: int, count: int) -> float:
        """``tokens`` are fed first; ``count`` are drafted."""
        ...

    def verification(self, tokens: int) -> float: ...

    def tree_round(self) -> tuple[float, float]:
        """Seconds of drafting the run's tree, and of verifying it."""
        ...


class DeviceLanes(Protocol):
    """The lanes of a loaded pair, whose memory and graphs are kept from run to run."""

    def why_not(self, config: RunConfig) -> str:
        """Why rounds of these settings cannot be played here, in words; empty where they can."""
        ...

    def rounds(self, prompt_ids: Sequence[int], config: RunConfig, capacity: int) -> RoundLane:
        """A lane that has read the prompt up to its last token."""
        ...

    def alone(self, prompt_ids: Sequence[int], config: RunConfig, capacity: int) -> TargetLane: ...

    def step_timer(self, token_ids: Sequence[int], config: RunConfig, context: int) -> StepTimer:
        """For contexts of that length; the tokens behind it are fed."""
        ...
