"""Parse the value of the option ``--on``: ``ray``, or ``ray:HOST:PORT``."""

from __future__ import annotations

import re
from importlib.util import find_spec

from specviz.errors import ConfigError, shortened

ON_RAY = "ray"
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:]+\]|[\w.-]+):\d{1,5}", re.ASCII)


def has_ray() -> bool:
    """Return whether Ray is installed, without importing it."""
    return find_spec("ray") is not None


def cluster_address(text: str) -> str:
    """Return HOST:PORT from the value of --on; "" means ``RAY_ADDRESS`` or a local cluster."""
    name, colon, address = text.partition(":")
    if name != ON_RAY or (colon and not _ADDRESS.fullmatch(address)):
        raise ConfigError(f"--on is {shortened(text)!r}.", remedy="Use ray, or ray:HOST:PORT.")
    return address
