"""A head whose files name another target is refused, unless the pair allows it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specviz.engine import Pair, load_pair
from specviz.errors import PairError
from specviz.local_models.naming import other_target_of, with_head
from specviz.record.heads import HeadInfo
from specviz.record.pairs import OWN_MTP, PairSpec, spec_of

EMBEDDED = PairSpec(name="tinystories-eagle3")
NAMED = "tinystories/target"


@pytest.fixture
def spec(tmp_path: Path) -> PairSpec:
    """The embedded target under another name, with its own head."""
    folder = tmp_path / "renamed"
    folder.symlink_to(EMBEDDED.target_place)
    assert EMBEDDED.draft_place is not None
    return with_head(PairSpec(target=str(folder), draft=EMBEDDED.draft_place, threads=1))


def head_of(pair: Pair) -> HeadInfo:
    assert pair.info.draft is not None
    assert pair.info.draft.head is not None
    return pair.info.draft.head


def test_another_target_is_refused_with_both_names(spec: PairSpec) -> None:
    with pytest.raises(PairError) as caught:
        load_pair(spec)
    assert NAMED in caught.value.culprit
    assert str(spec.target) in caught.value.culprit
    assert "--other-target" in caught.value.remedy


def test_another_target_is_loaded_on_request_with_a_notice(spec: PairSpec) -> None:
    pair = load_pair(replace(spec, other_target=True))
    assert head_of(pair).named_target == NAMED
    assert [each for each in pair.notices if NAMED in each and "few" in each]
    assert spec_of(pair.info) == replace(spec, other_target=True, threads=None)


def test_the_own_target_needs_no_request() -> None:
    pair = load_pair(replace(EMBEDDED, threads=1))
    assert head_of(pair).named_target == ""
    assert not [each for each in pair.notices if NAMED in each]
    assert not spec_of(pair.info).other_target


def test_the_names_are_compared_before_anything_is_loaded(spec: PairSpec, tmp_path: Path) -> None:
    assert other_target_of(spec) == NAMED
    assert other_target_of(replace(spec, target=EMBEDDED.target_place)) == ""
    assert other_target_of(replace(spec, target="maker/Target")) == ""
    assert other_target_of(replace(spec, draft=str(tmp_path))) == ""
    assert other_target_of(replace(spec, draft=OWN_MTP)) == ""
    assert other_target_of(PairSpec()) == ""
