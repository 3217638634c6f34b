"""The folder in which specviz stores its data, and the environment of its child processes.

There is no data folder in demo mode, and none on a machine without a home folder.
"""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from specviz import IS_INSTALLED, ROOT

DEMO = "SPECVIZ_DEMO"


def is_demo() -> bool:
    """Return whether SPECVIZ_DEMO asks for the demo: read-only, with recorded runs only.

    Every value but the usual words for "no" switches the demo on, so that a typing error does not
    open a public dashboard.
    """
    return os.environ.get(DEMO, "").strip().lower() not in ("", "0", "false", "no", "off")


def data_folder() -> Path:
    """Return the folder in SPECVIZ_HOME, else the platform's folder for user data.

    Raises:
        RuntimeError: There is no home folder, or this is the demo.
    """
    if is_demo():
        raise RuntimeError("The demo has no data folder.")
    if home := os.environ.get("SPECVIZ_HOME"):
        return Path(home)
    folder = platformdirs.user_data_path("specviz", appauthor=False)
    if not folder.is_absolute():  # platformdirs' result without a home folder
        raise RuntimeError("There is no home folder.")
    return folder


def child_environment() -> dict[str, str]:
    """Return this process's environment, changed so that a child process can import specviz.

    If specviz runs from a checkout, the folder of the checkout is added to ``PYTHONPATH``. The
    folder of an installed package is not added: the package is found anyway, and the other packages
    in its folder must not come before the standard library.
    """
    if IS_INSTALLED:
        return dict(os.environ)
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
