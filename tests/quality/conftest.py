"""Fixtures: the tiny pair and its separate data folder."""

from tests.tiny_pair import folder, one_thread, pair, shared_home

__all__ = ["folder", "one_thread", "pair", "shared_home"]
