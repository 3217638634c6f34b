"""List the models on this machine, with a short name for each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from specviz.errors import ConfigError
from specviz.local_models.headers import Headers
from specviz.local_models.local_model import LocalModel, ModelFacts, Skipped
from specviz.local_models.origins import OURS, Origin, known_origins
from specviz.local_models.searching import Candidate, search
from specviz.record.pairs import CHAT_PAIR
from specviz.values import Value

_NOT_IN_NAMES = re.compile(r"[^a-z0-9._:+-]+")
_GGUF_WORDS = re.compile(r"[-_.]gguf$")


class Found(Value):
    """The models that were found, and the files and folders that cannot be used as a model.

    specviz's own models come first. The others are sorted by name.
    """

    models: tuple[LocalModel, ...]
    skipped: tuple[Skipped, ...]

    def named(self, name: str) -> LocalModel | None:
        """Return the model with this short name, name or ``place``; None if there is none.

        The ``place`` of a model is its folder, file or Hub id.

        Raises:
            ConfigError: Several models have this name.
        """
        wanted = name.strip().lower()
        found = [each for each in self.models if wanted == each.short]
        found = found or [each for each in self.models if wanted in _names_of(each)]
        if len(found) > 1:
            known = ", ".join(each.short for each in found[:4])
            raise ConfigError(f"Several models are named {name!r}.", remedy=f"Give {known}.")
        return found[0] if found else None


def find_models(folders: Sequence[Path] = (), headers: Headers | None = None) -> Found:
    """Find the models of known programs, and those in the user's folders.

    Args:
        folders: Folders that the user added.
        headers: The cache of earlier searches; by default the cache in specviz's data folder.
    """
    headers = headers or Headers()
    own = [Origin(name=str(each), folder=each, layout="files") for each in folders]
    models: dict[str, LocalModel] = {}  # by the real path, so that a link is not a second model
    skipped: list[Skipped] = []
    for origin in (*known_origins(), *own):
        candidates, unread = search(origin)
        skipped += unread
        for each in candidates:
            kept = headers.facts(each.path)
            real = str(each.path.resolve())
            if kept.facts is None:
                skipped.append(Skipped(name=each.name, origin=each.origin, reason=kept.reason))
            elif real not in models:
                models[real] = _model(each, kept.facts, kept.weights, kept.tokenizer)
    headers.save()
    ordered = sorted(models.values(), key=lambda each: (each.origin != OURS, each.name.lower()))
    named = _with_short_names(ordered)
    return Found(models=tuple(named), skipped=tuple(skipped))


def _model(
    found: Candidate, facts: ModelFacts, weights: Sequence[str], tokenizer: str
) -> LocalModel:
    return LocalModel(
        name=found.name,
        short="",
        place=found.place,
        origin=found.origin,
        files=tuple(map(Path, weights)),
        tokenizer=Path(tokenizer),
        facts=facts,
    )


def _with_short_names(models: Sequence[LocalModel]) -> list[LocalModel]:
    """Return the models with short names: each model's shortest name that no other model has."""
    taken: list[list[str]] = [_short_names(each) for each in models]
    counts = [Counter(names[level] for names in taken) for level in range(len(_LEVELS))]
    named: list[LocalModel] = []
    for model, names in zip(models, taken, strict=True):
        short = next(
            (each for each, count in zip(names, counts, strict=True) if count[each] == 1), ""
        )
        named.append(replace(model, short=short or model.place))
    return named


_LEVELS = ("file", "quantization", "format", "publisher", "origin")


def _short_names(model: LocalModel) -> list[str]:
    """Return the model's possible names, the shortest first: one for each of ``_LEVELS``."""
    last = _GGUF_WORDS.sub("", _as_name(model.name.rpartition("/")[2]))
    kind = model.facts.quantization.lower()
    with_kind = last if kind in last else f"{last}:{kind}"
    with_format = f"{with_kind}.{model.facts.format.lower()}"
    publisher = _as_name(model.name.rpartition("/")[0])
    full = f"{publisher}/{with_format}" if publisher else with_format
    return [last, with_kind, with_format, full, f"{_as_name(model.origin)}/{full}"]


def _as_name(text: str) -> str:
    return _NOT_IN_NAMES.sub("-", text.lower()).strip("-")


def _names_of(model: LocalModel) -> set[str]:
    ours = {CHAT_PAIR.lower()} if model.origin == OURS else set[str]()
    return {model.name.lower(), model.place.lower()} | ours
