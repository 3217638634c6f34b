"""specviz: watch speculative decoding happen on a real pair, and trust every number."""

from pathlib import Path

__version__ = "0.1.0"
ROOT = Path(__file__).parent.parent  # of the project, whose pages and assets stand beside this
ASSETS = ROOT / "assets"
