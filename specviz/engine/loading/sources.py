"""Find a model: in an embedded pair, a folder, a GGUF file, Ollama, or the Hub.

A ``Source`` is one model on disk. Each format is a subclass, so a new format needs a subclass
and a line in ``open_source``. An invalid source raises an error before any weights are read. Only
safetensors and GGUF weights are read, and a model's own code is never run.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from specviz.engine.loading import hub
from specviz.engine.loading.folder_source import FolderSource
from specviz.engine.loading.model_config import read_config
from specviz.engine.loading.plain_source import PlainSource, is_plain
from specviz.engine.loading.source import Source
from specviz.errors import ModelFileError, PairError, shortened
from specviz.formats.heads import head_kind
from specviz.formats.ollama import PREFIX, find_ollama
from specviz.installation import INSTALL_CHAT
from specviz.record.drafters import head_method
from specviz.record.pairs import (
    CHAT_PAIR,
    DEFAULT_PAIR,
    EMBEDDED_HEADS,
    PairSpec,
    ProgressCallback,
    chat_file,
    is_address,
    pairs_folder,
)
from specviz.values import Value


class Chosen(Value):
    """The requested pair: its name, and where its models are (a folder, a file or a Hub id)."""

    name: str
    target: str
    draft: str | None
    target_name: str
    draft_name: str | None
    plain: bool = False  # whether the models are loaded without transformers


def choose(spec: PairSpec) -> Chosen:
    """Return the names and locations of the models that ``spec`` requests.

    Raises:
        PairError: a name and a target are both given, a draft is given without a target, or the
            name is unknown.
    """
    target, draft = spec.target, spec.draft
    if target is None:
        if draft is not None:
            raise PairError("A draft is given without a target.", remedy="Also give a target.")
        chosen = _embedded(spec.name or DEFAULT_PAIR)
        lean = spec.step != "library" and not spec.shared_vocabulary
        return replace(chosen, plain=chosen.plain and lean)
    if spec.name is not None:
        raise PairError(
            f"Both the pair {spec.name!r} and the target {target!r} are given.",
            remedy="Give either the pair or the target.",
        )
    names = [_as_text(place) for place in (target, draft) if place is not None]
    return Chosen(
        name=" + ".join(names),
        target=target,
        draft=draft,
        target_name=names[0],
        draft_name=names[1] if draft is not None else None,
    )


def _as_text(place: str) -> str:
    """Replace characters that UTF-8 cannot encode, because a run's record must be UTF-8."""
    return place.encode("utf-8", "replace").decode()


def _embedded(name: str) -> Chosen:
    if name == CHAT_PAIR:
        return _chat_model()
    if name in EMBEDDED_HEADS:
        pair, kind = EMBEDDED_HEADS[name]
        head, target = pairs_folder() / pair / kind, _embedded(pair)
        plain = is_plain(Path(target.target))
        return replace(target, name=name, draft=str(head), draft_name=name, plain=plain)
    folder = pairs_folder()
    available = sorted(entry.name for entry in folder.glob("*") if (entry / "target").is_dir())
    if name not in available:
        _refuse_embedded(name, available)
    return Chosen(
        name=name,
        target=str(folder / name / "target"),
        draft=str(folder / name / "draft"),
        target_name=f"{name}/target",
        draft_name=f"{name}/draft",
        plain=all(is_plain(folder / name / side) for side in ("target", "draft")),
    )


def _chat_model() -> Chosen:
    file = chat_file()
    if file is None:
        raise PairError(
            f"The chat model {CHAT_PAIR} is not installed.",
            remedy=f"Install it with `{INSTALL_CHAT}`.",
        )
    return Chosen(
        name=CHAT_PAIR, target=str(file), draft=None, target_name=CHAT_PAIR, draft_name=None
    )


def _refuse_embedded(name: str, available: list[str]) -> NoReturn:
    if name == DEFAULT_PAIR:
        raise PairError(
            f"The embedded pair is not installed: assets/pairs/{name} is missing.",
            remedy="Download the whole project again, or give a draft and a target.",
        )
    known = ", ".join(available) or "none"
    raise PairError(
        f"There is no embedded pair {name!r}.",
        remedy=f"Choose an available pair ({known}), or give a draft and a target.",
    )


def open_plain(place: str, name: str) -> PlainSource:
    """Open a model for which ``is_plain`` is true."""
    folder = Path(place)
    return PlainSource(name=name, folder=folder, config=read_config(folder, name, plain=True))


def open_source(place: str, name: str, on_progress: ProgressCallback) -> Source:
    """Find the model that ``place`` names: a file, a folder, an Ollama model or a Hub id.

    Raises:
        PairError: there is no such model, or it is not a causal language model.
    """
    from specviz.engine.loading.gguf_source import open_gguf

    if place.startswith(PREFIX):
        return open_gguf(find_ollama(place), name)
    path = os.path.expanduser(place)  # unlike Path.expanduser, it never raises
    if place and os.path.isdir(path):
        _refuse_head(Path(path), name)
        return FolderSource(name=name, folder=Path(path), config=read_config(Path(path), name))
    if os.path.isfile(path):
        return open_gguf(Path(path), name)
    if is_address(place):
        raise PairError(
            f"{shortened(place)} is an address, but this command loads models from this machine.",
            remedy="Give a model folder, a GGUF file or a Hub id, or watch the server with "
            "`python -m specviz attach`.",
        )
    refuse_missing_path(place, name)
    folder = hub.fetch_small_files(place, on_progress)
    _refuse_head(folder, name)
    return FolderSource(name=name, folder=folder, config=read_config(folder, name), hub_id=place)


def _refuse_head(folder: Path, name: str) -> None:
    try:
        kind = head_kind(folder)
    except (ModelFileError, OSError):  # reading the configuration will raise a clear error
        return
    if kind:
        raise PairError(
            f"{name} is a drafting head, not a model.",
            remedy=f"Give the head as the draft of its target, with drafter={head_method(kind)}.",
        )


def refuse_missing_path(place: str, name: str) -> None:
    """Raise PairError if ``place`` cannot be a Hub id, because it is empty or a path."""
    if not place.strip() or _looks_like_path(place):
        raise PairError(
            f"The folder or file {name!r} does not exist.",
            remedy="Give a model folder, a GGUF file or a Hub id.",
        )


def _looks_like_path(place: str) -> bool:
    return place.startswith((".", "/", "~")) or place.count("/") > 1 or "\\" in place
