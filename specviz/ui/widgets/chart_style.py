"""The style of all charts. Colours of text and grid come from the page's theme."""

from __future__ import annotations

from dataclasses import dataclass

import plotly.graph_objects as go


@dataclass(frozen=True, slots=True)
class Colours:
    """Colours of all charts, one per meaning, readable on light and dark backgrounds."""

    exact: str = "#2f7fc2"
    simulated: str = "#c9862b"
    measured: str = "#1a9c76"
    draft: str = "#d1932f"
    target: str = "#4a80b5"
    accepted: str = "#1a9c76"
    rejected: str = "#d9622b"
    recovered: str = "#3d8fd1"
    bonus: str = "#a163c7"
    muted: str = "#8a93a0"
    ink: str = "#7b8593"
    forbidden: str = "rgba(217, 98, 43, 0.12)"


COLOURS = Colours()
TEXT_SIZE = 13  # pixels; the smallest text in a chart
SERIES = ("#2f7fc2", "#d1932f", "#a163c7", "#1a9c76", "#d9622b", "#8a93a0")


def figure(*, x_title: str, y_title: str, height: int = 340) -> go.Figure:
    """Return an empty chart with the shared layout."""
    small = {"size": TEXT_SIZE}
    axis = {"zeroline": False, "tickfont": small}
    return go.Figure(
        layout={
            "height": height,
            "margin": {"l": 64, "r": 16, "t": 34, "b": 46},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "dragmode": False,
            "hovermode": "closest",
            "font": small,
            "hoverlabel": {"font": small},
            "legend": {
                "orientation": "h",
                "x": 0,
                "y": 1.0,
                "yanchor": "bottom",
                "font": small,
            },
            "xaxis": {"title": {"text": x_title, "standoff": 8, "font": small}, **axis},
            "yaxis": {
                "title": {"text": y_title, "standoff": 14, "font": small},
                "automargin": True,
                **axis,
            },
        }
    )


def add_diagonal(drawn: go.Figure, low: float, high: float, name: str) -> None:
    """Add the line y = x from ``low`` to ``high``."""
    drawn.add_scatter(
        x=[low, high], y=[low, high], mode="lines", name=name, hoverinfo="skip",
        line={"color": COLOURS.muted, "dash": "dash"},
    )  # fmt: skip


def see_through(colour: str, share: float) -> str:
    """Return a hex colour as CSS ``rgba`` with opacity ``share``."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, {share:g})"
