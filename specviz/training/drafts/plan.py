"""The plan of a training (the draft and its texts), as plain values stored beside the result."""

from __future__ import annotations

from typing import Literal

from specviz.errors import ConfigError
from specviz.record.limits import check_one_of
from specviz.values import Value

DraftKind = Literal["eagle3", "medusa", "small"]
KINDS: tuple[DraftKind, ...] = ("eagle3", "medusa", "small")


def _between(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ConfigError(
            f"{name} is {value}.", remedy=f"Give a whole number from {least} to {most:,}."
        )


def _check_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ConfigError(f"{name} is {value:g}.", remedy="Give a share from 0 to 1.")


class TextPlan(Value):
    """The texts that the target writes.

    Half of the texts are greedy, the other half is drawn at temperatures from 0.8 to 1. If there
    are ``prompts``, each text begins with a prompt. Otherwise, a chat model answers tasks in
    ``task_share`` of the texts, and writes both sides of a conversation in the other texts. A model
    without a chat template then writes whole texts.
    """

    count: int = 1000
    longest: int = 512  # tokens of a text, prompt included
    turns: int = 3  # at most, in conversations that the target writes on its own
    together: int = 64  # texts in one pass
    seed: int = 0
    prompts: tuple[str, ...] = ()
    task_share: float = 0.5

    def __post_init__(self) -> None:
        _between("count", self.count, 8, 1_000_000)
        _between("longest", self.longest, 16, 8192)
        _between("turns", self.turns, 1, 8)
        _between("together", self.together, 1, 1024)
        _check_share("task_share", self.task_share)


class TrainingPlan(Value):
    """A draft and its training.

    ``vocabulary``: how many of the most frequent tokens the draft can propose; 0 for all.
    ``positions``: how many consecutive candidates the loss covers. From the second candidate on, an
    EAGLE-3 head continues from its own state; Medusa trains one head per candidate.
    """

    kind: DraftKind = "eagle3"
    texts: TextPlan = TextPlan()
    vocabulary: int = 4096
    positions: int = 3
    layers: int = 1  # of a small model
    steps: int = 2000
    batch: int = 8  # texts in one step
    length: int = 256  # tokens of each text
    rate: float = 5e-3
    overlap_from: float = 0.7  # share of the steps after which the loss shifts to the overlap
    seed: int = 0

    def __post_init__(self) -> None:
        check_one_of("kind", self.kind, KINDS)
        _between("vocabulary", self.vocabulary, 0, 1_000_000)
        _between("positions", self.positions, 1, 8)
        _between("layers", self.layers, 1, 8)
        _between("steps", self.steps, 1, 10_000_000)
        _between("batch", self.batch, 1, 1024)
        _between("length", self.length, 16, 8192)
        if not 0 < self.rate < 1:
            raise ConfigError(f"rate is {self.rate:g}.", remedy="Give a number between 0 and 1.")
        _check_share("overlap_from", self.overlap_from)

    @property
    def tokens(self) -> int:
        """Return the total number of tokens that the steps use."""
        return self.steps * self.batch * self.length
