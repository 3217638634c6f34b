"""The loading times that are expected by earlier loads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specviz.local_models.headers import Headers
from specviz.record.pairs import PairSpec
from specviz.store.load_times import ExpectedLoad, expected_load, keep_load_time
from tests.formats.tiny_gguf import tiny_gguf


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def spec(home: Path, tmp_path: Path) -> PairSpec:
    return PairSpec(target=str(tiny_gguf(tmp_path / "model.gguf", tokens=100)))


def expected(spec: PairSpec) -> ExpectedLoad | None:
    return expected_load(spec, Headers())


def resized(spec: PairSpec, ratio: float) -> tuple[PairSpec, float]:
    """Return a target like another with about ``ratio`` times its bytes, and the exact ratio."""
    first = Path(str(spec.target))
    path = first.with_name(f"{ratio}.gguf")
    content = tiny_gguf(path, tokens=50).read_bytes()
    path.write_bytes(content + bytes(max(0, int(ratio * first.stat().st_size) - len(content))))
    return replace(spec, target=str(path)), path.stat().st_size / first.stat().st_size


def test_nothing_is_expected_without_a_load_like_it(spec: PairSpec) -> None:
    assert expected(spec) is None
    keep_load_time(spec, 3.0)
    assert expected(spec) == ExpectedLoad(low=3.0, high=3.0, num_loads=1)
    others = (
        replace(spec, target_weights="q8_0"),
        replace(spec, dtype="bfloat16"),
        replace(spec, device="cpu"),
        replace(spec, step="library"),
        replace(spec, draft=spec.target),
        PairSpec(),
    )
    assert [expected(each) for each in others] == [None] * len(others)


def test_the_range_covers_the_latest_loads_of_the_same_size(spec: PairSpec) -> None:
    for seconds in (60.0, 2.0, 5.0, 3.0, 2.5, 4.0):
        keep_load_time(spec, seconds)
    assert expected(spec) == ExpectedLoad(low=2.0, high=5.0, num_loads=5)


def test_another_size_widens_the_range_by_the_ratio_of_the_bytes(spec: PairSpec) -> None:
    larger, ratio = resized(spec, 1.5)
    keep_load_time(spec, 2.0)
    found = expected(larger)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((2.0, 2.0 * ratio))
    keep_load_time(larger, 7.0)
    assert expected(larger) == ExpectedLoad(low=7.0, high=7.0, num_loads=1)
    smaller = expected_load(spec, Headers())
    assert smaller == ExpectedLoad(low=2.0, high=2.0, num_loads=1)


def test_a_smaller_model_may_take_less(spec: PairSpec) -> None:
    larger, ratio = resized(spec, 1.5)
    keep_load_time(larger, 3.0)
    found = expected(spec)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((3.0 / ratio, 3.0))


def test_nothing_is_expected_of_a_much_larger_model(spec: PairSpec) -> None:
    larger, ratio = resized(spec, 2.5)
    assert ratio > 2
    keep_load_time(spec, 2.0)
    assert expected(larger) is None


@pytest.mark.parametrize(
    "other",
    [
        PairSpec(target_body="90M"),
        PairSpec(target="nobody/nothing"),
        PairSpec(target="ollama:nothing"),
        PairSpec(target="http://127.0.0.1:1"),
    ],
    ids=["a body", "not here", "not in Ollama", "a server"],
)
def test_other_pairs_have_no_expectation(home: Path, other: PairSpec) -> None:
    keep_load_time(other, 3.0)
    assert expected(other) is None
    assert not list(home.rglob("*.json"))


def test_the_embedded_pair_is_expected_like_any_other(home: Path) -> None:
    keep_load_time(PairSpec(), 0.5)
    assert expected(PairSpec()) == ExpectedLoad(low=0.5, high=0.5, num_loads=1)


def test_a_missing_home_folder_hides_the_expectation(
    spec: PairSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for module in ("local_models.headers", "store.kept_values"):
        monkeypatch.setattr(f"specviz.{module}.data_folder", none)
    keep_load_time(spec, 3.0)
    assert expected(spec) is None


def test_damaged_times_are_left_out(spec: PairSpec, home: Path) -> None:
    keep_load_time(spec, 3.0)
    (path,) = (home / "load-times").glob("*.json")
    text = path.read_text()
    size = Path(str(spec.target)).stat().st_size
    path.write_text(text.replace(str(size), "0"))
    assert expected(spec) is None
    path.write_text(text[:-9])
    assert expected(spec) is None


@pytest.mark.parametrize(
    ("low", "high", "num_loads", "sentence"),
    [
        (1.23, 1.23, 1, "Loading takes about 1.2 s (from 1 earlier load on this machine)."),
        (1.21, 1.24, 2, "Loading takes about 1.2 s (from 2 earlier loads on this machine)."),
        (1.2, 250.0, 3, "Loading takes 1.2 s to 4 min (from 3 earlier loads on this machine)."),
    ],
)
def test_the_sentence_has_the_range_and_its_evidence(
    low: float, high: float, num_loads: int, sentence: str
) -> None:
    assert ExpectedLoad(low=low, high=high, num_loads=num_loads).sentence == sentence
