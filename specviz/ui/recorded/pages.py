"""The substitute for each page, for people who may not use the page itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from specviz.ui.recorded.claims import show_claims
from specviz.ui.recorded.examples import (
    show_compare,
    show_lossless,
    show_servers,
    show_train,
    show_tune,
)
from specviz.ui.recorded.learn import show_learn
from specviz.ui.recorded.note import show_note
from specviz.ui.recorded.watch import show_watch

__all__ = ["SUBSTITUTES", "show_note"]

SUBSTITUTES: Mapping[str, Callable[[], None]] = {
    "watch": show_watch,
    "learn": show_learn,
    "compare": show_compare,
    "tune": show_tune,
    "train": show_train,
    "lossless": show_lossless,
    "servers": show_servers,
    "claims": show_claims,
}
