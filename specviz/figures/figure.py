"""What a figure (a number computed from a run) is: its name, meaning, and accompanying text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from specviz.figures.symbols import names_of_symbols
from specviz.record.numbers import RATIO, Quantity
from specviz.values import Value

if TYPE_CHECKING:
    from specviz.figures.metrics import Metrics
    from specviz.figures.server_figures import ServerMetrics

Better = Literal["higher", "lower"]
TIMES_THE_TARGET = "times the target alone"  # axis title of every speedup
MetricsText = Callable[["Metrics"], str]


def _nothing(_figures: Metrics) -> str:
    return ""


class Figure(Value):
    """The definition of a number that is computed from a run.

    ``better``: whether higher or lower values are better. Three functions return text for a run:
    ``numbers`` returns the numbers shown after the formula, ``caveat`` a warning about the value,
    and ``note`` a few words beside the value.
    """

    id: str
    label: str
    quantity: Quantity
    formula: str
    remark: str = ""
    short: str = ""  # heading of a narrow column; the label if empty
    better: Better | None = None
    numbers: MetricsText = _nothing
    caveat: MetricsText = _nothing
    note: MetricsText = _nothing

    @property
    def head(self) -> str:
        return self.short or self.label

    @property
    def axis(self) -> str:
        """The title of a chart axis."""
        return TIMES_THE_TARGET if self.quantity is RATIO else self.label

    @property
    def definition(self) -> str:
        return f"{self.formula}. {self.remark}" if self.remark else self.formula

    def of(self, figures: Metrics | ServerMetrics) -> float | None:
        return getattr(figures, self.id)

    def shown(self, figures: Metrics | ServerMetrics) -> str:
        return self.quantity.shown(self.of(figures))

    def help(self, figures: Metrics) -> str:
        """Return the help text of the figure for a run.

        It consists of the formula with the run's numbers, the names of the symbols, the remark and
        the caveat.
        """
        symbols = names_of_symbols(f"{self.label} {self.formula}")
        formula = f"{self.formula}{self.numbers(figures)}"
        parts = (formula, symbols, self.remark, self.caveat(figures))
        return " ".join(f"{part.rstrip('.')}." for part in parts if part)
