"""Heads are recognised by their files, and named like draft models."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from specviz.engine.loading.sources import open_source
from specviz.errors import ConfigError, PairError
from specviz.formats.head_corrections import corrected_config
from specviz.formats.heads import read_head
from specviz.local_models.naming import (
    check_drafter,
    draft_place_of,
    head_at,
    place_of,
    with_drafter,
    with_fitting_drafter,
    with_head,
    with_places,
)
from specviz.record.drafters import DRAFT_METHODS
from specviz.record.pairs import PairSpec
from specviz.record.run_config import RunConfig
from tests.engine.heads.tiny_dflash import write_dflash
from tests.engine.heads.tiny_heads import change_config, write_eagle3
from tests.engine.heads.tiny_medusa import write_medusa

SPEC = PairSpec(target="maker/target")


def test_a_head_is_recognised_in_a_folder_and_in_the_hub_cache(home: Path) -> None:
    folder = write_eagle3(home / "head", layout="speculators")
    snapshot = home / ".cache/huggingface/hub/models--maker--head/snapshots" / ("4" * 40)
    write_medusa(snapshot)
    assert head_at(str(folder)) == "eagle"
    assert head_at("maker/head") == "medusa"
    (snapshot / "model.safetensors").unlink()  # not downloaded yet
    assert head_at("maker/head") == "medusa"
    assert head_at("maker/other") == ""
    assert head_at("\0") == ""
    assert with_head(replace(SPEC, draft=str(folder))).draft_kind == "eagle"
    assert with_head(replace(SPEC, draft="mtp")).draft_kind == "mtp"


def test_the_name_of_an_embedded_pair_with_a_head_is_that_of_its_head() -> None:
    place = draft_place_of("tinystories-eagle3")
    assert place == PairSpec(name="tinystories-eagle3").draft_place
    assert head_at(place) == "eagle"
    assert draft_place_of("tinystories") == place_of("tinystories") == "tinystories"
    assert with_places(replace(SPEC, draft="tinystories-eagle3")).draft_kind == "eagle"


def test_a_pair_without_a_draft_has_no_head() -> None:
    for other in (PairSpec(name="tinystories"), replace(SPEC, draft=None)):
        kept = replace(PairSpec(name="tinystories-eagle3"), name=other.name, target=other.target)
        assert kept == other
        assert not kept.head
    assert PairSpec(name="tinystories-medusa").draft_kind == "medusa"
    assert PairSpec(name="tinystories-medusa").target_place == PairSpec().target_place


def test_a_drafter_names_the_kind_of_a_head_that_is_not_here() -> None:
    spec = replace(SPEC, draft="maker/unknown")
    assert with_drafter(spec, "eagle").draft_kind == "eagle"
    assert with_drafter(spec, "prompt-lookup") == spec
    assert with_drafter(SPEC, "mtp") == replace(SPEC, draft="mtp", head="mtp")
    assert with_fitting_drafter(RunConfig(), with_drafter(spec, "dflash")).drafter == "dflash"
    assert with_fitting_drafter(RunConfig(drafter="eagle"), spec).drafter == "model"


@pytest.mark.parametrize(
    ("spec", "drafter", "says"),
    [
        (SPEC, "eagle", "needs an EAGLE head"),
        (replace(SPEC, draft="x", head="eagle"), "model", "drafter=eagle"),
        (replace(SPEC, draft="x", head="eagle"), "medusa", "needs Medusa heads"),
    ],
)
def test_a_drafter_that_does_not_fit_is_refused(spec: PairSpec, drafter: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        check_drafter(spec, DRAFT_METHODS[drafter])


def test_a_head_is_not_loaded_as_a_model(home: Path) -> None:
    folder = write_eagle3(home / "head")
    with pytest.raises(PairError, match=r"is a drafting head.*drafter=eagle"):
        open_source(str(folder), "head", lambda _: None)


def test_corrections_go_where_they_are_read(home: Path) -> None:
    folder = write_eagle3(home / "own", layout="speculators")
    facts = read_head(folder)
    assert facts is not None
    made = corrected_config(facts, {"places": (3, 5, 6), "recycle_normed": True})
    (folder / "config.json").write_text(json.dumps(made))
    found = read_head(folder)
    assert found is not None
    assert found.feature_layers == (3, 5, 6)
    assert made["norm_output"] is True
    official = read_head(write_eagle3(home / "official"))
    assert official is not None
    with pytest.raises(ConfigError, match="no key for recycle_normed"):
        corrected_config(official, {"recycle_normed": True})


def test_dflash_layers_are_corrected_in_the_list_that_is_read(home: Path) -> None:
    folder = write_dflash(home / "z")
    facts = read_head(folder)
    assert facts is not None
    assert facts.convention == "output"
    moved = tuple(each + 2 for each in facts.feature_layers)  # as inputs: one more than stated
    made = corrected_config(facts, {"places": moved})
    assert made["dflash_config"]["target_layer_ids"] == [each - 1 for each in moved]
    change_config(folder, dflash_config={"mask_token_id": 7})
    without = read_head(folder)
    assert without is not None
    with pytest.raises(ConfigError, match="no key for places"):
        corrected_config(without, {"places": (1, 2, 3)})
