"""The range of every setting of a run, for checks, controls and help texts.

Runs and the command line use ``LIMITS``. The controls of the pages use ``CONTROLS``; pages that
compare several methods use ``COMPARED``.
"""

from __future__ import annotations

from dataclasses import dataclass

from specviz.errors import ConfigError

MAX_GAMMA = 64
MAX_DRAFTED = 1024  # candidates in one round of another engine
TIMING_SECONDS = 20.0  # time limit for timing the target alone along a run
COMPARED_TIMING_SECONDS = 5.0  # the same limit for each run of a comparison
TEXT_BUDGET, MAX_TEXT_BUDGET = 30, 3600  # seconds for further texts of a prompt in Tune


@dataclass(frozen=True, slots=True)
class Range:
    """A range with both ends included; for integer settings, both ends are whole numbers."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.low:,} to {self.high:,}"

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    @property
    def ends(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def whole_ends(self) -> tuple[int, int]:
        return int(self.low), int(self.high)

    def nearest(self, value: float) -> float:
        return min(self.high, max(self.low, value))


LIMITS = {
    "gamma": Range(1, MAX_GAMMA),
    "temperature": Range(0.0, 100.0),
    "top_k": Range(0, 10_000_000),  # more than any vocabulary
    "top_p": Range(0.0, 1.0),  # 0 is an error: it would leave no token
    "max_new_tokens": Range(1, 1_000_000),
    "seed": Range(0, 2**63 - 1),
    "epsilon": Range(0.0, 1.0),
    "num_drafts": Range(1, 16),
}
# A dynamic tree: its width (nodes expanded at each depth, and the most children of a node), and its
# candidates per round.
TREE_WIDTH = Range(2, 64)
TREE_CANDIDATES = Range(2, 1024)
TIMING = Range(0.0, 3600.0)  # seconds for timing
CONTROLS = LIMITS | {
    "gamma": Range(1, 16),
    "temperature": Range(0.0, 2.0),
    "top_p": Range(0.05, 1.0),
    "max_new_tokens": Range(8, 2000),
    "seed": Range(0, 2**31),
}
COMPARED = CONTROLS | {
    "max_new_tokens": Range(8, 512),  # the race of four lanes is readable up to this
}


def check_one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Raise ConfigError if ``value`` is not in ``allowed``; the message contains ``name``."""
    if value not in allowed:
        raise ConfigError(f"{name} is {value!r}.", remedy=f"Choose one of {', '.join(allowed)}.")
