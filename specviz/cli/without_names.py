"""Remove what identifies a person or a machine from text for a bug report."""

from __future__ import annotations

import getpass
import os
import platform
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

_PATH = re.compile(
    r"""(?<![\w~.])/(?:[^/\s'"]+/)+([^/\s'"]+)|\b[A-Za-z]:\\(?:[^\\'"]+\\)+([^\\'"]+)"""
)
_SHORTEST = 3  # characters of a name that is replaced also inside a longer name


def without_names(value: Any) -> Any:
    """Return ``value`` with all paths, user names and host names in its texts replaced.

    The home folder becomes ``~``, and any other absolute path becomes its last part. The user name
    becomes ``USER``, and the host name becomes ``HOST``. The keys of dictionaries are not changed.
    """
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return {key: without_names(each) for key, each in value.items()}
    if isinstance(value, Sequence):
        return [without_names(each) for each in value]
    return value


def short_path(path: Path) -> str:
    """Return a path in the home folder with ``~`` in front; return any other path's last part."""
    home = _home()
    if home is not None and path.is_relative_to(home):
        return _text(str(Path("~") / path.relative_to(home)))
    return _text(path.name)


def _text(text: str) -> str:
    home = _home()
    if home is not None and len(home.parts) > 1:
        text = re.sub(re.escape(str(home)) + r"(?![\w.-])", "~", text)
    text = _PATH.sub(lambda found: found[1] or found[2], text)
    for name, substitute in _names().items():
        edge = r"(?<![A-Za-z0-9])", r"(?![A-Za-z0-9])"
        text = re.sub(edge[0] + re.escape(name) + edge[1], substitute, text, flags=re.IGNORECASE)
        if len(name) > _SHORTEST:
            text = re.sub(re.escape(name), substitute, text, flags=re.IGNORECASE)
    return text


@cache
def _home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:  # no home folder
        return None


@cache
def _names() -> dict[str, str]:
    """Return the names of the user and of the machine, each with its replacement."""
    names: dict[str, str] = {}
    host = platform.node()
    for each in (host, host.partition(".")[0]):
        names[each] = "HOST"
    for each in (_user(), os.environ.get("USER"), os.environ.get("LOGNAME")):
        names[each or ""] = "USER"
    if (home := _home()) is not None:
        names[home.name] = "USER"
    return {name: names[name] for name in sorted(names, key=len, reverse=True) if name}


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a user id without a name, as in a container
        return ""
