"""What a figure is: its name, its meaning, and the words that go with its value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from specviz.record.numbers import RATIO, Quantity

if TYPE_CHECKING:
    from specviz.figures.metrics import Metrics

Better = Literal["higher", "lower"]
TIMES_THE_TARGET = "times the target alone"  # the axis of every speedup
Words = Callable[["Metrics"], str]


def _nothing(_figures: Metrics) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of a run. ``better``: whether the higher or the lower of two values is better.

    ``numbers``: this run's numbers, written after the formula. ``told``: what else a reader should
    know of this run's value, in sentences. ``note``: a few words beside the value.
    """

    id: str
    label: str
    quantity: Quantity
    formula: str
    remark: str = ""
    short: str = ""  # the head of a narrow column; the label where there is none
    better: Better | None = None
    numbers: Words = _nothing
    told: Words = _nothing
    note: Words = _nothing

    @property
    def head(self) -> str:
        return self.short or self.label

    @property
    def axis(self) -> str:
        """The title of a chart's axis."""
        return TIMES_THE_TARGET if self.quantity is RATIO else self.label

    @property
    def definition(self) -> str:
        return f"{self.formula}. {self.remark}" if self.remark else self.formula

    def of(self, figures: Metrics) -> float | None:
        return getattr(figures, self.id)

    def shown(self, figures: Metrics) -> str:
        return self.quantity.shown(self.of(figures))

    def help(self, figures: Metrics) -> str:
        """The formula with this run's numbers, and what else to know."""
        parts = (f"{self.formula}{self.numbers(figures)}", self.remark, self.told(figures))
        return " ".join(f"{part.rstrip('.')}." for part in parts if part)
