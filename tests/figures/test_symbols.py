"""One table of symbols: the docs repeat it, and formulas and the help of figures use its names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from specviz.figures.catalogue import CATALOGUE
from specviz.figures.metrics import metrics
from specviz.figures.symbols import SYMBOLS, names_in_formula, names_of_symbols
from specviz.theory.papers import PAPER_LETTERS
from specviz.ui.docs.chapters import FOLDER
from tests.traces import full_trace


def test_the_docs_repeat_the_symbols_and_the_letters_of_the_papers() -> None:
    text = (FOLDER / "figures.md").read_text(encoding="utf-8")
    section = text.split("## Symbols")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.*) \| (.*) \| (.*) \|$", section, re.MULTILINE)
    symbols = [(each.sign, each.name, each.sentence) for each in SYMBOLS.values()]
    papers = [(each.paper, each.draft, each.target) for each in PAPER_LETTERS]
    heads = {("symbol", "name", "meaning"), ("paper", "draft", "target"), ("---",) * 3}
    assert [row for row in rows if row not in heads] == symbols + papers


@pytest.mark.parametrize("name", SYMBOLS)
def test_the_chapter_of_a_symbol_has_its_heading(name: str) -> None:
    chapter, _, heading = SYMBOLS[name].chapter.partition("#")
    text = Path(FOLDER / f"{chapter}.md").read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    assert heading in {each.lower().replace(" ", "-") for each in headings}


def test_a_formula_lists_the_names_by_latex_symbol() -> None:
    assert names_in_formula("alpha", "c") == {r"\alpha": "acceptance rate", "c": "draft cost"}


@pytest.mark.parametrize(
    ("text", "signs"),
    [
        ("τ / (γc + v + o)", {"γ", "τ", "c", "v", "o"}),
        ("α observed accepted / tested", {"α"}),
        ("τ, tokens per round", set()),
        ("accepted / drafted", set()),
    ],
)
def test_finds_the_symbols_of_a_text_whose_names_it_lacks(text: str, signs: set[str]) -> None:
    listed = names_of_symbols(text)
    assert {each.partition(":")[0] for each in listed.split(", ") if each} == signs


def test_the_help_of_a_figure_names_the_symbols_of_its_formula() -> None:
    text = CATALOGUE["speedup_accounted"].help(metrics(full_trace()))
    assert all(SYMBOLS[name].name in text for name in ("tau", "gamma", "c", "v"))
