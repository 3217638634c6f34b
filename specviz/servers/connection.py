"""HTTP to one address."""

from __future__ import annotations

from typing import Literal

KeyName = Literal["SPECVIZ_SERVER_KEY", "SPECVIZ_BASELINE_KEY"]
SERVER_KEY: KeyName = "SPECVIZ_SERVER_KEY"
BASELINE_KEY: KeyName = "SPECVIZ_BASELINE_KEY"


def is_local(address: str) -> bool:
    """Whether the address is of this machine."""
    raise NotImplementedError
