"""Downloads that only the person for whom they were made may fetch.

Streamlit serves a download under ``/media/`` and a hash of its content. This address is the same in
every session and needs no session. It works while a page offers the file, and until the next two
script runs after that. So a person who knows a file's address or content could fetch it from the
session of another person.

Each page offers files with ``download_button``, which notes for whom a file was made. The ASGI
middleware ``OwnDownloads`` answers everybody else as if the file did not exist. On a dashboard
without a login, nothing is noted and nothing is refused.
"""

from __future__ import annotations

import hashlib
import os.path
from collections import OrderedDict
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from functools import cache
from threading import Lock
from typing import Any

import streamlit as st
from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit import runtime
from streamlit.runtime.media_file_storage import MediaFileKind

from specviz.access.roles import EVERYBODY, OPEN_OWNER, Person, Role
from specviz.ui.access import PERSON_IN_SCOPE
from specviz.ui.session.page_library import current_person

_MEDIA = "/media/"
_MISSING = "0" * 32  # in place of a file's hash: a file that does not exist
_MOST = 20_000  # files; those that were offered longest ago are forgotten

Data = str | bytes | Callable[[], str | bytes]


@dataclass(slots=True)
class OfferedFiles:
    """The persons for whom each file was made, by a digest of its content. Thread-safe."""

    _persons: OrderedDict[bytes, set[Person]] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def offer(self, content: str | bytes, person: Person) -> None:
        digest = _digest(content)
        with self._lock:
            self._persons.setdefault(digest, set()).add(person)
            self._persons.move_to_end(digest)
            while len(self._persons) > _MOST:
                self._persons.popitem(last=False)

    def may_fetch(self, content: bytes, person: Person | None) -> bool:
        """Return whether the person may fetch a file.

        The owner may fetch all files. Any other person who is logged in may fetch only files that
        were made for this person. Without a login, a file may be fetched if no person is noted
        for it.
        """
        if person is not None and person.role == Role.OWNER:
            return True
        with self._lock:
            offered = self._persons.get(_digest(content))
        return person in offered if offered is not None else person in (None, EVERYBODY)


@cache
def the_offered_files() -> OfferedFiles:
    return OfferedFiles()


def download_button(
    label: str, data: Data, file_name: str, mime: str | None = None, **options: Any
) -> None:
    """Draw a button that downloads a file; only the current person may fetch the file.

    Args:
        data: The content, or a function that makes it on a click.
        options: Further arguments of ``st.download_button``.
    """
    st.download_button(
        label, _noted(data, current_person()), file_name=file_name, mime=mime,
        on_click="ignore", **options,
    )  # fmt: skip


def _noted(data: Data, person: Person) -> Data:
    """Return the data; once its content is known, note that it was made for the person."""
    if person in (OPEN_OWNER, EVERYBODY):
        return data
    files = the_offered_files()

    def noted(content: str | bytes) -> str | bytes:
        files.offer(content, person)
        return content

    return noted(data) if isinstance(data, str | bytes) else lambda: noted(data())


class OwnDownloads:
    """Middleware: only the person who made a download, and the dashboard's owner, can fetch it.

    The gate, which runs earlier, puts the person into the scope (``PERSON_IN_SCOPE``).
    """

    def __init__(self, app: ASGIApp, read: Callable[[str], bytes | None] | None = None) -> None:
        self._app = app
        self._read = read or _download

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        before, found, name = str(scope.get("path", "")).rpartition(_MEDIA)
        if scope["type"] == "http" and found:
            content = self._read(os.path.splitext(name)[0])
            person = scope.get(PERSON_IN_SCOPE)
            if content is not None and not the_offered_files().may_fetch(content, person):
                scope = _without_file(scope, f"{before}{_MEDIA}{_MISSING}")
        await self._app(scope, receive, send)


def _without_file(scope: Scope, path: str) -> MutableMapping[str, Any]:
    return {**scope, "path": path, "raw_path": path.encode("utf-8", "replace")}


def _download(file_id: str) -> bytes | None:
    """Return the content of a download that Streamlit keeps; None for pictures and other files."""
    if not runtime.exists():
        return None
    file = runtime.get_instance().media_file_mgr.read_file(file_id)
    return file.content if file is not None and file.kind == MediaFileKind.DOWNLOADABLE else None


def _digest(content: str | bytes) -> bytes:
    data = content.encode() if isinstance(content, str) else content
    return hashlib.blake2b(data, digest_size=32).digest()
