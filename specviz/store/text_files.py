"""Text files that the user names, read with a limit."""

from __future__ import annotations

from pathlib import Path

from specviz.errors import ConfigError
from specviz.record.numbers import SIZE


def read_text(path: Path, option: str, limit: int) -> str:
    """A file of the user's, never more of it than the limit."""
    try:
        with path.open("rb") as file:
            content = file.read(limit + 1)
        if len(content) > limit:
            raise ConfigError(
                f"{option}: {path} is larger than {SIZE.shown(limit)}.", remedy="Give less."
            )
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{option}: {path} is not UTF-8.", remedy="Save it as UTF-8.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"{option}: {path} cannot be read: {reason}.", remedy="Check its name."
        ) from None
