"""Requested pairs, checks of pairs, and the known pairs."""

from __future__ import annotations

import pickle
from itertools import pairwise
from pathlib import Path

import pytest

from specviz.record import pairs
from specviz.record.pairs import (
    CHAT_HEAD,
    CHAT_PAIR,
    KnownPair,
    ModelCheck,
    PairCheck,
    PairSpec,
    default_gamma,
    installed_pairs,
    known_pairs,
)

FAMILIES = {"Qwen2.5", "Qwen3", "Llama 3", "Gemma 2", "Gemma 3", "Pythia", "GPT-2", "SmolLM2"}


def model(parameters: int) -> ModelCheck:
    return ModelCheck(name="m", family="llama", parameters=parameters, bytes_to_fetch=0)


def found(*, draft: int | None, needed: int = 10, free: int | None = 10) -> PairCheck:
    return PairCheck(
        target=model(60),
        draft=None if draft is None else model(draft),
        vocabulary=9,
        memory_needed=needed,
        memory_free=free,
    )


@pytest.mark.parametrize(
    ("spec", "embedded", "needs_draft", "label"),
    [
        (PairSpec(), True, True, "embedded pair"),
        (PairSpec(name="tinystories"), True, True, "tinystories"),
        (PairSpec(target="T", draft="D"), False, True, "T + D"),
        (PairSpec(target="T"), False, False, "T"),
    ],
)
def test_a_requested_pair(spec: PairSpec, embedded: bool, needs_draft: bool, label: str) -> None:
    assert (spec.embedded, spec.has_draft, spec.label) == (embedded, needs_draft, label)


@pytest.mark.parametrize(
    ("target", "draft", "title"),
    [
        ("/models/a folder/Some-7B-Q4.gguf", None, "Some-7B-Q4.gguf"),
        ("~/models/large/", "./models/small", "large + small"),
        ("maker/large", "C:\\models\\small.gguf", "maker/large + small.gguf"),
        (
            "http://127.0.0.1:8000/v1/x",
            "ollama:story:1m",
            "http://127.0.0.1:8000/v1/x + ollama:story:1m",
        ),
    ],
)
def test_titles_have_names_instead_of_paths(target: str, draft: str | None, title: str) -> None:
    assert PairSpec(target=target, draft=draft).title == title


def test_a_checked_pair() -> None:
    assert found(draft=15).size_ratio == 4
    assert found(draft=None).size_ratio is None
    assert found(draft=15, needed=10, free=10).fits
    assert found(draft=15, needed=11, free=10).fits is False
    assert found(draft=15, free=None).fits is None


def test_pairs_can_be_pickled() -> None:
    for value in (PairSpec(target="T"), found(draft=15), *known_pairs()):
        assert pickle.loads(pickle.dumps(value)) == value


def numbers(size: str) -> float:
    return float(size[:-1]) * {"M": 1e6, "B": 1e9}[size[-1]]


def sizes(pair: KnownPair) -> tuple[float, float]:
    target, draft = (numbers(size) for size in pair.size.split(" + "))
    return target, draft


def test_known_pairs_are_plausible() -> None:
    known = known_pairs()
    assert {pair.family for pair in known} == FAMILIES
    assert len(known) >= 18
    for pair in known:
        target, draft = sizes(pair)
        assert target / draft > 1.8
        for place in (pair.target, pair.draft):
            owner, _, name = place.partition("/")
            assert owner
            assert name
            assert "/" not in name
        assert pair.target.split("/")[0] == pair.draft.split("/")[0]


def test_sizes_match_the_names() -> None:
    for pair in known_pairs():
        if pair.family != "GPT-2":
            for place, size in zip((pair.target, pair.draft), pair.size.split(" + "), strict=True):
                assert f"-{size}" in place.upper()


def test_known_pairs_are_sorted_by_family_and_size() -> None:
    known = known_pairs()
    titles = [(pair.family, pair.size) for pair in known]
    assert len(set(titles)) == len(titles)
    changes = sum(one.family != other.family for one, other in pairwise(known))
    assert changes == len(FAMILIES) - 1
    for one, other in pairwise(known):
        assert one.family != other.family or sizes(one) <= sizes(other)


@pytest.mark.parametrize(
    ("spec", "gamma"),
    [
        (PairSpec(), 2), (PairSpec(name="tinystories-eagle3"), 2), (PairSpec(target_body="90M"), 5),
        (PairSpec(name=CHAT_PAIR), 5), (PairSpec(name=CHAT_HEAD), 3), (PairSpec(target="a/b"), 5),
    ],
)  # fmt: skip
def test_a_pair_without_a_chosen_gamma_has_its_own(spec: PairSpec, gamma: int) -> None:
    assert default_gamma(spec) == gamma


def test_the_chat_models_head_has_the_chat_model_as_its_target() -> None:
    spec, alone = PairSpec(name=CHAT_HEAD), PairSpec(name=CHAT_PAIR)
    assert spec.target_place == alone.target_place
    assert (spec.draft_kind, alone.draft_kind) == ("eagle", "")
    assert str(spec.draft_place).endswith(f"{CHAT_PAIR}/eagle3")


def test_heads_follow_the_model_that_they_draft_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "chat_file", lambda: None)
    stories = ("tinystories", "tinystories-eagle3", "tinystories-medusa")
    assert installed_pairs() == stories
    monkeypatch.setattr(pairs, "chat_file", lambda: Path("model.gguf"))
    assert installed_pairs() == (*stories, CHAT_PAIR, CHAT_HEAD)
