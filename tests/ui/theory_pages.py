"""Helpers for tests of the theory pages in bare mode."""

from __future__ import annotations

import itertools
import json
import re
import statistics
import time
from collections.abc import Callable
from typing import Any

from streamlit.testing.v1 import AppTest

from tests.ui.paging import sound

STATED_MS = 150  # server time for a rerun after a moved slider
LIMIT_MS = 2 * STATED_MS  # tests allow twice as much, since machines and load differ


def charts(app: AppTest) -> dict[str, Any]:
    """Return the page's plotly figures by their key."""
    return {
        each.proto.id.rsplit("-", 1)[-1]: json.loads(each.proto.spec)
        for each in app.get("plotly_chart")
    }


_CARD = re.compile(r'<span class="symbol"[^>]*>(.)<span.*?</span></span>')


def words(app: AppTest) -> str:
    """Return the page's sentences, without the cards of symbols."""
    return _CARD.sub(r"\1", " ".join(each.value for each in (*app.markdown, *app.caption)))


_STYLES = (
    r"\\(mathrm|mathbb|mathcal|bar|hat|text\{[^}]*\}|left|right|t?frac|[bB]ig|q?quad)(?![a-z])"
)
_SIGNS = {
    "sum", "prod", "min", "max", "inf", "le", "ge", "ne", "in", "sim", "to", "cdot", "propto",
}  # fmt: skip


def letters(latex: str) -> set[str]:
    """Return what a formula must explain: its letters and upright words."""
    upright = set(re.findall(r"\\mathrm\{(\w+)\}", latex))
    rest = re.sub(r"\\mathrm\{\w+\}", " ", latex)
    rest = re.sub(_STYLES, " ", rest)
    named = {each for each in re.findall(r"\\([A-Za-z]+)", rest) if each not in _SIGNS}
    return upright | named | set(re.findall(r"[A-Za-z]", re.sub(r"\\[A-Za-z]+", " ", rest)))


def unexplained(app: AppTest) -> dict[str, set[str]]:
    """Return the page's formulas with the letters that the line below does not explain."""
    found: dict[str, set[str]] = {}
    shown: list[Any] = [each for each in app.main if each.type in ("latex", "caption")]
    for each, after in itertools.pairwise(shown):
        if each.type != "latex":
            continue
        keys = re.findall(r"(?:^|; )\$([^$]+)\$ ", after.value)
        missing = letters(each.value) - set[str]().union(*map(letters, keys))
        if missing:
            found[each.value] = missing
    return found


def median_ms(app: AppTest, change: Callable[[AppTest, int], None], times: int = 3) -> float:
    """Return the median server time of reruns after a change, in milliseconds.

    Uses processor time: these pages do not wait, and wall time would include other processes.
    """
    spent = []
    for turn in range(times):
        change(app, turn)
        began = time.process_time()
        sound(app.run())
        spent.append(1000 * (time.process_time() - began))
    return statistics.median(spent)
