"""Facts from the headers of models, cached by path, size and modification time.

An unchanged model is not opened again. The cache is a file in specviz's data folder. If the file is
deleted, the next search takes longer.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import msgspec

from specviz.errors import ModelFileError
from specviz.folders import data_folder
from specviz.formats.gguf_header import GgufHeader, read_header
from specviz.formats.gguf_parts import parameters_of, part_paths, quantization_of, read_parts
from specviz.formats.gguf_support import refusal_of
from specviz.formats.heads import HeadFacts, read_head
from specviz.formats.model_folder import CONFIG, mtp_words, read_folder
from specviz.formats.token_bytes import (
    TokenBytes,
    fingerprint_of,
    gguf_token_bytes,
    json_token_bytes,
)
from specviz.local_models.local_model import ModelFacts
from specviz.record.drafters import DRAFT_METHODS, head_method

_VERSION = 3
_FILE = "local_models.json"

Stamp = tuple[int, int]  # bytes, and modification time in nanoseconds


class KeptFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The cached facts about a model, or the reason why the model cannot be used."""

    stamps: dict[str, Stamp]  # of its files
    facts: ModelFacts | None
    reason: str
    weights: tuple[str, ...]
    tokenizer: str


class KeptTokenizer(msgspec.Struct, frozen=True, kw_only=True):
    stamp: Stamp
    fingerprint: str


class _Kept(msgspec.Struct, kw_only=True):
    version: int = _VERSION
    facts: dict[str, KeptFacts] = msgspec.field(default_factory=dict)
    tokenizers: dict[str, KeptTokenizer] = msgspec.field(default_factory=dict)
    shares: dict[str, float] = msgspec.field(default_factory=dict)  # by both fingerprints


class Headers:
    """The cache: facts about models, tokenizer fingerprints, and shares of common tokens."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or _default_path()
        self._kept = _read(self._path) if self._path is not None else _Kept()
        self._changed = False

    def facts(self, path: Path) -> KeptFacts:
        """Return the facts about a GGUF file or a model folder.

        A model that cannot be used is checked again at every call, because a missing file may have
        been added.
        """
        known = self._kept.facts.get(str(path))
        if known is not None and known.facts and known.stamps == _stamps(known.stamps):
            return known
        found = _facts_of_gguf(path) if path.suffix.lower() == ".gguf" or path.is_file() else None
        found = found or _facts_of_folder(path)
        if found.facts is not None:
            self._kept.facts[str(path)] = found
            self._changed = True
        return found

    def known_fingerprint(self, tokenizer: Path) -> str | None:
        """Return a tokenizer's fingerprint; None if it is not cached or the file has changed."""
        known = self._kept.tokenizers.get(str(tokenizer))
        stamp = _stamp(tokenizer)
        return known.fingerprint if known is not None and known.stamp == stamp else None

    def fingerprint(self, tokenizer: Path) -> str:
        """Return a tokenizer's fingerprint; empty if its file format is not supported."""
        known = self.known_fingerprint(tokenizer)
        if known is not None:
            return known
        try:
            found = fingerprint_of(token_bytes_of(tokenizer))
        except ModelFileError:
            found = ""
        stamp = _stamp(tokenizer)
        if stamp is not None:
            kept = KeptTokenizer(stamp=stamp, fingerprint=found)
            self._kept.tokenizers[str(tokenizer)] = kept
            self._changed = True
        return found

    def known_share(self, target: str, draft: str) -> float | None:
        """Return the cached share of the target's tokens that the draft also has, or None.

        ``target`` and ``draft`` are the tokenizers' fingerprints.
        """
        return 1.0 if target == draft and target else self._kept.shares.get(f"{target} {draft}")

    def keep_share(self, target: str, draft: str, share: float) -> None:
        self._kept.shares[f"{target} {draft}"] = share
        self._changed = True

    def save(self) -> None:
        """Write the cache if it has changed; do nothing if the folder is not writable."""
        if not self._changed or self._path is None:
            return
        part = self._path.with_suffix(f".{os.getpid()}.part")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(msgspec.json.encode(self._kept))
            part.replace(self._path)
        except OSError:
            part.unlink(missing_ok=True)
        self._changed = False


def token_bytes_of(tokenizer: Path) -> TokenBytes:
    """Return the bytes of each token of a GGUF file or a ``tokenizer.json``.

    Raises:
        ModelFileError: The file is damaged or has another format.
    """
    if tokenizer.name == "tokenizer.json":
        return json_token_bytes(tokenizer)
    return gguf_token_bytes(read_header(tokenizer))


def _default_path() -> Path | None:
    try:
        return data_folder() / _FILE
    except RuntimeError:  # no home folder
        return None


def _read(path: Path) -> _Kept:
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_Kept)
    except (OSError, msgspec.MsgspecError, ValueError):
        return _Kept()
    return found if found.version == _VERSION else _Kept()


def _stamp(path: Path) -> Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def _stamps(paths: object) -> dict[str, Stamp]:
    assert isinstance(paths, dict)
    found = {str(path): _stamp(Path(path)) for path in paths}
    return {path: stamp for path, stamp in found.items() if stamp is not None}


def _facts_of_gguf(path: Path) -> KeptFacts:
    files = part_paths(path)
    try:
        headers = read_parts(path)
        reason = refusal_of(headers)
        facts = None if reason else _gguf_facts(headers)
    except ModelFileError as error:
        facts, reason = None, error.culprit.rstrip(".")
    return KeptFacts(
        stamps=_stamps(dict.fromkeys(map(str, files))), facts=facts, reason=reason,
        weights=tuple(map(str, files)), tokenizer=str(files[0]),
    )  # fmt: skip


def _gguf_facts(headers: tuple[GgufHeader, ...]) -> ModelFacts:
    first = headers[0]
    context = first.of_model("context_length")
    layers = first.of_model("block_count")
    predicting = first.of_model("nextn_predict_layers")
    return ModelFacts(
        format="GGUF",
        quantization=quantization_of(headers),
        family=first.architecture,
        parameters=parameters_of(headers),
        file_bytes=sum(each.file_bytes for each in headers),
        layers=layers if isinstance(layers, int) else None,
        context=context if isinstance(context, int) else None,
        vocabulary=first.count("tokenizer.ggml.tokens") or None,
        chat=bool(first.text("tokenizer.chat_template")),
        head=mtp_words(predicting if isinstance(predicting, int) else 0),
    )


def _facts_of_head(head: HeadFacts) -> KeptFacts:
    tensors = head.tensors or {}
    kinds = Counter(each.kind for each in tensors.values())
    file_bytes = sum(each.stat().st_size for each in head.weights)
    facts = ModelFacts(
        format="safetensors",
        quantization=kinds.most_common(1)[0][0] if kinds else "unknown",
        family=head.kind,
        parameters=head.parameters or file_bytes // 2,  # of a pickle, which is not opened
        file_bytes=file_bytes,
        layers=None,
        context=None,
        vocabulary=head.draft_vocabulary,
        chat=False,
        head=f"{DRAFT_METHODS[head_method(head.kind)].short} head",
        made_for=head.target,
    )
    files = (head.path / CONFIG, *head.weights)
    return KeptFacts(
        stamps=_stamps(dict.fromkeys(map(str, files))), facts=facts, reason="",
        weights=tuple(map(str, head.weights)), tokenizer=str(head.weights[0]),
    )  # fmt: skip


def _facts_of_folder(path: Path) -> KeptFacts:
    files: tuple[Path, ...] = (path / CONFIG,)
    facts, reason, weights, tokenizer = None, "", (), path / "tokenizer.json"
    try:
        if not tokenizer.is_file() and (head := read_head(path)) is not None:
            return _facts_of_head(head)
        folder = read_folder(path)
        weights, tokenizer = folder.weights, folder.tokenizer
        files = (*files, *weights, tokenizer)
        facts = ModelFacts(
            format="safetensors",
            quantization=folder.kind,
            family=str(folder.config["model_type"]),
            parameters=folder.parameters,
            file_bytes=sum(each.stat().st_size for each in weights),
            layers=folder.number("num_hidden_layers", "n_layer"),
            context=folder.number("max_position_embeddings", "n_positions"),
            vocabulary=folder.number("vocab_size"),
            chat=folder.chat,
            head=folder.head,
        )
    except ModelFileError as error:
        reason = error.culprit.rstrip(".")
    except OSError as error:
        reason = error.strerror or "cannot be opened"
    return KeptFacts(
        stamps=_stamps(dict.fromkeys(map(str, files))), facts=facts, reason=reason,
        weights=tuple(map(str, weights)), tokenizer=str(tokenizer),
    )  # fmt: skip
