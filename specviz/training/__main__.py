"""``python -m specviz.training``: train the pair, measure it, or install it.

--corpus FOLDER --out FOLDER      train, or resume training; the pair is written to OUT/pair
--evaluate --corpus FOLDER        measure the shipped pair on the held-out documents
--ship OUT/pair --corpus FOLDER   copy a pair to the assets, with model cards and its acceptance
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

import torch

from specviz.errors import SpecvizError, TrainingError
from specviz.training.corpus import read_sources
from specviz.training.pipeline import make_pair
from specviz.training.recipe import RECIPES
from specviz.training.report import measure_report
from specviz.training.shapes import measure_shapes, shapes_table
from specviz.training.shipping import SHIPPED, ship


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        _run(options)
    except SpecvizError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m specviz.training",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--corpus", type=Path, help="folder of .txt files")
    parser.add_argument(
        "--shapes", action="store_true", help="time the steps of a few model shapes"
    )
    parser.add_argument("--out", type=Path, help="folder for checkpoints, logs and the pair")
    parser.add_argument("--evaluate", action="store_true", help="measure the shipped pair")
    parser.add_argument("--ship", type=Path, metavar="PAIR", help="folder of a trained pair")
    parser.add_argument("--recipe", choices=sorted(RECIPES), help="default: chosen by device")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--threads", type=int, help="CPU threads (default: all cores)")
    return parser


def _run(options: argparse.Namespace) -> None:
    if options.threads:
        torch.set_num_threads(options.threads)
    if options.shapes:
        print(shapes_table(*measure_shapes()))
        return
    if options.corpus is None:
        raise TrainingError("No corpus.", remedy="Add --corpus FOLDER.")
    device = _device(options.device)
    sources = read_sources(options.corpus)
    recipe = RECIPES[options.recipe or ("gpu" if device.type == "cuda" else "cpu")]
    if options.evaluate:
        _print_figures(asdict(measure_report(SHIPPED, sources)))
    elif options.ship:
        ship(options.ship, sources, recipe, options.corpus)
    elif options.out is None:
        raise TrainingError("No output folder.", remedy="Add --out FOLDER.")
    else:
        make_pair(sources, recipe, options.out, device, report=lambda text: print(text, flush=True))


def _print_figures(figures: dict[str, object]) -> None:
    print(json.dumps(figures, indent=2, ensure_ascii=False))


def _device(name: str) -> torch.device:
    if name != "auto":
        return torch.device(name)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


if __name__ == "__main__":
    sys.exit(main())
