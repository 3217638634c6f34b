"""Text for a terminal: colour, display width, wrapping, and safe characters.

Text from models and files passes through ``visible_token``, ``visible_text`` or ``one_line`` before
it is printed, so that no control, bidi or zero-width character reaches the terminal.
"""

from __future__ import annotations

import functools
import itertools
import shutil
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TextIO

from specviz.record.visible import visible

Style = Literal[
    "normal",
    "dim",
    "bold",
    "warning",
    "accepted",
    "rejected",
    "cut",
    "discarded",
    "recovered",
    "bonus",
]
Piece = tuple[str, Style]

SGR: Mapping[Style, str] = {
    "normal": "",
    "dim": "2",
    "bold": "1",
    "warning": "1;38;5;166",
    "accepted": "38;5;71",
    "rejected": "9;38;5;172",
    "cut": "2;31",
    "discarded": "2",
    "recovered": "38;5;68",
    "bonus": "38;5;134",
}
WIDEST = 110
NARROWEST = 30
INDENT = "  "
TOKEN_SIGNS = {" ": "·", "\n": "⏎", "\t": "⇥"}


@dataclass(frozen=True, slots=True)
class Painter:
    """A text styler for a terminal of ``width`` columns; without ``colour``, text stays plain."""

    colour: bool
    width: int

    def paint(self, text: str, style: Style) -> str:
        code = SGR[style]
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and code and text else text

    def join(self, pieces: Iterable[Piece]) -> str:
        return "".join(self.paint(text, style) for text, style in pieces)


def painter_for(stream: TextIO, environ: Mapping[str, str]) -> Painter:
    columns = shutil.get_terminal_size(fallback=(80, 24)).columns
    width = max(NARROWEST, min(columns, WIDEST))
    return Painter(colour=_colour(stream, environ), width=width)


def _colour(stream: TextIO, environ: Mapping[str, str]) -> bool:
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return environ["FORCE_COLOR"] != "0"
    return environ.get("TERM") != "dumb" and stream.isatty()


def visible_token(text: str) -> str:
    """Return a token with spaces, tabs and line ends as signs; unsafe characters are escaped."""
    shown = "".join(TOKEN_SIGNS.get(char) or visible(char) for char in text)
    # A combining mark at the start would join the character before it.
    return f"◌{shown}" if shown and _is_combining_mark(shown[0]) else shown


def visible_text(text: str) -> str:
    """Keep the line ends of a text, replace its tabs by spaces, and escape unsafe characters."""
    return "".join(
        char if char == "\n" else "    " if char == "\t" else visible(char) for char in text
    )


def one_line(text: str) -> str:
    """Return a message on one line; unsafe characters, as in quoted names, are escaped."""
    return "".join(visible(char) for char in " ".join(text.split()))


def display_width(text: str) -> int:
    return sum(_columns(char) for char in text)


def pad(text: str, width: int) -> str:
    return text + " " * (width - display_width(text))


def wrap_pieces(pieces: Iterable[Piece], width: int) -> list[list[Piece]]:
    """Wrap pieces into lines of at most ``width`` columns; a longer piece is split."""
    lines: list[list[Piece]] = [[]]
    used = 0
    for text, style in pieces:
        for index, chunk in enumerate(_chunks(text, width)):
            space = " " if lines[-1] and index == 0 else ""
            if used + len(space) + display_width(chunk) > width:
                lines.append([])
                used, space = 0, ""
            if space:
                lines[-1].append((space, "normal"))
            lines[-1].append((chunk, style))
            used += len(space) + display_width(chunk)
    return lines


def wrap_text(pieces: Iterable[Piece], width: int) -> list[list[Piece]]:
    """Wrap running text into lines of at most ``width`` columns, at spaces if there are any."""
    lines: list[list[Piece]] = []
    line: list[Piece] = []
    used = 0
    for char, style in _characters(pieces):
        if char == "\n":
            lines.append(_merged(line))
            line, used = [], 0
            continue
        line.append((char, style))
        used += _columns(char)
        if used > width:
            full_line, line = _break(line)
            lines.append(_merged(full_line))
            used = sum(_columns(each) for each, _ in line)
    return [*lines, _merged(line)]


def paragraph(painter: Painter, text: str, style: Style = "normal") -> str:
    """Return indented, wrapped text; unsafe characters are escaped."""
    lines = wrap_text([(one_line(text), style)], painter.width - len(INDENT))
    return "\n".join(INDENT + painter.join(line) for line in lines)


def table(painter: Painter, columns: Sequence[Sequence[str]], indent: str = INDENT) -> str:
    """Render columns of cells as lines; the first cell of each column is its heading."""
    safe = [[one_line(cell) for cell in column] for column in columns]
    padded = [[pad(cell, max(map(display_width, column))) for cell in column] for column in safe]
    lines = [indent + "  ".join(cells).rstrip() for cells in zip(*padded, strict=True)]
    return "\n".join([painter.paint(lines[0], "dim"), *lines[1:]])


def _characters(pieces: Iterable[Piece]) -> Iterator[Piece]:
    return ((char, style) for text, style in pieces for char in text)


def _break(line: list[Piece]) -> tuple[list[Piece], list[Piece]]:
    """Split a long line at its last space or, if it has none, before its last character."""
    spaces = [index for index, (char, _) in enumerate(line) if char == " "]
    if not spaces or not any(char != " " for char, _ in line[: spaces[-1]]):
        return line[:-1], line[-1:]
    return line[: spaces[-1]], line[spaces[-1] + 1 :]


def _merged(characters: list[Piece]) -> list[Piece]:
    merged: list[Piece] = []
    for style, run in itertools.groupby(characters, key=_style):
        merged.append(("".join(char for char, _ in run), style))
    return merged


def _style(piece: Piece) -> Style:
    return piece[1]


def _chunks(text: str, width: int) -> Iterator[str]:
    chunk, used = "", 0
    for char in text:
        if used + _columns(char) > width:
            yield chunk
            chunk, used = "", 0
        chunk += char
        used += _columns(char)
    yield chunk


@functools.cache
def _is_combining_mark(char: str) -> bool:
    return unicodedata.category(char) in ("Mn", "Me")


@functools.cache
def _columns(char: str) -> int:
    if _is_combining_mark(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
