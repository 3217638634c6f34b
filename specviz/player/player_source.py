"""Join the player's files under ``assets`` into one script and one style sheet."""

from __future__ import annotations

from functools import cache

from specviz import ASSETS
from specviz.player.script_modules import component_script, page_script

_STYLES = ("player", "until", "summary", "race", "verdict", "fork", "charts", "presenter")


def player_source() -> tuple[str, str]:
    """Return the player as a component's module, and its style sheet."""
    return component_script(ASSETS, "player/component.js"), _styles(*_STYLES)


@cache
def replay_source() -> tuple[str, str]:
    """Return the player as a script that starts with the data of its page, and the styles."""
    return page_script(ASSETS, "player/replay.js"), _styles(*_STYLES, "replay")


@cache
def first_stage_source() -> tuple[str, str]:
    """Return the player as a script that starts before the page is loaded, and the styles."""
    return page_script(ASSETS, "player/first_stage.js"), _styles(*_STYLES, "first_stage")


def _styles(*names: str) -> str:
    files = (ASSETS / "player" / f"{name}.css" for name in names)
    return "\n".join(file.read_text(encoding="utf-8") for file in files)
