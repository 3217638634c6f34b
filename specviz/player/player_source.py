"""Join the player's files under ``assets`` into one script and one style sheet."""

from __future__ import annotations

from functools import cache

from specviz import ASSETS
from specviz.player.script_modules import component_script, page_script

_STYLES = ("player", "until", "summary", "race", "verdict", "fork", "charts", "presenter")


def player_source() -> tuple[str, str]:
    """Return the module of the player as a Streamlit component, and its styles."""
    return component_script(ASSETS, "player/component.js"), _styles(*_STYLES)


@cache
def replay_source() -> tuple[str, str]:
    """Return the script of a replay file, which plays the data in that file, and its styles."""
    return page_script(ASSETS, "player/replay.js"), _styles(*_STYLES, "replay")


@cache
def first_stage_source() -> tuple[str, str]:
    """Return the script that plays a run before Streamlit draws the page, and its styles."""
    return page_script(ASSETS, "player/first_stage.js"), _styles(*_STYLES, "first_stage")


def _styles(*names: str) -> str:
    files = (ASSETS / "player" / f"{name}.css" for name in names)
    return "\n".join(file.read_text(encoding="utf-8") for file in files)
