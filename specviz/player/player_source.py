"""The files under ``assets/player`` as one module and one style sheet."""

from __future__ import annotations

from specviz import ASSETS

_FOLDER = ASSETS / "player"
_SCRIPTS = (
    "model",
    "store",
    "dom",
    "summary",
    "text",
    "rounds",
    "transport",
    "clock",
    "tracks",
    "lanes",
    "race",
    "race_lanes",
    "telling",
    "coin",
    "alternatives",
    "verdict",
    "axes",
    "tally",
    "charts",
    "chart_throughput",
    "chart_acceptance",
    "chart_rounds",
    "tour",
    "main",
)
_EXPORT = "export default function"
_STYLES = ("player", "summary", "race", "verdict", "charts")


def player_source() -> tuple[str, str]:
    """The player's one module and its style sheet."""
    return _joined(_SCRIPTS, "js"), _joined(_STYLES, "css")


def replay_source() -> tuple[str, str]:
    """The player as a script that starts itself with the data of its page, and the styles."""
    script = _joined((*_SCRIPTS, "replay"), "js").replace(_EXPORT, "function mountPlayer", 1)
    return f'(() => {{\n"use strict";\n{script}}})();\n', _joined((*_STYLES, "replay"), "css")


def _joined(names: tuple[str, ...], ending: str) -> str:
    return "\n".join(_read(f"{name}.{ending}").removeprefix("// @ts-check\n") for name in names)


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")
