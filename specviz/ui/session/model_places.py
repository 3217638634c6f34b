"""Check which models a page may open: where they are, whether the Hub is used, and their size.

``session/worker.py`` and ``session/cluster_jobs.py`` apply this check to all work of the pages.

* Folders: if others can reach the dashboard, or if the settings list folders, a page may open only
  Hub ids, the embedded pairs, the Hugging Face cache, the drafts trained here, and the folders
  listed in the settings or in ``SPECVIZ_MODELS``. Every other path is refused before anything is
  opened; the message is the same whether the path exists or not.
* The Hub: if the settings turn it off, only Hub models that are in the cache may be opened.
* Size: the weights must not be larger than the settings allow. The worker process checks the size
  of a download (``worker/child/model_limits.py``).
* Stored runs: only the owner may use a pair that drafts from the texts of all stored runs, because
  its candidates show these texts.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator

from specviz.access.setting_values import ModelRules
from specviz.access.settings import the_settings
from specviz.errors import ConfigError, PairError
from specviz.formats.ollama import PREFIX
from specviz.local_models.origins import hub_folder
from specviz.local_models.weight_sizes import cached_snapshots, weights_bytes
from specviz.record.numbers import SIZE
from specviz.record.pairs import LIBRARY, PairSpec, is_address, pairs_folder
from specviz.training.drafts.kept_trainings import trainings_folder
from specviz.ui.access import reachable_by_others
from specviz.ui.session.page_library import is_in_script, sees_others

MODELS = "SPECVIZ_MODELS"
_HUB_ID = re.compile(r"(?!.*\.\.)[A-Za-z0-9_][\w.-]*(/[A-Za-z0-9_][\w.-]*)?", re.ASCII)


def refusal_of(spec: PairSpec) -> PairError | None:
    """Return the error for a pair that this dashboard must not open; None for an allowed pair."""
    if spec.suffix_texts == LIBRARY and is_in_script() and not sees_others():
        return PairError(
            "This pair searches the texts of all stored runs, so only the owner may use it.",
            remedy="Choose the pair without these texts.",
        )
    rules, shared = the_settings().models, reachable_by_others()
    models = [each for each in (spec.target, spec.draft) if each]
    texts = [] if spec.suffix_texts in ("", LIBRARY) else [spec.suffix_texts]
    restricted = shared or rules.folders is not None
    if restricted and not all(_is_open(each, rules) for each in (*models, *texts)):
        return _refused_folder(rules)
    if not rules.hub and any(map(_needs_download, models)):
        return PairError(
            "This dashboard downloads no models from the Hub.",
            remedy="Choose a model on this machine.",
        )
    return _refused_size(models, rules.largest)


def require_open(spec: PairSpec) -> None:
    """Raise PairError for a pair that this dashboard must not open."""
    if refusal := refusal_of(spec):
        raise refusal


def _refused_folder(rules: ModelRules) -> PairError:
    hub = "a Hub id, or " if rules.hub else ""
    if rules.folders is not None:
        return PairError(
            "The settings of this dashboard do not allow this folder.",
            remedy=f"Give {hub}a path inside one of the folders in these settings.",
        )
    return PairError(
        "Others can reach this dashboard, so it does not open this folder.",
        remedy=f"Give {hub}a path inside a folder that the server's {MODELS} lists.",
    )


def _refused_size(models: list[str], largest: int | None) -> PairError | None:
    if largest is None:
        return None
    size = max((weights_bytes(each) for each in models if not is_address(each)), default=0)
    if size <= largest:
        return None
    return PairError(
        f"The weights of this model are {SIZE.shown(size)}; this dashboard opens at most "
        f"{SIZE.shown(largest)}.",
        remedy="Choose a smaller model.",
    )


def _needs_download(place: str) -> bool:
    return _is_hub_id(place) and not cached_snapshots(place)


def _is_hub_id(place: str) -> bool:
    """Return whether the loader takes ``place`` for a Hub id.

    It does so only if no file or folder has this name.
    """
    try:
        return _HUB_ID.fullmatch(place) is not None and not os.path.lexists(place)
    except (OSError, ValueError):
        return False


def _is_open(place: str, rules: ModelRules) -> bool:
    """Return whether a page may open a Hub id or a path.

    If a folder has the name of a Hub id, the loader opens the folder, so the name is checked as a
    path. A path is first checked as written. If it is inside an allowed folder, its symlinks are
    resolved, and the resolved path is checked, too. So a path outside all allowed folders is
    refused without reading the disk, and the refusal does not reveal what exists there.
    """
    if place.startswith(PREFIX):  # a file in a folder of Ollama
        return False
    try:
        if _is_hub_id(place):
            return True
        path = _expanded(place)
        return path is not None and _is_inside(os.path.abspath(path), rules) and _is_inside(
            os.path.realpath(path), rules
        )  # fmt: skip
    except (OSError, ValueError):  # such as for a null character in the path
        return False


def _expanded(place: str) -> str | None:
    """Return the path with ``~`` expanded; None for ``~name``, which would look up a user."""
    if place.startswith("~") and place.rstrip("/") != "~" and not place.startswith("~/"):
        return None
    return os.path.expanduser(place)


def _is_inside(path: str, rules: ModelRules) -> bool:
    return any(path == each or path.startswith(f"{each}{os.sep}") for each in _folders(rules))


def _folders(rules: ModelRules) -> Iterator[str]:
    """Yield the folders whose models a page may open, as written and with symlinks resolved."""
    listed = filter(None, os.environ.get(MODELS, "").split(os.pathsep))
    for folder in (str(hub_folder()), str(pairs_folder()), *listed, *(rules.folders or ())):
        path = os.path.expanduser(folder)
        yield os.path.abspath(path).rstrip(os.sep)
        yield os.path.realpath(path).rstrip(os.sep)
    with contextlib.suppress(ConfigError):  # raised if there is no home folder
        yield os.path.realpath(trainings_folder())
