"""What a check is handed, and what it answers: whether a thing was done, by the runs themselves."""

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

_FOLDER = ASSETS / "learn"
UNITS = {"ms": MILLISECONDS, "times": RATIO, "size": COUNT, "tokens": TOKENS, "cost": COST}
Fits = Callable[[ShownRun], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a person did: the runs of this tab that are over, the newest last; what was typed or
    chosen; and how many tokens were drawn in the simulation."""

    runs: Sequence[ShownRun]
    answer: Any = None
    draws: int = 0

    def newest(self, fits: Fits) -> ShownRun | None:
        return next((run for run in reversed(self.runs) if fits(run)), None)


@dataclass(frozen=True, slots=True)
class Told:
    """``name``: of the words in the text file; ``numbers``: what is written into them."""

    done: bool
    name: str
    numbers: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A step of the lesson, or a challenge of a level. ``asks``: for what, besides runs; ``link``:
    the settings with which it opens."""

    name: str
    check: Callable[[Work], Told]
    asks: str = ""
    link: dict[str, str] = field(default_factory=dict[str, str])
    level: int = 0


def no(name: str, **numbers: object) -> Told:
    return Told(False, name, {key: _shown(key, each) for key, each in numbers.items()})


def yes(**numbers: object) -> Told:
    return Told(True, "done", {key: _shown(key, each) for key, each in numbers.items()})


def _shown(name: str, value: object) -> str:
    """A name that ends with a unit, such as ``one_ms``, is written in it."""
    unit = UNITS.get(name.rsplit("_", 1)[-1])
    return unit.shown(value) if unit and isinstance(value, float) else f"{value}"


def text_of(name: str) -> dict[str, Any]:
    """Of a step or challenge, or of the page, in the language of the browser if it has a folder."""
    language = (st.context.locale or "en").split("-")[0]
    return _read(name, language if language in _languages() else "en")


@cache
def _languages() -> set[str]:
    return {each.name for each in _FOLDER.iterdir() if each.is_dir()}


@cache
def _read(name: str, language: str) -> dict[str, Any]:
    return tomllib.loads((_FOLDER / language / f"{name}.toml").read_text("utf-8"))
