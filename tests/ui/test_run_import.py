"""Strange files on the Runs page: none is imported partially, breaks the page or adds markup."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import msgspec
import pytest

from specviz.comparison import compare, comparison_to_json
from specviz.player.replay import replay_html, script_json
from specviz.store import Library, trace_to_json
from specviz.store.saving import save_run
from specviz.ui.runs import importing
from specviz.ui.runs.importing import MOST_FILES, Imported, import_files
from tests.comparison.synthetic import make_plan, runs_of
from tests.hostile_traces import MARKUP, SCRIPT, refused_files, strange_traces
from tests.traces import full_trace, make_trace
from tests.ui.paging import opened, page_of, sent, sound
from tests.ui.runs_page import choose

pytestmark = pytest.mark.usefixtures("loads_nothing")

REFUSED = refused_files()
STRANGE = strange_traces()


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path / "home"))
    return Library()


def content(name: str) -> bytes:
    return trace_to_json(STRANGE[name]).encode()


def test_there_are_enough_strange_files() -> None:
    assert len(REFUSED) >= 50


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_is_not_a_trace_changes_nothing(library: Library, name: str) -> None:
    done = import_files(library, [(f"{name}.json", REFUSED[name])])
    assert (done.run_ids, len(done.refused)) == ((), 1)
    assert done.refused[0].startswith(f"{name}.json: ")
    assert "\n" not in done.refused[0]
    assert len(done.refused[0]) < 400
    assert library.count() == 0


def test_names_the_kind_of_another_file(library: Library) -> None:
    plan = make_plan(2, 8, repeats=1)
    made = comparison_to_json(compare(plan, runs_of(plan, lambda job: {})))
    files = [("a.json", json.dumps(made).encode()), ("b.json", b"{}"), ("c.json", b'{"kind": ')]
    assert import_files(library, files).refused == (
        "a.json: It is a comparison of runs. Import the trace of one run.",
        "b.json: It is not a specviz trace. Choose a file written by specviz.",
        "c.json: It is damaged: it is cut off. Save the run again, or use another copy.",
    )


@pytest.mark.parametrize(
    "content",
    [b"[" * 800_000, b"[" + b"[]," * 800_000 + b"1]", b"[" + b"1," * 5_000_000 + b"1]"],
    ids=["nested", "lists", "numbers"],
)
def test_refuses_a_file_of_too_many_parts_before_parsing(
    library: Library, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specviz.ui.runs.importing.parsed", None)
    done = import_files(library, [("a.json", content)])
    assert done.refused == (
        "a.json: It has too many parts for a trace. Choose a file written by specviz.",
    )


def test_parses_a_file_of_another_kind_once(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsings: list[str] = []
    decode = msgspec.json.decode

    def counted(text: str) -> object:
        parsings.append(text)
        return decode(text)

    monkeypatch.setattr(msgspec.json, "decode", counted)
    assert len(import_files(library, [("a.json", b'{"kind": "x"}')]).refused) == 1
    assert len(parsings) == 1


def test_imports_a_good_file_beside_bad_ones(library: Library) -> None:
    good = trace_to_json(full_trace()).encode()
    done = import_files(library, [("a.json", b"{"), ("b.json", good), ("c.json", b"[]")])
    assert [line.split(":")[0] for line in done.refused] == ["a.json", "c.json"]
    (row,) = library.find()
    assert (row.id, row.name) == (done.run_ids[0], "b")
    assert library.open(row.id) == full_trace()


def test_the_same_file_twice_is_one_run(library: Library) -> None:
    good = trace_to_json(full_trace()).encode()
    (first,) = import_files(library, [("a.json", good)]).run_ids
    library.annotate(first, name="my best")
    library.delete([first])
    again = import_files(library, [("b.json", good)])
    assert (again.run_ids, again.known) == ((first,), 1)
    assert [row.name for row in library.find()] == ["my best"]


def test_importing_an_exported_run_keeps_its_id(library: Library) -> None:
    mine = save_run(library, full_trace())
    other = trace_to_json(make_trace()).encode()
    exported = trace_to_json(library.open(mine)).encode()
    done = import_files(library, [("mine.json", exported), ("other.json", other)])
    assert (done.run_ids[0], done.known, library.count()) == (mine, 1, 2)
    app = page_of("runs")
    app.session_state["runs imported"] = done, time.monotonic()
    sound(app.run())
    assert [each.value for each in app.success] == ["1 run imported. 1 was already in the library."]


def test_refuses_too_many_files(library: Library) -> None:
    files = [(f"{n}.json", b"{") for n in range(MOST_FILES + 2)]
    assert "More than" in import_files(library, files).refused[-1]


def test_refuses_a_file_one_byte_over_the_limit(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = trace_to_json(full_trace()).encode()
    monkeypatch.setattr(importing, "MOST_BYTES", len(content))
    assert import_files(library, [("run.json", content + b" ")]).refused
    assert not import_files(library, [("run.json", content)]).refused


def test_shortens_a_name_to_one_line(library: Library) -> None:
    name = "../../etc/\u202e\n" + "n" * 500 + ".json"
    good = trace_to_json(full_trace()).encode()
    import_files(library, [(name, good)])
    (row,) = library.find()
    assert row.name.isprintable()
    assert len(row.name) <= 80


def test_shows_refusals_as_plain_text(library: Library) -> None:
    name = f"{SCRIPT}{MARKUP}.json"
    app = page_of("runs")
    refused = import_files(library, [(name, REFUSED["html"])])
    app.session_state["runs imported"] = refused, time.monotonic()
    sound(app.run())
    assert SCRIPT in app.text[0].value
    assert not any("script" in each.value for each in (*app.markdown, *app.error))


@pytest.mark.parametrize("name", STRANGE)
def test_an_imported_file_can_be_listed_opened_and_watched(library: Library, name: str) -> None:
    done = import_files(library, [("strange.json", content(name))])
    assert isinstance(done, Imported)
    if done.refused:
        assert library.count() == 0
        return
    app = page_of("runs")
    assert len(app.dataframe[0].value) == 1
    choose(app, 0)
    sound(app.button(key="runs_compare").click().run())
    data = sent(opened(run=done.run_ids[0]))
    assert data["run"]["id"] == done.run_ids[0]
    assert script_json(data)  # raises for numbers that a browser cannot read
    assert replay_html(library.open(done.run_ids[0]))


def test_escapes_markup_in_a_name(library: Library) -> None:
    good = trace_to_json(make_trace()).encode()
    (run_id,) = import_files(library, [("x.json", good)]).run_ids
    library.annotate(run_id, name=MARKUP)
    app = page_of("runs")
    choose(app, 0)
    shown = " ".join(each.value for each in (*app.markdown, *app.caption))
    assert "example" in shown
    others = shown.replace("[Guide](docs?chapter=runs)", "")
    assert re.search(r"(?<!\\)[\[$]", others) is None  # characters that could start a link
    assert app.dataframe[0].value["Run"].iloc[0] == MARKUP
