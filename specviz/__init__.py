"""specviz: run speculative decoding on a real pair of models, watch it and measure it."""

from pathlib import Path

from specviz.moved_modules import find_moved_modules

__version__ = "0.1.0"
ROOT = Path(__file__).parent.parent  # the project's folder, with its pages and assets
ASSETS = ROOT / "assets"

find_moved_modules()
