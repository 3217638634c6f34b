"""Resolve model names that the user typed."""

from __future__ import annotations

import os
from dataclasses import replace

from specviz.local_models.added_folders import added_folders
from specviz.local_models.finding import find_models
from specviz.record.pairs import PairSpec, is_address


def place_of(name: str) -> str:
    """Return the ``place`` of the model with this name on this machine; else the name itself.

    A path, a server's address and a Hub id stay as they are.

    Raises:
        ConfigError: Several models have this name.
    """
    if is_address(name) or os.path.exists(os.path.expanduser(name)):
        return name
    found = find_models(added_folders()).named(name)
    return found.place if found is not None else name


def with_places(spec: PairSpec) -> PairSpec:
    """Return ``spec`` with the names of local models replaced by their places."""
    places = {
        role: place_of(name)
        for role, name in (("target", spec.target), ("draft", spec.draft))
        if name is not None
    }
    return replace(spec, **places)
