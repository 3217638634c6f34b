"""No character that moves the cursor or reverses the text reaches the terminal."""

from __future__ import annotations

import io
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.cli.terminal_text import (
    Painter,
    Piece,
    display_width,
    one_line,
    painter_for,
    visible_text,
    visible_token,
    wrap_pieces,
    wrap_text,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" time", "·time"),
        ("\n", "⏎"),
        ("\t", "⇥"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\r", "\\x0d"),
        ("\x9b2J", "\\x9b2J"),
        ("\u202eevil", "\\u202eevil"),
        ("a\u200bb", "a\\u200bb"),
        ("\u2028", "\\u2028"),
        ("\U000e0041", "\\U000e0041"),
        ("\u3164", "\\u3164"),
        ("\ud800", "\\ud800"),
        ("\u0301", "◌\u0301"),
        ("\ufffd", "\ufffd"),
        ("é日😀", "é日😀"),
    ],
)
def test_a_token_shows_its_characters(text: str, shown: str) -> None:
    assert visible_token(text) == shown


def test_running_text_keeps_spaces_and_line_ends() -> None:
    assert visible_text("a b\n\tc\x1b\u202e") == "a b\n    c\\x1b\\u202e"


def test_a_message_stays_on_one_line() -> None:
    assert one_line("no file\n named\t\x1b]0;x\x07") == "no file named \\x1b]0;x\\x07"


@given(st.text())
def test_no_unsafe_character_is_left(text: str) -> None:
    shown = visible_token(text) + visible_text(text).replace("\n", "") + one_line(text)
    assert not {unicodedata.category(char) for char in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}


def test_width_counts_columns_not_characters() -> None:
    assert display_width("日本") == 4
    assert display_width("e\u0301") == 1
    assert display_width("abc") == 3


@pytest.mark.parametrize(
    ("environ", "tty", "colour"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"TERM": "dumb"}, True, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "0"}, True, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, False, True),
    ],
)
def test_colour_follows_terminal_and_environment(
    environ: dict[str, str], tty: bool, colour: bool
) -> None:
    stream = Terminal() if tty else io.StringIO()
    assert painter_for(stream, environ).colour is colour


@pytest.mark.parametrize(("columns", "width"), [("5", 30), ("72", 72), ("400", 110)])
def test_width_follows_the_terminal_within_bounds(
    monkeypatch: pytest.MonkeyPatch, columns: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert painter_for(io.StringIO(), {}).width == width


def test_paint_adds_codes_only_with_colour() -> None:
    assert Painter(colour=True, width=80).paint("no", "rejected") == "\x1b[9;38;5;172mno\x1b[0m"
    assert Painter(colour=True, width=80).paint("as is", "normal") == "as is"
    assert Painter(colour=False, width=80).paint("no", "rejected") == "no"


def test_pieces_wrap_whole() -> None:
    pieces: list[Piece] = [("aaaa", "normal"), ("bbbb", "dim"), ("cc", "normal")]
    lines = [plain(line) for line in wrap_pieces(pieces, 9)]
    assert lines == ["aaaa bbbb", "cc"]


def test_a_piece_wider_than_the_line_is_cut() -> None:
    assert [plain(line) for line in wrap_pieces([("日日日", "normal")], 5)] == ["日日", "日"]


@given(st.lists(st.text("ab日e\u0301", max_size=12)), st.integers(2, 20))
def test_wrapping_loses_nothing_and_keeps_the_width(texts: list[str], width: int) -> None:
    lines = wrap_pieces([(text, "normal") for text in texts], width)
    assert all(display_width(plain(line)) <= width for line in lines)
    assert "".join(map(plain, lines)).replace(" ", "") == "".join(texts)


def test_text_breaks_at_spaces_and_line_ends() -> None:
    pieces: list[Piece] = [("one tw", "dim"), ("o three\n\nfour", "accepted")]
    assert [plain(line) for line in wrap_text(pieces, 8)] == ["one two", "three", "", "four"]


@given(st.text("ab 日\n", max_size=60), st.integers(2, 12))
def test_wrapped_text_keeps_the_width_and_every_word_character(text: str, width: int) -> None:
    lines = [plain(line) for line in wrap_text([(text, "normal")], width)]
    assert all(display_width(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def plain(line: list[Piece]) -> str:
    return "".join(text for text, _ in line)


def test_wraps_zero_width_characters_quickly() -> None:
    marks = "\u0301" * 20_000
    began = time.perf_counter()
    assert wrap_text([(marks, "normal")], 80) == [[(marks, "normal")]]
    assert time.perf_counter() - began < 5
