"""The engine: loads a draft/target pair and decodes with it, yielding each round as a value.

If torch or another package that the engine needs is not installed, importing any module of the
engine raises ConfigError, which says what to install.
"""

from specviz.installation import require_engine

require_engine()  # before the first import of torch

from specviz.engine.decoding.plain_decoding import decode_plainly
from specviz.engine.decoding.speculation import speculate
from specviz.engine.decoding.speculative_run import SpeculativeRun
from specviz.engine.loading.body_room import body_room
from specviz.engine.loading.checkup import check_pair
from specviz.engine.loading.late_kernels import add_kernels
from specviz.engine.loading.loading import load_pair
from specviz.engine.model.pair import Pair

__all__ = [
    "Pair",
    "SpeculativeRun",
    "add_kernels",
    "body_room",
    "check_pair",
    "decode_plainly",
    "load_pair",
    "speculate",
]
