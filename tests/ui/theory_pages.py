"""A theory page in bare mode, and what it shows."""

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

STATED_MS = 150  # of server time, for the answer to a moved slider
LIMIT_MS = 2 * STATED_MS  # at twice the stated bound a test fails: machines differ, and load


def charts(app: AppTest) -> dict[str, Any]:
    """The plotly figures of the page by their key."""
    return {
        each.proto.id.rsplit("-", 1)[-1]: json.loads(each.proto.spec)
        for each in app.get("plotly_chart")
    }


def words(app: AppTest) -> str:
    return " ".join(each.value for each in (*app.markdown, *app.caption))


_STYLES = (
    r"\\(mathrm|mathbb|mathcal|bar|hat|text\{[^}]*\}|left|right|t?frac|[bB]ig|q?quad)(?![a-z])"
)
_SIGNS = {
    "sum", "prod", "min", "max", "inf", "le", "ge", "ne", "in", "sim", "to", "cdot", "propto",
}  # fmt: skip


def letters(latex: str) -> set[str]:
    """What of a formula needs a meaning: its letters, and words set upright."""
    upright = set(re.findall(r"\\mathrm\{(\w+)\}", latex))
    rest = re.sub(r"\\mathrm\{\w+\}", " ", latex)
    rest = re.sub(_STYLES, " ", rest)
    named = {each for each in re.findall(r"\\([A-Za-z]+)", rest) if each not in _SIGNS}
    return upright | named | set(re.findall(r"[A-Za-z]", re.sub(r"\\[A-Za-z]+", " ", rest)))


def unexplained(app: AppTest) -> dict[str, set[str]]:
    """Each formula of the page with the letters that the line under it gives no meaning."""
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


def median_ms(app: AppTest, change: Callable[[AppTest, int], None], times: int = 5) -> float:
    """Server time of a rerun after a change, the median of some.

    Of the processor: these pages wait for nothing, and a clock would time a busy machine's
    other work.
    """
    spent = []
    for turn in range(times):
        change(app, turn)
        began = time.process_time()
        sound(app.run())
        spent.append(1000 * (time.process_time() - began))
    return statistics.median(spent)
