"""Add one option to a parser or a group: a flag, a number or a file."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_flag(group: argparse._ActionsContainer, name: str, text: str) -> None:
    group.add_argument(f"--{name}", action="store_true", help=text)


def add_number(
    group: argparse._ActionsContainer, name: str, default: float, text: str, metavar: str = "N"
) -> None:
    """Add an option with the type of its default; the help ends with the default."""
    shown = f"{default:g}" if isinstance(default, float) else f"{default:,}"
    group.add_argument(
        f"--{name}",
        type=type(default),
        default=default,
        metavar=metavar,
        help=f"{text} (default: {shown})",
    )


def add_file(group: argparse._ActionsContainer, name: str, text: str) -> None:
    group.add_argument(f"--{name}", type=Path, metavar="FILE", help=text)
