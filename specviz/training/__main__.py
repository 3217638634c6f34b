"""``python -m specviz.training``: train the pair, or reproduce the figures of its card."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from specviz.errors import SpecvizError, TrainingError
from specviz.training.corpus import read_sources
from specviz.training.pipeline import make_pair
from specviz.training.recipe import RECIPES


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        _run(options)
    except SpecvizError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m specviz.training", description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True, help="folder of .txt files")
    parser.add_argument("--out", type=Path, help="folder for checkpoints, logs and the pair")
    parser.add_argument("--recipe", choices=sorted(RECIPES), help="default: by device")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or mps")
    parser.add_argument("--threads", type=int, help="CPU threads (default: all cores)")
    return parser


def _run(options: argparse.Namespace) -> None:
    if options.threads:
        torch.set_num_threads(options.threads)
    device = _device(options.device)
    sources = read_sources(options.corpus)
    if options.out is None:
        raise TrainingError("No output folder.", remedy="Give one with --out FOLDER.")
    recipe = RECIPES[options.recipe or ("gpu" if device.type == "cuda" else "cpu")]
    make_pair(sources, recipe, options.out, device, say=lambda text: print(text, flush=True))


def _device(name: str) -> torch.device:
    if name != "auto":
        return torch.device(name)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


if __name__ == "__main__":
    sys.exit(main())
