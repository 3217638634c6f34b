"""Extra texts for suffix lookup: which are used, and that runs use and record them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specviz.engine import Pair
from specviz.errors import ConfigError
from specviz.measure.handed_texts import with_texts
from specviz.measure.measured_run import finish, measured_run
from specviz.record.run_config import RunConfig
from specviz.record.trace import Trace
from specviz.store import Library, load_trace, save_trace
from specviz.store.saving import save_run
from tests.engine.models import pair_of, tiny_model

SUFFIX = RunConfig(
    drafter="suffix", gamma=5, temperature=0.0, max_new_tokens=40, ignore_eos=True, record=False
)
PROMPT = (5, 17, 101, 42)


@pytest.fixture
def pair() -> Pair:
    target = tiny_model("llama", sigma=0.3)
    return replace(pair_of(target, target, step="lean"), draft=None)


def run(pair: Pair, prompt: tuple[int, ...] = PROMPT) -> Trace:
    return finish(measured_run(pair, prompt, SUFFIX, baseline=False))


def keep(trace: Trace) -> list[int]:
    save_run(Library(), trace)
    return [*trace.prompt.token_ids, *trace.token_ids]


def accepted(trace: Trace) -> int:
    return sum(entry.num_accepted for entry in trace.rounds)


def test_stored_runs_are_used_and_recorded(pair: Pair, empty_home: Path, tmp_path: Path) -> None:
    alone = run(pair)
    first = run(pair, (9, 8, 7))
    texts = [keep(replace(first, created="2026-01-01T00:00:00+00:00")), keep(alone)]
    handed = with_texts(pair, "library")
    copied = run(handed)
    assert copied.token_ids == alone.token_ids
    assert accepted(copied) > 25 > accepted(alone)
    digest = hashlib.sha256(json.dumps(texts).encode()).hexdigest()
    assert copied.pair.texts_sha256 == digest
    assert alone.pair.texts_sha256 is pair.info.texts_sha256 is None
    save_trace(copied, tmp_path / "run.json")
    assert load_trace(tmp_path / "run.json") == copied
    assert "texts_sha256" not in json.dumps(json.loads(_saved(alone, tmp_path))["pair"])


def _saved(trace: Trace, folder: Path) -> str:
    save_trace(trace, folder / "other.json")
    return (folder / "other.json").read_text()


def test_runs_of_other_targets_and_damaged_ones_are_skipped(pair: Pair, empty_home: Path) -> None:
    trace = run(pair)
    model = replace(trace.pair.target, weights_sha256="other")
    keep(replace(trace, pair=replace(trace.pair, target=model)))
    with pytest.raises(ConfigError, match="no text for this target"):
        with_texts(pair, "library")
    text = keep(trace)
    assert Library().texts_by(pair.info.target.weights_sha256, 10) == [text]
    assert Library().texts_by(pair.info.target.weights_sha256, 1) == [text]
    for wrong in ([], {"pair": 1}, {"pair": {"target": {"weights_sha256": "a"}}, "prompt": None}):
        assert _text_of(wrong) == []


def _text_of(trace: Any) -> list[int]:
    import zlib

    from specviz.store.written_texts import text_by

    return text_by("a", zlib.compress(json.dumps(trace).encode()))


def test_deleted_runs_are_not_used(pair: Pair, empty_home: Path) -> None:
    text, run_id = keep(run(pair)), Library().find()[0].id
    target = pair.info.target.weights_sha256
    Library().delete([run_id])
    assert Library().texts_by(target, 10) == []
    Library().restore([run_id])
    assert Library().texts_by(target, 10) == [text]


def test_a_file_is_one_text(pair: Pair, tmp_path: Path) -> None:
    class WordLengths:
        def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
            return [len(word) for word in text.split()]

    file = tmp_path / "words.txt"
    file.write_text("a bb ccc", encoding="utf-8")
    with_lengths = replace(pair, tokenizer=WordLengths())
    found = with_texts(with_lengths, str(file)).info.texts_sha256
    assert found == hashlib.sha256(b"[[1, 2, 3]]").hexdigest()
    file.write_text("", encoding="utf-8")
    for where in (file, tmp_path / "none.txt"):
        with pytest.raises(ConfigError, match="--suffix-texts"):
            with_texts(with_lengths, str(where))
