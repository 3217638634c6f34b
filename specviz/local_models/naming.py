"""Resolve model names that the user typed."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from specviz.errors import ConfigError, ModelFileError
from specviz.formats.heads import read_head
from specviz.local_models.added_folders import added_folders
from specviz.local_models.finding import find_models
from specviz.record.drafters import DRAFT_METHODS, DraftMethod, head_method
from specviz.record.pairs import OWN_MTP, PairSpec, is_address


def place_of(name: str) -> str:
    """Return the ``place`` of the model with this name on this machine; else the name itself.

    A path, a server's address and a Hub id stay as they are.

    Raises:
        ConfigError: Several models have this name.
    """
    if name == OWN_MTP or is_address(name) or os.path.exists(os.path.expanduser(name)):
        return name
    found = find_models(added_folders()).named(name)
    return found.place if found is not None else name


def with_places(spec: PairSpec) -> PairSpec:
    """Return ``spec`` with the names of local models replaced by their places, and its head."""
    places = {
        role: place_of(name)
        for role, name in (("target", spec.target), ("draft", spec.draft))
        if name is not None
    }
    return with_head(replace(spec, **places))


def with_head(spec: PairSpec) -> PairSpec:
    """Return ``spec`` with the kind of head that its draft is; empty for a model."""
    if spec.draft is None:
        return spec
    head = OWN_MTP if spec.draft == OWN_MTP else head_at(spec.draft)
    return replace(spec, head=head or spec.head)


def with_drafter(spec: PairSpec, drafter: str) -> PairSpec:
    """Return ``spec`` with what a drafter's name says about its draft.

    The head may be on the Hub, so that its files are not known yet. ``mtp`` needs no draft.
    """
    if drafter == OWN_MTP and spec.target is not None and spec.draft is None:
        return replace(spec, draft=OWN_MTP, head=OWN_MTP)
    method = DRAFT_METHODS.get(drafter)
    unknown = spec.draft is not None and not os.path.exists(os.path.expanduser(spec.draft))
    if method is not None and method.needs_head and not spec.head and unknown:
        return replace(spec, head=method.name)
    return spec


def head_at(place: str) -> str:
    """Return the draft method of the head in a folder; empty if there is no known head."""
    path = Path(os.path.expanduser(place))
    try:
        return _head_in(path, (path / "config.json").stat().st_mtime_ns)
    except OSError:
        return ""


@lru_cache(maxsize=64)
def _head_in(folder: Path, changed: int) -> str:
    del changed
    try:
        facts = read_head(folder)
    except ModelFileError:  # loading it says what is wrong
        return ""
    return "" if facts is None else head_method(facts.kind)


def check_drafter(spec: PairSpec, method: DraftMethod) -> None:
    """Raise ConfigError for a drafter that does not work with the pair's kind of draft."""
    if method.needs_head and not method.fits(spec.draft_kind):
        raise ConfigError(
            f"drafter={method.name} needs {method.does.partition(',')[0]} as its draft.",
            remedy="Give the head's folder or Hub id as the draft.",
        )
    if spec.head and method.needs_draft:
        raise ConfigError(
            "The draft is a head, not a model.", remedy=f"Choose drafter={spec.head}."
        )
