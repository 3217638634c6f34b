"""``settings``: print an example of the settings file, or check a file."""

from __future__ import annotations

import argparse
from pathlib import Path

from specviz import ASSETS
from specviz.access.settings import read_settings

EXAMPLE = ASSETS / "settings.toml"


def add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", nargs="?", type=Path, metavar="FILE",
        help="check this file instead of printing an example",
    )  # fmt: skip


def command(options: argparse.Namespace) -> int:
    if options.file is None:
        print(EXAMPLE.read_text(encoding="utf-8"), end="")
        return 0
    settings = read_settings(options.file)
    people = len(settings.people)
    print(f"{options.file} is valid. It lists {people} {'person' if people == 1 else 'people'}.")
    return 0
