"""Streamlit components whose script and style sheet are in a folder under ``assets``."""

from __future__ import annotations

from streamlit.components.v2 import component
from streamlit.components.v2.types import ComponentRenderer

from specviz import ASSETS
from specviz.player.script_modules import component_script


def asset_component(name: str) -> ComponentRenderer:
    """Return the component of ``assets/NAME/NAME.js`` and ``assets/NAME/NAME.css``."""
    return component(
        f"specviz_{name}",
        js=component_script(ASSETS, f"{name}/{name}.js"),
        css=(ASSETS / name / f"{name}.css").read_text(encoding="utf-8"),
        isolate_styles=False,
    )
