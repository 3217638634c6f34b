"""Resolve model names to where the models are: a folder, file, Hub id or address."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from specviz.errors import ConfigError, ModelFileError
from specviz.formats.heads import HeadFacts, head_kind, read_head
from specviz.formats.ollama import PREFIX
from specviz.local_models.added_folders import added_folders
from specviz.local_models.finding import find_models
from specviz.local_models.searching import path_at
from specviz.record.drafters import DRAFT_METHODS, DraftMethod, first_method, head_method
from specviz.record.pairs import EMBEDDED_HEADS, OWN_MTP, PairSpec, installed_pairs, is_address
from specviz.record.run_config import RunConfig


def place_of(name: str) -> str:
    """Return the folder, file or Hub id of the local model with this name.

    Any other name (a path, a server's address or a Hub id, for example) is returned unchanged.

    Raises:
        ConfigError: Several models have this name.
    """
    if name == OWN_MTP or is_address(name) or os.path.exists(os.path.expanduser(name)):
        return name
    found = find_models(added_folders()).named(name)
    return found.place if found is not None else name


def draft_place_of(name: str) -> str:
    """Return where the draft is: a folder, file or Hub id.

    If ``name`` is an embedded pair with a head, return where the head is.
    """
    return embedded_head(name) or place_of(name)


def embedded_head(name: str) -> str | None:
    """Return where the head of the embedded pair ``name`` is.

    Return None if no such pair is installed, or if the pair has no head.
    """
    is_head = name in EMBEDDED_HEADS and name in installed_pairs()
    return PairSpec(name=name).draft_place if is_head else None


def with_places(spec: PairSpec) -> PairSpec:
    """Return ``spec`` with model names replaced by folders, files or Hub ids, and ``head`` set."""
    places = {
        role: find(name)
        for role, name, find in (
            ("target", spec.target, place_of),
            ("draft", spec.draft, draft_place_of),
        )
        if name is not None
    }
    return with_head(replace(spec, **places))


def with_head(spec: PairSpec) -> PairSpec:
    """Return ``spec``; if its draft is a head, set ``head`` to the head's method (``eagle``, …)."""
    if spec.draft is None:
        return spec
    head = OWN_MTP if spec.draft == OWN_MTP else head_at(spec.draft)
    return replace(spec, head=head or spec.head)


def with_drafter(spec: PairSpec, drafter: str) -> PairSpec:
    """Return ``spec`` with ``head`` set, if the drafter's name implies a head.

    The name is needed for a head on the Hub that is not downloaded yet, because its files cannot be
    read. For the drafter ``mtp``, a missing draft becomes the target's own MTP layers.
    """
    if drafter == OWN_MTP and spec.target is not None and spec.draft is None:
        return replace(spec, draft=OWN_MTP, head=OWN_MTP)
    method = DRAFT_METHODS.get(drafter)
    unknown = spec.draft is not None and not os.path.exists(os.path.expanduser(spec.draft))
    if method is not None and method.needs_head and not spec.head and unknown:
        return replace(spec, head=method.name)
    return spec


def head_at(place: str) -> str:
    """Return the draft method of the head at ``place``, such as ``eagle``; empty without a head."""
    if is_address(place) or place.startswith(PREFIX):
        return ""
    try:
        path = path_at(place)
        if path is None:
            return ""
        return _head_in(path, (path / "config.json").stat().st_mtime_ns)
    except (OSError, ValueError):
        return ""


def other_target_of(spec: PairSpec) -> str:
    """Return the target that the head's files name, if it is not the pair's; else an empty text.

    The result is empty, too, if the files are not on this machine or cannot be read.
    """
    if not spec.head or spec.draft in (None, OWN_MTP) or spec.target is None:
        return ""
    try:
        path = path_at(spec.draft)
        facts = None if path is None else _facts(path, (path / "config.json").stat().st_mtime_ns)
    except (OSError, ValueError):
        return ""
    return "" if facts is None else facts.other_target(spec.target)


@lru_cache(maxsize=64)
def _facts(folder: Path, changed: int) -> HeadFacts | None:
    del changed
    try:
        return read_head(folder)
    except ModelFileError:  # loading the head reports the error
        return None


@lru_cache(maxsize=64)
def _head_in(folder: Path, changed: int) -> str:
    del changed
    try:
        return head_method(head_kind(folder))
    except ModelFileError:  # loading the head says what is wrong
        return ""


def with_fitting_drafter(config: RunConfig, spec: PairSpec) -> RunConfig:
    """Return the settings; replace a drafter that does not fit the pair by the pair's default."""
    if config.draft_method.fits(spec.draft_kind):
        return config
    return replace(config, drafter=first_method(spec.draft_kind).name)


def check_drafter(spec: PairSpec, method: DraftMethod) -> None:
    """Raise ConfigError if the drafter does not work with the pair's draft.

    A drafter may need a head of its kind, or a draft model that is not a head.
    """
    if method.needs_head and not method.fits(spec.draft_kind):
        raise ConfigError(
            f"drafter={method.name} needs {method.does.partition(',')[0]} as its draft.",
            remedy="Give the head's folder or Hub id as the draft.",
        )
    if spec.head and method.needs_draft:
        raise ConfigError(
            "The draft is a head, not a model.", remedy=f"Choose drafter={spec.head}."
        )
