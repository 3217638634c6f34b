"""The engine: an exact draft/target pair that yields every round as a plain value."""

from specviz.engine.checkup import check_pair
from specviz.engine.loading import load_pair
from specviz.engine.pair import Pair
from specviz.engine.plain import plain
from specviz.engine.speculation import Speculation, speculate

__all__ = ["Pair", "Speculation", "check_pair", "load_pair", "plain", "speculate"]
