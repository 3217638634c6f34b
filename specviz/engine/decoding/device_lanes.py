"""Interfaces of lanes and of step timers.

A lane decodes one text. A step timer measures single steps of both models.

``engine/graphed/`` implements all of them on the device. ``plain_decoding.py`` and
``step_timer.py`` also implement ``TargetLane`` and ``StepTimer`` with steps driven from the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from specviz.engine.decoding.judging import Verdicts
from specviz.engine.decoding.recording import CandidateRecord
from specviz.record.run_config import RunConfig
from specviz.record.trace import Prefill, RoundTimes
from specviz.values import Value


class PlayedRound(Value):
    """A round that the device decoded, with its values copied to the host.

    The round may contain tokens beyond the end of the text.
    """

    uniforms: np.ndarray  # [2 γ + 1], by slot
    overruled: dict[int, float]  # the seed's uniforms that forks replaced, by candidate position
    verdicts: Verdicts
    records: list[CandidateRecord]  # empty if the record is off
    times: RoundTimes
    catch_up: int


class RoundLane(Protocol):
    """Decodes one run on the device, round by round.

    The device may already decode the next round while the host reads a round.
    """

    prefill: Prefill

    def collect(self, room: int) -> PlayedRound:
        """Return the oldest round not collected yet; the device continues with later rounds.

        ``room``: the number of tokens that still fit in the text. Candidates that do not fit are
        left out.
        """
        ...

    def set_position(self, length: int, index: int) -> None:
        """Return to the state before round ``index``, when the text had ``length`` tokens."""
        ...


class TargetLane(Protocol):
    """Decodes one text with the target alone and keeps the target's cache."""

    prefill: float  # seconds of reading the prompt

    @property
    def length(self) -> int:
        """The number of tokens in the cache."""
        ...

    def read(self, token_ids: Sequence[int]) -> None:
        """Append tokens to the context without drawing a token."""
        ...

    def next_token(self, last: int, index: int) -> int:
        """Return the next token of the text.

        Call it for consecutive positions, because the device may already decode the next token.

        Args:
            last: the text's last token, which is not in the cache yet.
            index: position of the next token, counted from the end of the prompt.
        """
        ...

    def timed(self, token_ids: Sequence[int], index: int) -> tuple[float, ...]:
        """Feed these tokens one by one, as if the target had emitted them; time each step.

        Each step also samples a token, as in decoding, although the next token is given.

        Returns:
            The seconds of each step, including the sampling.
        """
        ...

    def forget(self, count: int) -> None: ...


class StepTimer(Protocol):
    """Times single steps of both models at one context length."""

    @property
    def drafts(self) -> bool:
        """Whether there are draft phases to time."""
        ...

    @property
    def drafts_trees(self) -> bool: ...

    @property
    def readers(self) -> Sequence[Callable[[Sequence[int]], None]]:
        """The functions that append tokens to the context, one for each cache.

        Call all functions with the same tokens.
        """
        ...

    def plain_step(self) -> float: ...

    def draft_phase(self, tokens: int, count: int) -> float:
        """Return the seconds of a draft phase.

        Its first step feeds ``tokens`` tokens; the phase drafts ``count`` candidates.
        """
        ...

    def verification(self, tokens: int) -> float: ...

    def tree_round(self) -> tuple[float, float]:
        """Return the seconds of drafting the run's tree and of verifying it."""
        ...


class DeviceLanes(Protocol):
    """Creates the objects that decode texts or time steps of a loaded pair on the device.

    New runs reuse the memory and the captured graphs of earlier runs.
    """

    def unsupported_reason(self, config: RunConfig) -> str:
        """Return why the device cannot decode with this configuration; empty if it can."""
        ...

    def rounds(self, prompt_ids: Sequence[int], config: RunConfig, capacity: int) -> RoundLane:
        """Return an object that decodes a run's rounds.

        The object has read all prompt tokens but the last.
        """
        ...

    def target_lane(
        self, prompt_ids: Sequence[int], config: RunConfig, capacity: int
    ) -> TargetLane: ...

    def step_timer(self, token_ids: Sequence[int], config: RunConfig, context: int) -> StepTimer:
        """Return a timer at this context length.

        ``token_ids``: the context, then the tokens that the timed steps feed.
        """
        ...
