"""A token's fate shows as a colour and a mark; rows keep the width."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from specviz.cli.render import (
    render_heading,
    render_prompt_ids,
    render_round,
    render_text,
    styled_tokens,
    token_piece,
)
from specviz.cli.terminal_text import SGR, Painter, Style, display_width
from specviz.record.trace import Candidate, CutReason, Extra, RoundTimes, RunConfig
from tests.methods import method_trace
from tests.traces import make_candidate, make_extra, make_prompt, make_round, make_trace

PLAIN = Painter(colour=False, width=80)
COLOUR = Painter(colour=True, width=80)

FATES: list[tuple[Candidate | Extra, Style, str]] = [
    (make_candidate("a", token_id=3), "accepted", "·w3"),
    (make_candidate("r", token_id=3), "rejected", "✗·w3"),
    (make_candidate("d", token_id=3), "discarded", "⋯·w3"),
    (make_extra("recovered", token_id=3), "recovered", "→·w3"),
    (make_extra("bonus", token_id=3), "bonus", "+·w3"),
]


def without_colour(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.mark.parametrize(("token", "fate", "shown"), FATES)
def test_each_fate_has_a_mark_and_a_colour(
    token: Candidate | Extra, fate: Style, shown: str
) -> None:
    assert token_piece(token) == (shown, fate)
    text, style = token_piece(token)
    assert COLOUR.paint(text, style) == f"\x1b[{SGR[fate]}m{shown}\x1b[0m"


def test_fates_differ_with_and_without_colour() -> None:
    pieces = [token_piece(token) for token, _, _ in FATES]
    assert len({COLOUR.paint("x", style) for _, style in pieces}) == 5
    assert len({text for text, _ in pieces}) == 5
    assert SGR["rejected"].startswith("9;")


def test_a_row_shows_index_tokens_emitted_and_times() -> None:
    entry = make_round("ard", index=12, times=(0.0021, 0.00534, 0.001))
    row = render_round(PLAIN, entry)
    assert row == ("   12  ·w10 ✗·w11 ⋯·w12 →·w11" + " " * 29 + "+2   2.1    5.3 ms".rjust(22))
    assert display_width(row) == 80


def test_a_coloured_row_is_the_plain_row_coloured() -> None:
    entry = make_round("aardd")
    assert without_colour(render_round(COLOUR, entry)) == render_round(PLAIN, entry)
    assert "\x1b[" not in render_round(PLAIN, entry)


@pytest.mark.parametrize("width", [30, 46, 60, 80, 110])
def test_long_rows_wrap_under_a_hanging_indent(width: int) -> None:
    entry = make_round("a" * 40, first_token=1000)
    lines = render_round(Painter(colour=False, width=width), entry).split("\n")
    assert len(lines) > 1
    assert all(display_width(line) <= width for line in lines)
    assert all(line.startswith(" " * 7 + "·w") for line in lines[1:-1])
    assert "+41" in lines[0]
    assert " ".join(lines).split().count("·w1039") == 1


def test_wide_characters_keep_the_columns_aligned() -> None:
    wide = replace(make_round("a"), candidates=(make_candidate(text="日本語"),))
    narrow = replace(make_round("a"), candidates=(make_candidate(text="abcdef"),))
    assert display_width(render_round(PLAIN, wide)) == display_width(render_round(PLAIN, narrow))


def test_narrow_terminals_show_no_times() -> None:
    assert "ms" not in render_round(Painter(colour=False, width=50), make_round("a"))


def test_slow_rounds_keep_their_columns() -> None:
    slow = replace(make_round("a"), times=RoundTimes(draft=0.99996, verify=12.3, other=0.0))
    assert render_round(PLAIN, slow).endswith("  1000  12300 ms")


def test_a_hostile_token_is_escaped() -> None:
    hostile = make_candidate(text="\x1b[2J\u202e\n")
    row = render_round(PLAIN, replace(make_round("a"), candidates=(hostile,)))
    assert "\\x1b[2J\\u202e⏎" in row
    assert "\x1b" not in row
    assert "\n" not in row


def test_a_token_without_text_shows_its_id() -> None:
    assert token_piece(make_candidate(token_id=7, text=""))[0] == "⟨7⟩"


def test_a_round_with_nothing_drafted_shows_its_bonus() -> None:
    assert "  +·w10 " in render_round(PLAIN, make_round(""))


@pytest.mark.parametrize(
    ("cut", "words"),
    [
        ("eos", "end of text"),
        ("stop", "stop string"),
        ("length", "length limit"),
        ("context", "context full"),
    ],
)
def test_a_cut_round_shows_the_reason(cut: CutReason, words: str) -> None:
    assert f"·w10 — {words}" in render_round(PLAIN, make_round("a", cut=cut))


def test_heading_names_settings_legend_and_columns() -> None:
    config = RunConfig(gamma=4, temperature=0.5, top_k=20, top_p=0.9, drafter="prompt-lookup")
    heading = render_heading(PLAIN, config)
    assert (
        "γ 4 · temperature 0.5 · top-k 20 · top-p 0.9 · seed 0 · drafter prompt-lookup" in heading
    )
    assert "accepted   ✗rejected   ⤫cut   ⋯discarded   →recovered   +bonus" in heading
    assert "LOSSY" not in heading
    assert display_width(heading.split("\n")[-1]) == 80


def test_a_lossy_rule_is_marked() -> None:
    config = RunConfig(rule="over-accept", epsilon=0.1)
    assert "  LOSSY: over-acceptance, ε = 0.1\n" in render_heading(PLAIN, config)
    other = replace(config, residual="target")
    assert "LOSSY: over-acceptance, ε = 0.1, residual from target" in render_heading(PLAIN, other)


def test_text_is_coloured_by_origin_after_a_dim_prompt() -> None:
    trace = make_trace(["ar", "aa"], config=RunConfig(gamma=2))
    text = render_text(COLOUR, trace)
    assert text.startswith(f"  {COLOUR.paint(' w1 w2 w3 w4', 'dim')}")
    assert COLOUR.paint(" w10", "accepted") + COLOUR.paint(" w11", "recovered") in text
    assert without_colour(text) == "   w1 w2 w3 w4 w10 w11 w10 w11 w12"


def test_a_character_split_over_tokens_is_printed_whole() -> None:
    halves = replace(
        make_round("a"),
        candidates=(make_candidate(text="\ufffd"),),
        extra=replace(make_extra("bonus"), text="\ufffd"),
        emitted=(1, 9),
    )
    trace = make_trace([halves, "aa"], config=RunConfig(gamma=2))
    pieces = styled_tokens(replace(trace, text="😀 w10 w11 w12"))
    assert pieces == [
        ("😀", "bonus"),
        (" w10", "accepted"),
        (" w11", "accepted"),
        (" w12", "bonus"),
    ]


def test_text_that_does_not_match_its_tokens_is_still_shown_whole() -> None:
    trace = replace(make_trace(["aa"]), text="something else w11")
    assert styled_tokens(trace) == [("something else w11", "normal")]


def test_a_text_cut_at_a_stop_string_ends_there() -> None:
    trace = replace(make_trace(["aa"]), text=" w10 w")
    assert styled_tokens(trace) == [(" w10", "accepted"), (" w", "bonus")]


def test_tokens_beyond_the_emitted_ones_are_not_in_the_text() -> None:
    ended = replace(make_round("aaa", cut="eos"), emitted=(10, 11))
    assert [text for text, _ in styled_tokens(make_trace([ended]))] == [" w10", " w11"]


def test_hostile_text_is_escaped() -> None:
    prompt = replace(make_prompt(), text="safe\x1b]0;title\x07\u202e")
    text = render_text(PLAIN, replace(make_trace(["a"]), prompt=prompt))
    assert "safe\\x1b]0;title\\x07\\u202e w10" in text


def test_a_chat_answer_begins_on_its_own_line() -> None:
    prompt = replace(make_prompt(), text="About heating.")
    for chat in (False, True):
        trace = replace(make_trace(["a"], config=RunConfig(chat=chat)), prompt=prompt)
        first, *others = render_text(PLAIN, trace).splitlines()
        assert (first.strip() == "About heating.") is bool(others) is chat


def test_a_long_prompt_shows_its_end() -> None:
    prompt = replace(make_prompt(), text="start " + "x" * 500 + " end")
    text = render_text(PLAIN, replace(make_trace(["a"]), prompt=prompt))
    assert text.startswith("  …")
    assert "start" not in text
    assert " end w10" in text.replace("\n  ", "")


def test_prompt_ids_are_shown_in_full() -> None:
    prompt = replace(make_prompt(), token_ids=tuple(range(100)))
    shown = render_prompt_ids(PLAIN, prompt)
    assert shown.startswith("  prompt ids (100): 0 1 2 ")
    assert shown.endswith(" 98 99")
    assert all(display_width(line) <= 80 for line in shown.split("\n"))


def test_a_tree_shows_what_was_tested_and_counts_the_rest() -> None:
    (entry, *_) = method_trace("tree").rounds
    shown = render_round(Painter(colour=False, width=100), entry)
    tested = [each for each in entry.candidates if each.tested]
    assert f"({entry.num_drafted - len(tested)} never tested)" in " ".join(shown.split())
    assert shown.count("✗") == sum(e.verdict == "rejected" for e in tested)
    assert "⋯" not in shown
