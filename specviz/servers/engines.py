"""The table of supported engines and their adapters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from specviz.record.server_run import EngineName, ServerInfo, ServerSettings
from specviz.servers import llamacpp, lmstudio, openai, sglang, vllm
from specviz.servers.connection import Connection
from specviz.servers.pieces import Listed, Prompt, Reading, Request


class Adapter(Protocol):
    """The functions that the module of each adapter provides."""

    def recognised(self, connection: Connection, listed: Listed) -> ServerInfo | None: ...

    def request(self, info: ServerInfo, prompt: Prompt, settings: ServerSettings) -> Request: ...


@dataclass(frozen=True, slots=True)
class Engine:
    """A supported engine: its adapter, and the classes that read its answers.

    ``known_from`` is the version of the engine with which the adapter was tested. For an adapter
    that was never tested, it is the source from which the adapter was written. ``uncached`` takes a
    salt and returns request fields; requests with different salts share no prefix cache.
    ``uncached`` is None if the engine has no such fields.
    """

    name: EngineName
    adapter: Adapter
    reading: Callable[[ServerInfo, ServerSettings], Reading]
    known_from: str
    run_here: bool = True
    chat_reading: Callable[[ServerInfo, ServerSettings], Reading] | None = None  # else ``reading``
    uncached: Callable[[str], Mapping[str, Any]] | None = None


# In the order in which they are tried; the last matches any server.
ENGINES = (
    Engine(
        "vllm",
        vllm,
        vllm.StepReading,
        "0.32.0",
        uncached=lambda salt: {"cache_salt": salt},
    ),
    Engine(
        "llama.cpp",
        llamacpp,
        llamacpp.CountedReading,
        "xllamacpp 2026.10",
        uncached=lambda _: {"cache_prompt": False},
    ),
    Engine(
        "sglang",
        sglang,
        sglang.GenerateReading,
        "not run here; written from the sources of 0.5.23",
        run_here=False,
        chat_reading=openai.TextReading,
        uncached=lambda salt: {"extra_key": salt},
    ),
    Engine(
        "lmstudio",
        lmstudio,
        lmstudio.StatisticsReading,
        "not run here; written from the documentation of its REST API v0",
        run_here=False,
    ),
    Engine("openai", openai, openai.TextReading, "common features"),
)


def engine_of(info: ServerInfo) -> Engine:
    return next(each for each in ENGINES if each.name == info.engine)
