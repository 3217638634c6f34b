"""Install a trained pair in the assets, with its model cards. Run `make recordings` afterwards."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path

from specviz import ASSETS
from specviz.engine import Pair, load_pair
from specviz.measure.forecast import SHIPPED as ACCEPTANCE
from specviz.measure.forecast import measure_for_shipping
from specviz.record.pairs import PairSpec
from specviz.store.files import to_json
from specviz.training.card import draft_card, target_card
from specviz.training.corpus import Source
from specviz.training.recipe import Recipe
from specviz.training.report import measure_report

SHIPPED = ASSETS / "pairs" / "tinystories"
_FILES = (
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
)


def ship(trained: Path, sources: dict[str, Source], recipe: Recipe, corpus: Path) -> None:
    """Copy the pair to the assets, measure it, and write its model cards and its acceptance."""
    for role in ("target", "draft"):
        (SHIPPED / role).mkdir(parents=True, exist_ok=True)
        for name in _FILES:
            shutil.copyfile(trained / role / name, SHIPPED / role / name)
    for attribution in corpus.glob("*_ATTRIBUTION.tsv"):
        shutil.copyfile(attribution, SHIPPED / "ATTRIBUTION.tsv")
    report = measure_report(SHIPPED, sources)
    (SHIPPED / "target" / "README.md").write_text(target_card(recipe, report), encoding="utf-8")
    (SHIPPED / "draft" / "README.md").write_text(draft_card(recipe, report), encoding="utf-8")
    pair = load_pair(PairSpec())
    ship_acceptance(pair)


def ship_acceptance(pair: Pair) -> None:
    """Measure the pair's acceptance on the preset prompts and save it for forecasts."""
    ACCEPTANCE.write_text(to_json(asdict(measure_for_shipping(pair))) + "\n", encoding="utf-8")
