"""The folder in which specviz stores its data."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def data_folder() -> Path:
    """Return the folder in SPECVIZ_HOME, else the platform's folder for user data."""
    if home := os.environ.get("SPECVIZ_HOME"):
        return Path(home)
    folder = platformdirs.user_data_path("specviz", appauthor=False)
    if not folder.is_absolute():  # platformdirs' result without a home folder
        raise RuntimeError("There is no home folder.")
    return folder
