"""Read the settings file, and read it again when it changes.

A changed file that is not valid changes nothing: the settings last read stay in force, and
``notice`` says why. A file that is not valid at the start is an error.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from specviz.access.setting_keys import OTHERS, ROLES, SECTIONS, people
from specviz.access.setting_values import DEFAULTS, Settings
from specviz.errors import ConfigError
from specviz.folders import data_folder

__all__ = ["SETTINGS", "Settings", "SettingsFile", "read_settings", "the_settings"]

SETTINGS = "SPECVIZ_SETTINGS"
FILE_NAME = "specviz.toml"
_MOST_BYTES = 10**6


def the_settings() -> Settings:
    """Return the settings in force; raise ConfigError if they were never valid."""
    return the_settings_file().current()


def the_settings_file() -> SettingsFile:
    chosen = os.environ.get(SETTINGS, "")
    if chosen:
        return _file_at(os.path.abspath(os.path.expanduser(chosen)), True)
    try:
        return _file_at(os.path.abspath(data_folder() / FILE_NAME), False)
    except RuntimeError:  # there is no home folder
        return _file_at("", False)


@cache
def _file_at(path: str, required: bool) -> SettingsFile:
    return SettingsFile(Path(path), required=required)


class SettingsFile:
    """A settings file; safe to read from any thread.

    Args:
        required: If true, a missing file is an error. If false, the defaults apply without a file.
    """

    def __init__(self, path: Path, *, required: bool = True) -> None:
        self.path = path
        self._required = required
        self._settings: Settings | None = None
        self._error: ConfigError | None = None
        self._state: object = None  # of the file when it was last read
        self._lock = Lock()

    @property
    def exists(self) -> bool:
        return self.path.is_file()

    @property
    def notice(self) -> str:
        """Return why the last change of the file is not in force; "" if it is in force."""
        self.current()
        with self._lock:
            if self._error is None:
                return ""
            return f"{self._error} Until then, the earlier settings stay in force."

    def current(self) -> Settings:
        """Return the settings in force. Read the file again if it has changed.

        Raises:
            ConfigError: The file is not valid, and no earlier settings were read.
        """
        with self._lock:
            state = self._state_now()
            if self._state != state or self._settings is None:
                self._state = state
                self._read(missing=state == "missing")
            if self._settings is None:
                assert self._error is not None
                raise self._error
            return self._settings

    def _read(self, *, missing: bool) -> None:
        try:
            if missing and self._settings is None and not self._required:
                self._settings = DEFAULTS
            else:
                self._settings = read_settings(self.path)
            self._error = None
        except ConfigError as error:
            self._error = error

    def _state_now(self) -> object:
        if self.path == Path():  # there is no data folder
            return "missing"
        try:
            found = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return "missing"
        except (OSError, ValueError):
            return "unreadable"
        return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def read_settings(path: Path) -> Settings:
    """Return the settings in a file; raise ConfigError if a key or a value is not valid."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"The settings file {path} cannot be read: {reason}.",
            remedy="Check the path and the permissions.",
        ) from None
    if len(data) > _MOST_BYTES:
        raise ConfigError(
            f"The settings file {path} is larger than 1 MB.", remedy="Give the right file."
        )
    try:
        return parse_settings(data.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError:
        raise ConfigError(
            f"The settings file {path} is not UTF-8.", remedy="Save it as UTF-8."
        ) from None


def parse_settings(text: str, name: str) -> Settings:
    """Return the settings in a text; ``name`` is the file's name for errors."""
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(
            f"The settings file {name} is not valid TOML: {error}.",
            remedy="Put texts and e-mail addresses in quotes.",
        ) from None
    read: dict[str, dict[str, Any]] = {}
    for section, values in table.items():
        if section not in SECTIONS:
            raise _unknown(f"{name}: [{section}]", "section", section, SECTIONS)
        if not isinstance(values, dict):
            raise ConfigError(
                f"{name}: {section} is not a section.", remedy=f"Write it as [{section}]."
            )
        read[section] = _read_section(name, section, values)
    return _settings_of(read)


def _read_section(name: str, section: str, values: Mapping[str, Any]) -> dict[str, Any]:
    readers, read = SECTIONS[section], dict[str, Any]()
    rest = {key: value for key, value in values.items() if key not in readers}
    for key, value in values.items():
        if key in readers:
            try:
                read[key] = readers[key](value)
            except ValueError as error:
                raise _wrong(f"{name}: [{section}] {key}", value, str(error)) from None
    if section == "people":
        return read | {"people": _people(name, rest)}
    for key in rest:
        raise _unknown(f"{name}: [{section}] {key}", "key", key, readers)
    return read


def _people(name: str, entries: Mapping[str, Any]) -> Any:
    roles = ", ".join(f'"{role}"' for role in ROLES)
    try:
        return people(entries)
    except KeyError as error:
        raise ConfigError(
            f"{name}: [people] {error.args[0]!r:.80} is not an e-mail address.",
            remedy=f'Use addresses, "*@DOMAIN" or {OTHERS} as keys, in quotes.',
        ) from None
    except ValueError as error:
        key = str(error)
        twice = sum(each.lower() == key.lower() for each in entries) > 1
        if twice:
            raise ConfigError(
                f"{name}: [people] {key!r:.80} is listed twice.", remedy="Remove one of the lines."
            ) from None
        raise _wrong(f"{name}: [people] {key!r:.80}", entries[key], roles) from None


def _wrong(where: str, value: Any, allowed: str) -> ConfigError:
    return ConfigError(f"{where} is {value!r:.80}.", remedy=f"Give {allowed}.")


def _unknown(where: str, what: str, given: str, known: Mapping[str, Any]) -> ConfigError:
    near = difflib.get_close_matches(given, known, 1)
    hint = f"Did you mean {near[0]}? " if near else ""
    return ConfigError(
        f"{where[:120]} is not a known {what}.",
        remedy=f"{hint}The {what}s are {', '.join(known)}.",
    )


def _settings_of(read: Mapping[str, Mapping[str, Any]]) -> Settings:
    given = read.get("people", {})
    return Settings(
        people=given.get("people", ()),
        others=given.get(OTHERS),
        limits=replace(DEFAULTS.limits, **read.get("limits", {})),
        models=replace(DEFAULTS.models, **read.get("models", {})),
        servers=read.get("servers", {}).get("addresses"),
        quota=read.get("library", {}).get("quota"),
    )
