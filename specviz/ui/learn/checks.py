"""The tasks of the page Learn: their type, the types of their checks, and their texts.

A task is a step of the lesson or a challenge. A check decides whether the user's runs solve it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import streamlit as st

from specviz import ASSETS
from specviz.record.numbers import COST, COUNT, MILLISECONDS, RATIO, TOKENS
from specviz.ui.session.history import ShownRun
from specviz.values import Value

_FOLDER = ASSETS / "learn"
UNITS = {"ms": MILLISECONDS, "times": RATIO, "size": COUNT, "tokens": TOKENS, "cost": COST}
Fits = Callable[[ShownRun], object]


class Attempt(Value):
    """What a check may use to decide whether a task is solved.

    ``runs``: this tab's decoded runs, newest last; the newest run's timing may be unfinished.
    ``answer``: the typed or chosen answer. ``draws``: how many tokens each of the two rules,
    correct and broken, has drawn in the step about the residual.
    """

    runs: Sequence[ShownRun]
    answer: Any = None
    draws: int = 0

    def newest(self, fits: Fits) -> ShownRun | None:
        return next((run for run in reversed(self.runs) if fits(run)), None)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check.

    ``done``: whether the task is solved. ``name``: the name of the text to show. ``numbers``: the
    values for the placeholders of this text.
    """

    done: bool
    name: str
    numbers: dict[str, str]


class Task(Value):
    """A step of the lesson (level 0) or a challenge (level 1 to 3).

    ``asks``: the kind of control with which the user answers, for example ``number`` or ``choice``;
    empty if the check needs only runs. ``link``: the settings that a button of the task applies.
    """

    name: str
    check: Callable[[Attempt], CheckResult]
    asks: str = ""
    link: dict[str, str] = field(default_factory=dict[str, str])
    level: int = 0


def no(name: str, **numbers: object) -> CheckResult:
    return CheckResult(False, name, {key: _shown(key, each) for key, each in numbers.items()})


def yes(name: str = "done", **numbers: object) -> CheckResult:
    return CheckResult(True, name, {key: _shown(key, each) for key, each in numbers.items()})


def _shown(name: str, value: object) -> str:
    """Format a value. For a float, the ending of ``name`` gives the unit: ``one_ms`` is in ms."""
    unit = UNITS.get(name.rsplit("_", 1)[-1])
    return unit.shown(value) if unit and isinstance(value, float) else f"{value}"


def text_of(name: str) -> dict[str, Any]:
    """Return the texts of a step, of a challenge, or of the page Learn.

    The texts are in the browser's language if there is a translation, else in English.
    """
    language = (st.context.locale or "en").split("-")[0]
    return _read(name, language if language in _languages() else "en")


@cache
def _languages() -> set[str]:
    return {each.name for each in _FOLDER.iterdir() if each.is_dir()}


@cache
def _read(name: str, language: str) -> dict[str, Any]:
    return tomllib.loads((_FOLDER / language / f"{name}.toml").read_text("utf-8"))
