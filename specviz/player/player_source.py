"""Join the player's files under ``assets`` into one script and one style sheet."""

from __future__ import annotations

from functools import cache

from specviz import ASSETS
from specviz.player.script_modules import component_script, page_script

_STYLES = ("player", "until", "summary", "race", "verdict", "fork", "charts", "presenter")


def player_source() -> tuple[str, str]:
    """Return the module and the styles of the player as a Streamlit component."""
    return component_script(ASSETS, "player/component.js"), _styles(*_STYLES)


@cache
def replay_source() -> tuple[str, str]:
    """Return the script and the styles of a replay file. The script plays the data in the file."""
    return page_script(ASSETS, "player/replay.js"), _styles(*_STYLES, "replay")


@cache
def first_stage_source() -> tuple[str, str]:
    """Return the script and the styles that play a run before Streamlit draws the page."""
    return page_script(ASSETS, "player/first_stage.js"), _styles(*_STYLES, "first_stage")


def _styles(*names: str) -> str:
    files = (ASSETS / "player" / f"{name}.css" for name in names)
    return "\n".join(file.read_text(encoding="utf-8") for file in files)
