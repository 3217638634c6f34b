"""Size-limited reading of text files that the user names."""

from __future__ import annotations

from pathlib import Path

from specviz.errors import ConfigError
from specviz.record.numbers import SIZE


def read_text(path: Path, option: str, limit: int) -> str:
    """Return the text of a UTF-8 file; raises ConfigError if it is unreadable or too large.

    Args:
        path: The file.
        option: The command-line option that names the file, for the error message.
        limit: The largest size in bytes.
    """
    try:
        with path.open("rb") as file:
            content = file.read(limit + 1)
        if len(content) > limit:
            raise ConfigError(
                f"{option}: {path} is larger than {SIZE.shown(limit)}.",
                remedy="Give a smaller file.",
            )
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{option}: {path} is not UTF-8.", remedy="Save it as UTF-8.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"{option}: {path} cannot be read: {reason}.", remedy="Check its path."
        ) from None
