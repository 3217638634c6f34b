"""What a training reports while it runs: plain values without torch, sent between processes."""

from __future__ import annotations

from specviz.values import Value


class Collecting(Value):
    """How many texts the target has written."""

    texts: int
    planned: int
    tokens: int  # written in this session


class Computing(Value):
    """For how many texts the hidden states have been computed."""

    texts: int
    planned: int


class Trained(Value):
    """A step of the training; some steps include the acceptance on held-out texts."""

    step: int
    planned: int
    loss: float
    seconds: float
    accepted: tuple[float, ...] = ()  # by position, at temperature 1
    agreeing: tuple[float, ...] = ()  # by position, at temperature 0
    expected: float = 0.0  # accepted candidates of a round with one candidate for each position
    best: bool = False


class TextFigures(Value):
    texts: int
    tokens: int  # that the target wrote
    ended: float  # share of the texts that the target ended itself
    repetition: float  # share of runs of four tokens that occurred earlier in their text
    repeated: int  # texts left out because they repeat another text
    covered: float  # share of the tokens that the draft can propose
    stored: bool = True  # whether the hidden states fit on the disk; else each step computes them


class TrainedDraft(Value):
    """The result of a training: a folder that can be loaded like any draft."""

    folder: str
    step: int
    accepted: tuple[float, ...]
    agreeing: tuple[float, ...]
    expected: float


Progress = Collecting | Computing | TextFigures | Trained | TrainedDraft
