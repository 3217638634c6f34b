"""One catalogue of figures: it has every shown figure, README repeats it, and numbers with a
unit are formatted nowhere else.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from specviz.cli.compare_table import kind_figures, lane_figures
from specviz.cli.figures import LABEL_COLUMNS, render_figures
from specviz.cli.render import INDENT
from specviz.cli.terminal_text import Painter
from specviz.comparison import table as lane_table
from specviz.figures.catalogue import CATALOGUE, titled
from specviz.figures.metrics import metrics
from specviz.player import summary
from specviz.ui.runs import table as runs_table
from specviz.ui.theory.speed import speedup_points
from tests.traces import full_trace

ROOT = Path(__file__).parents[1]
SHOWN = {
    "page": (*summary.HEADLINES, *summary.FINER, *summary.IF_KNOWN),
    "lanes on the page": lane_table.SHOWN,
    "lanes in the terminal": (*lane_figures(), *kind_figures()),
    "kept runs": tuple(runs_table.FIGURES),
    "a run as a point": speedup_points.SHOWN,
}


@pytest.mark.parametrize("place", SHOWN)
def test_every_shown_figure_is_in_the_catalogue(place: str) -> None:
    assert set(SHOWN[place]) <= set(CATALOGUE)


def test_the_terminal_uses_the_catalogues_labels() -> None:
    trace = full_trace()
    text = render_figures(Painter(colour=False, width=100), trace, metrics(trace), "")
    start = len(2 * INDENT)
    rows = [line[start : start + LABEL_COLUMNS].strip() for line in text.split("\n")
            if line.startswith(2 * INDENT) and line[start : start + 1].strip()]  # fmt: skip
    labels = [label for label in rows if not label.startswith("α at position")]
    assert len(labels) > 12
    assert set(labels) <= {each.label for each in CATALOGUE.values()}


def test_every_figure_of_the_catalogue_is_shown() -> None:
    drawn = {"ms_a_token"}  # by the charts of a comparison
    assert set(CATALOGUE) == {name for names in SHOWN.values() for name in names} | drawn


def test_ids_are_the_keys_in_json() -> None:
    trace = full_trace()
    keys = set(json.loads(json.dumps(metrics(trace).as_dict())))
    worked_out = {"speedup_limit", "ms_a_token", "memory_bytes"}
    intervals = {name for name in CATALOGUE if "_interval" in name}
    assert set(CATALOGUE) - keys == worked_out | intervals


def test_help_begins_with_the_definition() -> None:
    figures = metrics(full_trace())
    for each in (CATALOGUE[name] for name in SHOWN["page"]):
        text = each.help(figures)
        assert text.startswith(each.formula)
        assert each.remark in text
        assert not re.search(r"\.\.|\s\.|= None", text)


def test_the_readme_repeats_the_definitions() -> None:
    text = (ROOT / "assets" / "docs" / "figures.md").read_text(encoding="utf-8")
    section = text.split("## Definitions")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.*) \| (.*) \|$", section, re.MULTILINE)
    listed = [row for row in rows if row not in (("figure", "definition"), ("---", "---"))]
    assert listed == [(each.label, each.definition) for each in CATALOGUE.values()]


@pytest.mark.parametrize(
    ("label", "beginning"),
    [
        ("speedup, ideal", "Speedup, ideal"),
        ("τ, tokens per round", "τ, tokens per round"),
        ("α observed", "α observed"),
        ("c, a draft step", "c, a draft step"),
        ("c", "c"),
        ("tokens/s", "Tokens/s"),
    ],
)
def test_a_line_begins_with_a_label(label: str, beginning: str) -> None:
    assert titled(label) == beginning


# Formatting of numbers

WRITERS = "specviz/record/numbers.py"
# Below the record layer, and the training reports.
ELSEWHERE = ("specviz/theory/", "specviz/training/")
UNIT = re.compile(r"\s?(?:times\b|×|%|ms\b|tokens/s|[kKMGT]i?B\b)")
IN_ONE_STRING = re.compile(r":,?\.\d[f%]\}\s?(?:×|ms\b|%)|\b[KMGT]iB\b")


def by_hand(source: str) -> Iterator[tuple[int, str]]:
    """Yield numbers that are formatted with a unit by hand."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if found := IN_ONE_STRING.search(node.value):
                yield node.lineno, found[0]
        elif isinstance(node, ast.JoinedStr):
            for number, unit in zip(node.values, node.values[1:], strict=False):
                text = unit.value if isinstance(unit, ast.Constant) else ""
                if has_digits(number) and isinstance(text, str) and UNIT.match(text):
                    yield node.lineno, text[:12]


def has_digits(part: ast.expr) -> bool:
    spec = part.format_spec if isinstance(part, ast.FormattedValue) else None
    return spec is not None and "." in ast.unparse(spec)


def test_numbers_with_a_unit_are_formatted_in_one_place() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} {text}"
        for path in sorted((ROOT / "specviz").rglob("*.py"))
        for line, text in by_hand(path.read_text(encoding="utf-8"))
        if not str(path.relative_to(ROOT)).startswith((WRITERS, *ELSEWHERE))
    ]
    assert found == []


def test_the_search_finds_hand_formatted_numbers() -> None:
    assert [text for _, text in by_hand('f"{a:.2f} times" f"{b:.0f} %" "{c} MiB"')]
    for source in (
        'f"{a:.2f}×"',
        '"%{y:.2f} ms"',
        'f"{a / 2**20:.1f} MiB"',
        'f"{r:,.1f} tokens/s"',
    ):
        assert list(by_hand(source)), source
    assert not list(by_hand('f"{count} times" f"{a:.2f} of {b}"'))
