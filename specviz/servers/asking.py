"""Ask an engine: an answer is an iterator of its rounds as they land."""

from __future__ import annotations

from collections.abc import Iterator

from specviz.record.server_run import ServerInfo, ServerRound, ServerSettings, ServerTrace
from specviz.servers.connection import SERVER_KEY, KeyName


class Answer(Iterator[ServerRound]):
    """One answer under way. Everything but ``__next__`` may be called from any thread."""

    def __next__(self) -> ServerRound:
        raise NotImplementedError

    def stop(self) -> None:
        """Ends the answer at once: what came so far stays, its finish is ``stopped``."""
        raise NotImplementedError

    def trace(self) -> ServerTrace:
        """What came so far; when the answer is over, reconciled with what the engine told."""
        raise NotImplementedError


def ask(
    info: ServerInfo,
    prompt: str | tuple[int, ...],
    settings: ServerSettings,
    *,
    speculate: bool = True,
    allow_remote: bool = False,
    key: KeyName = SERVER_KEY,
) -> Answer:
    """Without ``speculate`` an engine that can (``can_switch_off``) answers without drafts."""
    raise NotImplementedError
