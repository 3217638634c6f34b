"""Looking up the speedup of the same pair without bodies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specviz.figures.metrics import metrics
from specviz.measure.speedup_without_body import kept_speedup_without_body
from specviz.record.pairs import PairSpec
from specviz.record.trace import Trace
from specviz.store import Library
from specviz.store.saving import save_run
from tests.traces import BODY, full_trace, with_bodies

GROWN = with_bodies(full_trace(), target=BODY)


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "runs.db")


def test_the_newest_equal_run_without_bodies_is_found(library: Library) -> None:
    assert kept_speedup_without_body(library, GROWN) is None
    save_run(library, full_trace())
    save_run(library, GROWN)
    assert kept_speedup_without_body(library, GROWN) == metrics(full_trace()).speedup_observed


OWN = full_trace()
OTHERS = {
    "seed": replace(OWN, config=replace(OWN.config, seed=OWN.config.seed + 1)),
    "prompt": replace(OWN, prompt=replace(OWN.prompt, token_ids=(1, 2, 3))),
    "weights": replace(
        OWN, pair=replace(OWN.pair, target=replace(OWN.pair.target, weights_sha256="cd" * 32))
    ),
    "machine": replace(OWN, environment=replace(OWN.environment, cpu="another")),
    "kernels": replace(OWN, environment=replace(OWN.environment, versions={})),
    "not measured": replace(OWN, baseline=None),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_a_different_run_is_not_used(library: Library, other: Trace) -> None:
    save_run(library, other)
    assert kept_speedup_without_body(library, GROWN) is None


def test_the_pair_as_it_is() -> None:
    spec = PairSpec(name="tinystories", threads=1, target_body="90M", draft_body="10M")
    assert spec.without_bodies == PairSpec(name="tinystories", threads=1)
