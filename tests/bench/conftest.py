"""The tiny pair, and a separate data folder."""

from tests.step_costs import rough_costs
from tests.tiny_pair import empty_home, folder, library_pair, one_thread, pair, shared_home

__all__ = [
    "empty_home", "folder", "library_pair", "one_thread", "pair", "rough_costs", "shared_home",
]  # fmt: skip
