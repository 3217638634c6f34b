"""Find a model's folder: in an embedded pair, anywhere on disk, or in the Hub cache.

Every fault of a source raises an error here, before any weights are read: a missing folder, a
broken configuration, a pickle-only checkpoint, a truncated file, the network. Only safetensors
files are read, and a model's own code is never run.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from safetensors import SafetensorError, safe_open

from specviz.engine.loading import hub
from specviz.engine.loading.model_config import read_config, read_object
from specviz.errors import PairError
from specviz.record.pairs import DEFAULT_PAIR, PairSpec, ProgressCallback, pairs_folder

_SINGLE = "model.safetensors"
_SMALL_FILES = ("config.json", "tokenizer.json")
_INDEX = "model.safetensors.index.json"
_TOKENIZER_FILES = ("tokenizer.json", "*.model", "vocab.json", "vocab.txt", "*.tiktoken")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A folder with a model's small files; weights of a Hub model may still be missing."""

    name: str  # as the user wrote it
    folder: Path
    config: dict[str, Any]
    hub_id: str | None = None

    @property
    def family(self) -> str:
        return str(self.config["model_type"])

    @property
    def commit(self) -> str:
        """Return the commit of a Hub model's small files; the weights must have the same one."""
        return self.folder.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The requested pair: its name, and where its models are (a folder or a Hub id)."""

    name: str
    target: str
    draft: str | None
    target_name: str
    draft_name: str | None


def choose(spec: PairSpec) -> Chosen:
    """Return the names and places of the models that ``spec`` requests.

    Raises:
        PairError: both a name and a target are given, a draft without a target, or the name is
            unknown.
    """
    target, draft = spec.target, spec.draft
    if target is None:
        if draft is not None:
            raise PairError("A draft is given without a target.", remedy="Give a target, too.")
        return _embedded(spec.name or DEFAULT_PAIR)
    if spec.name is not None:
        raise PairError(
            f"Both the pair {spec.name!r} and the target {target!r} are given.",
            remedy="Give only one of them.",
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
    """Replace bytes of a folder's name that are not UTF-8: a run's record must be UTF-8."""
    return place.encode("utf-8", "replace").decode()


def _embedded(name: str) -> Chosen:
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
    )


def _refuse_embedded(name: str, available: list[str]) -> NoReturn:
    if name == DEFAULT_PAIR:
        raise PairError(
            f"The embedded pair is not here: assets/pairs/{name} is missing.",
            remedy="Fetch it with the rest of the project, or give a draft and a target.",
        )
    known = ", ".join(available) or "none"
    raise PairError(
        f"There is no embedded pair {name!r}.",
        remedy=f"Available pairs: {known}. Or give a draft and a target.",
    )


def open_source(place: str, name: str, on_progress: ProgressCallback) -> Source:
    """Find a model's folder, and check that its configuration is a causal language model's."""
    path = os.path.expanduser(place)  # unlike Path.expanduser, it never raises
    if place and os.path.isdir(path):
        return Source(name=name, folder=Path(path), config=read_config(Path(path), name))
    if os.path.isfile(path):
        raise PairError(f"{name} is a file.", remedy="Give the folder that holds the model.")
    if not place.strip() or _looks_like_path(place):
        raise PairError(
            f"The folder {name!r} does not exist.", remedy="Give a model folder or a Hub id."
        )
    folder = hub.fetch_small_files(place, on_progress)
    return Source(name=name, folder=folder, config=read_config(folder, name), hub_id=place)


def bytes_to_fetch(source: Source, on_progress: ProgressCallback) -> int:
    """Return the bytes of weights still to download; refuse a Hub model without safetensors."""
    if source.hub_id is None or _has_weights(source):
        return 0
    files = hub.list_weights(source.hub_id, source.commit, on_progress)
    if not files:
        _refuse_without_safetensors(source)
    return sum(file.file_size or 0 for file in files if file.will_download)


def fetch_weights(source: Source, on_progress: ProgressCallback) -> tuple[Path, ...]:
    """Download a model's weights if necessary, and return its safetensors files."""
    if source.hub_id is not None and not _has_weights(source):
        missing = bytes_to_fetch(source, on_progress)
        hub.fetch_weights(source.hub_id, source.commit, missing, on_progress)
    return weight_files(source)


def weight_files(source: Source) -> tuple[Path, ...]:
    """Return the local safetensors files, after checking that none is truncated."""
    files = _named_weights(source)
    for file in files:
        _check_whole(source.name, file)
    return files


def identifying_files(source: Source, weights: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return the files that identify the model in a folder; some may be missing."""
    return (*weights, *(source.folder / name for name in (_SINGLE, _INDEX, *_SMALL_FILES)))


def require_tokenizer_files(source: Source) -> None:
    """Raise PairError without tokenizer files; transformers would create an empty tokenizer."""
    if not any(any(source.folder.glob(pattern)) for pattern in _TOKENIZER_FILES):
        raise PairError(
            f"{source.name} has no tokenizer files.",
            remedy="Put its tokenizer.json and tokenizer_config.json beside the weights.",
        )


def _looks_like_path(place: str) -> bool:
    return place.startswith((".", "/", "~")) or place.count("/") > 1 or "\\" in place


def _has_weights(source: Source) -> bool:
    try:
        return all(file.is_file() for file in _named_weights(source))
    except PairError:
        return False


def _named_weights(source: Source) -> tuple[Path, ...]:
    single, index = source.folder / _SINGLE, source.folder / _INDEX
    if single.is_file():
        return (single,)
    if not index.is_file():
        _refuse_without_safetensors(source)
    try:
        names = sorted(set(read_object(index)["weight_map"].values()))
        if any(Path(name).name != name for name in names):
            raise ValueError("a weights file outside the model's folder")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise PairError(
            f"The {_INDEX} of {source.name} is broken.", remedy="Copy or download it again."
        ) from None
    return tuple(source.folder / str(name) for name in names)


def _refuse_without_safetensors(source: Source) -> NoReturn:
    pickles = sorted(source.folder.glob("pytorch_model*.bin*"))
    if pickles:
        raise PairError(
            f"{source.name} holds a pickle checkpoint ({pickles[0].name}), which could run code "
            "and is never loaded.",
            remedy="Convert it to safetensors, or choose a copy in safetensors.",
        )
    raise PairError(
        f"{source.name} has no weights in safetensors files.",
        remedy="Choose a model with model.safetensors, or convert the checkpoint.",
    )


def _check_whole(name: str, file: Path) -> None:
    if not file.is_file():
        raise PairError(
            f"{name} lacks its weights file {file.name}.",
            remedy="Copy or download the model again.",
        )
    try:
        with safe_open(file, framework="np"):  # torch would allocate memory of the file's size
            pass
    except (SafetensorError, OSError) as error:
        raise PairError(
            f"The weights file {file.name} of {name} is truncated or broken.",
            remedy="Copy or download it again.",
        ) from error
