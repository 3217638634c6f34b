"""The library stores answers of other engines beside our runs, without inventing figures."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from specviz.errors import StoreError
from specviz.store import Library, NewRun, Query
from specviz.store.saving import save_run, summary_of
from specviz.store.tables import parquet, rounds_csv, rounds_of_runs
from tests.record.server_traces import PLAIN, server_trace, without_rounds
from tests.traces import full_trace


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "runs.db")


def test_own_runs_and_answers_are_stored_listed_and_opened(library: Library) -> None:
    own = save_run(library, full_trace())
    answer = save_run(library, server_trace())
    assert library.open_any(own) == library.open(own) == full_trace()
    assert library.open_any(answer) == server_trace()
    assert {row.id for row in library.find()} == {own, answer}
    again = NewRun(trace=server_trace(), summary=summary_of(server_trace()))
    assert library.add_unless_there(again) == (answer, True)


def test_unreported_columns_are_none(library: Library) -> None:
    row = library.row(save_run(library, server_trace())).summary
    assert (row.engine, row.pair, row.gamma, row.tokens) == ("vLLM 0.32.0", "tiny", 5, 15)
    assert (row.tau, row.temperature, row.finish) == (3.5, 0.0, "eos")
    assert row.tokens_per_second == pytest.approx(14 / 0.08)
    unknown = (row.rule, row.drafter, row.alpha_observed, row.alpha_expected, row.speedup, row.kind)
    assert set(unknown) == {None}


def test_a_server_without_metrics_has_no_figures(library: Library) -> None:
    trace = without_rounds(server_trace())
    pieces = tuple(replace(each, num_tokens=0, texts=("a",)) for each in trace.rounds)
    row = library.row(save_run(library, replace(trace, rounds=pieces))).summary
    assert (row.engine, row.pair) == ("OpenAI-compatible server", PLAIN.model)
    assert (row.gamma, row.tokens, row.tau, row.tokens_per_second) == (None, None, None, None)


def test_open_rejects_an_answer_and_names_its_engine(library: Library) -> None:
    answer = save_run(library, server_trace())
    with pytest.raises(StoreError, match=r"an answer of another engine \(vLLM 0.32.0\)"):
        library.open(answer)


def test_runs_are_found_by_engine(library: Library) -> None:
    own, answer = save_run(library, full_trace()), save_run(library, server_trace())
    bare = save_run(library, without_rounds(server_trace()))
    assert library.facets().engines == ("OpenAI-compatible server", "vLLM 0.32.0", None)

    def found(*engines: str | None) -> set[str]:
        return {row.id for row in library.find(Query(engines=engines))}

    assert found(None) == {own}
    assert found("vLLM 0.32.0") == {answer}
    assert found("vLLM 0.32.0", None) == {answer, own}
    assert found() == {own, answer, bare}
    assert {row.id for row in library.find(Query(search="upon time"))} >= {answer, bare}


@pytest.mark.parametrize("sort", ["gamma", "tokens", "tau", "created"])
def test_unknown_values_sort_last(library: Library, sort: str) -> None:
    save_run(library, full_trace())
    trace = without_rounds(server_trace())
    bare = save_run(library, replace(trace, rounds=tuple(
        replace(each, num_tokens=0, texts=("a",)) for each in trace.rounds
    ), created="2000"))  # fmt: skip
    for descending in (False, True):
        rows = library.find(Query(sort=sort, descending=descending))  # type: ignore[arg-type]
        assert rows[-1].id == bare or (sort == "created" and not descending)


def test_own_runs_have_no_engine() -> None:
    assert summary_of(full_trace()).engine is None
    assert summary_of(full_trace()).rule == "lossless"


def test_an_answer_can_be_named_deleted_and_restored(library: Library) -> None:
    answer = save_run(library, server_trace(), name="theirs")
    library.annotate(answer, tags=["vllm"], note="from the server")
    library.delete([answer])
    assert library.find() == ()
    library.restore([answer])
    assert library.row(answer).tags == ("vllm",)


def test_rounds_of_runs_and_answers_share_one_table() -> None:
    table = rounds_of_runs([("own", full_trace()), ("answer", server_trace())])
    theirs = [row for row in table.to_dict("records") if row["run"] == "answer"]
    assert [row["drafted"] for row in theirs[1:]] == [5, 5, 5, 5]
    assert all(math.isnan(row["verify_seconds"]) for row in theirs)
    assert len(parquet(table)) > 0
    assert rounds_csv(server_trace()).splitlines()[1] == "0,,,1,0.1,False,vLLM 0.32.0"
