"""Check which models a page may open on a dashboard that others can reach.

A page may open Hub ids, the embedded pairs, the Hugging Face cache, the drafts trained here, and
the folders listed in ``SPECVIZ_MODELS``. Every other path is refused before anything is opened; the
message is the same whether the path exists or not. Texts of all stored runs are for the owner only,
because drafted candidates would show them. ``session/worker.py`` and
``session/cluster_jobs.py`` apply this check to all work of the pages. A dashboard that only this
machine can reach opens any folder.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator

from specviz.errors import ConfigError, PairError
from specviz.formats.ollama import PREFIX
from specviz.local_models.origins import hub_folder
from specviz.record.pairs import LIBRARY, PairSpec, pairs_folder
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
    if not reachable_by_others():
        return None
    places = [each for each in (spec.target, spec.draft) if each]
    if spec.suffix_texts not in ("", LIBRARY):
        places.append(spec.suffix_texts)
    return None if all(map(_is_open, places)) else _refusal()


def require_open(spec: PairSpec) -> None:
    """Raise PairError for a pair that this dashboard must not open."""
    if refusal := refusal_of(spec):
        raise refusal


def _refusal() -> PairError:
    return PairError(
        "Others can reach this dashboard, so it does not open this folder.",
        remedy=f"Give a Hub id, or a path inside a folder that the server's {MODELS} lists.",
    )


def _is_open(place: str) -> bool:
    """Return whether a page may open a Hub id or a path.

    The loader opens a folder instead of a Hub id if a folder with that name exists, so such an id
    is checked as a path. A path is first checked as written. Only if it is inside an allowed
    folder, its symlinks are resolved and the result is checked, too. So a path outside all allowed
    folders is refused without reading the disk, and the refusal does not reveal what exists there.
    """
    if place.startswith(PREFIX):  # a file in a folder of Ollama
        return False
    try:
        if _HUB_ID.fullmatch(place) and not os.path.lexists(place):
            return True
        path = _expanded(place)
        return path is not None and _is_inside(os.path.abspath(path)) and _is_inside(
            os.path.realpath(path)
        )  # fmt: skip
    except (OSError, ValueError):  # such as for a null character in the path
        return False


def _expanded(place: str) -> str | None:
    """Return the path with ``~`` expanded; None for ``~name``, which would look up a user."""
    if place.startswith("~") and place.rstrip("/") != "~" and not place.startswith("~/"):
        return None
    return os.path.expanduser(place)


def _is_inside(path: str) -> bool:
    return any(path == folder or path.startswith(f"{folder}{os.sep}") for folder in _folders())


def _folders() -> Iterator[str]:
    """Yield the folders whose models a page may open, as written and with symlinks resolved."""
    listed = os.environ.get(MODELS, "").split(os.pathsep)
    for folder in (str(hub_folder()), str(pairs_folder()), *filter(None, listed)):
        path = os.path.expanduser(folder)
        yield os.path.abspath(path).rstrip(os.sep)
        yield os.path.realpath(path).rstrip(os.sep)
    with contextlib.suppress(ConfigError):  # raised if there is no home folder
        yield os.path.realpath(trainings_folder())
