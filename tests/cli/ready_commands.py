"""The command line in a process with a loaded pair, for ``tests.nursery``."""

from __future__ import annotations

import importlib

import torch

from specviz.cli import main
from specviz.engine import load_pair
from specviz.measure import loaded_pairs
from specviz.record.pairs import PairSpec
from tests.nursery import Called


def prepare(draft: str, target: str) -> Called:
    torch.set_num_threads(1)
    pair = load_pair(PairSpec(draft=draft, target=target, threads=1))
    for name in ("comparison.comparison_job", "measure.run_makers"):
        importlib.import_module(f"specviz.{name}")
    loaded_pairs.load = lambda _spec, _on_progress: pair
    return main
