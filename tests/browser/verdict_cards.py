"""The verdict card of the recorded run, and the numbers that it shows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import pytest

from specviz.record.trace import Round, Trace
from tests.browser.fed_player import blank_page, data_of, send
from tests.browser.long_runs import events_of, recorded
from tests.browser.reading import ROUND, next_frame, seek

CARD = '[data-testid="verdict-card"]'
SENTENCE = f"{CARD} .vd-say"
WHAT_IF = f"{CARD} .vd-if"
DRAW = f"{CARD} [role=slider]"
BACK = f"{CARD} button:has-text('back to the real draw')"
INVITATION = "What if the draw had been different? Drag the draw."


@pytest.fixture(scope="module")
def trace() -> Trace:
    return recorded()


@pytest.fixture(scope="module")
def page(player_context: Any, trace: Trace) -> Iterator[Any]:
    """The recorded run at its end."""
    opened = send(data_of(trace), blank_page(player_context, height=900))
    yield opened
    opened.close()


def choose(page: Any, trace: Trace, index: int, place: int) -> None:
    """Click a token of a finished round."""
    ends = list(accumulate(events_of(entry) for entry in trace.rounds))
    seek(page, ends[index])
    page.click(f'{ROUND}[data-index="{index}"] [data-place="{place}"]')
    next_frame(page)


def plain_text(page: Any, selector: str) -> str:
    return page.inner_text(selector).replace("\u00a0", " ")


def chip(text: str) -> str:
    return text.replace(" ", "·").replace("\n", "⏎")


def percent(value: float) -> str:
    """Return a share as on the card; a value below 1 is never rounded to 100 %."""
    if 0.995 < value < 1:
        return f"{int(1000 * value) / 10:.1f} %"
    return f"{100 * value:.{1 if value < 0.1 else 0}f} %"


def two_digits(value: float) -> str:
    return f"{value:.2f}"


def first_rejected(entry: Round) -> int:
    return [each.verdict for each in entry.candidates].index("rejected")


def distinguishable(entry: Round) -> bool:
    """Return whether the odds and the draw of the rejection differ in two digits."""
    for each in entry.candidates:
        if each.verdict == "rejected":
            shown = {two_digits(each.odds), two_digits(each.uniform)}
            return len(shown) == 2 and min(each.draft_prob, each.target_prob) > 0.001
    return False


def rejections(trace: Trace) -> list[Round]:
    return [entry for entry in trace.rounds if distinguishable(entry)]


def bonus_round(trace: Trace) -> Round:
    return next(entry for entry in trace.rounds if entry.extra_kind == "bonus")


def current_draw(page: Any) -> tuple[float, str]:
    next_frame(page)
    value, valuetext = (
        page.get_attribute(DRAW, f"aria-{name}") for name in ("valuenow", "valuetext")
    )
    return float(value), valuetext.split(": ")[1]
