"""specviz: run speculative decoding on a real pair of models, watch it and measure it."""

from pathlib import Path

from specviz.moved_modules import find_moved_modules

__version__ = "1.0.0"
_PACKAGE = Path(__file__).parent
_DASHBOARD = _PACKAGE / "dashboard"  # exists only in an installed package
IS_INSTALLED = _DASHBOARD.is_dir()
ROOT = _DASHBOARD if IS_INSTALLED else _PACKAGE.parent  # the folder of app.py, pages and assets
ASSETS = ROOT / "assets"

find_moved_modules()
