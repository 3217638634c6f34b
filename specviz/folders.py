"""Where specviz keeps its own files."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def data_folder() -> Path:
    """SPECVIZ_HOME, or the platform's place for such data."""
    if home := os.environ.get("SPECVIZ_HOME"):
        return Path(home)
    folder = platformdirs.user_data_path("specviz", appauthor=False)
    if not folder.is_absolute():  # what it answers for a person without a home
        raise RuntimeError("There is no home folder.")
    return folder
