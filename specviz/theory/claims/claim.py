"""What a card says: a sentence from a source, what it comes to when worked out, where it flips."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

ClaimVerdict = Literal["Holds", "Holds within limits", "Does not hold"]
Source = Literal[
    "Practical guide", "Overview of Yin et al.", "sd_optimization", "transformers",
    "Sun et al. 2024",
]  # fmt: skip
PageName = Literal["speed", "rejections", "bias", "misleading"]
RunName = Literal[
    "speed", "estimates", "residual", "temperature", "kinds", "verification", "benchmark",
    "rejections", "pareto", "drafts", "blocks",
]  # fmt: skip

Basis = Literal["exact", "reported"]  # the numbers: worked out here, or others' as printed

GUIDE: Source = "Practical guide"
OVERVIEW: Source = "Overview of Yin et al."
OPTIMIZATION: Source = "sd_optimization"
MANUAL: Source = "transformers"
BLOCKS: Source = "Sun et al. 2024"

_HALVINGS = 60
_ROUNDING = 1e-6  # of the last digit: a flip at a round number stays there


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number that the verdict rests on."""

    label: str
    value: float
    form: str = ".2f"
    unit: str = ""

    @property
    def text(self) -> str:
        return f"{self.value:{self.form}}{self.unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """The page that draws it, and the settings there, by the keys of its link."""

    page: PageName
    label: str
    settings: tuple[tuple[str, float | str], ...] = ()

    @property
    def query(self) -> dict[str, str]:
        """The settings as a link holds them."""
        return {
            key: value if isinstance(value, str) else f"{value:g}" for key, value in self.settings
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """``flip`` says where the verdict would turn; ``run`` names the runs that can test it.

    ``latex`` is a formula that the finding rests on, ``symbols`` what its letters mean.
    """

    id: str
    source: Source
    quote: str
    verdict: ClaimVerdict
    finding: str
    flip: str
    figures: tuple[Figure, ...]
    chart: Chart
    run: RunName | None = None
    basis: Basis = "exact"
    latex: str = ""
    symbols: tuple[tuple[str, str], ...] = ()


def speed_chart(label: str, tab: str = "Over γ", **settings: float) -> Chart:
    """On the Speed page with v = 1, as in the sources; settings as ``alpha``, ``c``, ``gamma``.

    They are rounded, so that the link can be read.
    """
    chosen = ((f"speed_{name}", round(value, 3)) for name, value in settings.items())
    return Chart(page="speed", label=label, settings=(("speed_tab", tab), ("speed_v", 1), *chosen))


def judged(cases: Iterable[bool]) -> ClaimVerdict:
    """The verdict from whether the claim is true in each case that it should cover."""
    seen = tuple(cases)
    assert seen
    if all(seen):
        return "Holds"
    return "Holds within limits" if any(seen) else "Does not hold"


def crossing(difference: Callable[[float], float], low: float, high: float) -> float:
    """Where ``difference`` changes its sign, by bisection; a step counts as a change."""
    below = difference(low) < 0
    assert (difference(high) < 0) != below, "no change of sign between the ends"
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if (difference(middle) < 0) == below:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def rounded_down(value: float, places: int = 3) -> float:
    """A flip to print and link, where the claim holds below it: never beyond the flip itself."""
    return math.floor(value * 10**places + _ROUNDING) / 10**places


def rounded_up(value: float, places: int = 3) -> float:
    """As ``rounded_down``, where the claim holds above the flip."""
    return math.ceil(value * 10**places - _ROUNDING) / 10**places


def first(holds: Callable[[int], bool], start: int, end: int) -> int:
    """The smallest whole number from ``start`` for which it holds."""
    found = next((each for each in range(start, end + 1) if holds(each)), None)
    assert found is not None, (start, end)
    return found
