"""The table of supported engines and their adapters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from specviz.record.server_run import Capabilities, EngineName, ServerInfo, ServerSettings
from specviz.servers import llamacpp, lmstudio, openai, sglang, vllm
from specviz.servers.connection import Connection
from specviz.servers.pieces import Listed, Prompt, Reading, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An engine's adapter. ``known_from``: the tested version, or the source if never tested."""

    name: EngineName
    run_here: bool
    known_from: str
    recognised: Callable[[Connection, Listed], ServerInfo | None]
    request: Callable[[ServerInfo, Prompt, ServerSettings], Request]
    reading: Callable[[ServerInfo, ServerSettings], Reading]
    chat_reading: Callable[[ServerInfo, ServerSettings], Reading]


def _any_other(connection: Connection, listed: Listed) -> ServerInfo:
    return ServerInfo(
        address=connection.address,
        engine="openai",
        version=None,
        model=listed.model,
        gamma=None,
        capabilities=Capabilities(),
    )


# In the order in which they are tried; the last matches any server.
ENGINES = (
    Engine(
        name="vllm",
        run_here=True,
        known_from="0.32.0",
        recognised=vllm.recognised,
        request=vllm.request,
        reading=vllm.StepReading,
        chat_reading=vllm.StepReading,
    ),
    Engine(
        name="llama.cpp",
        run_here=True,
        known_from="xllamacpp 2026.10",
        recognised=llamacpp.recognised,
        request=llamacpp.request,
        reading=llamacpp.CountedReading,
        chat_reading=llamacpp.CountedReading,
    ),
    Engine(
        name="sglang",
        run_here=False,
        known_from="not run here; written from the sources of 0.5.23",
        recognised=sglang.recognised,
        request=sglang.request,
        reading=sglang.GenerateReading,
        chat_reading=openai.TextReading,
    ),
    Engine(
        name="lmstudio",
        run_here=False,
        known_from="not run here; written from the documentation of its REST API v0",
        recognised=lmstudio.recognised,
        request=lmstudio.request,
        reading=lmstudio.StatisticsReading,
        chat_reading=lmstudio.StatisticsReading,
    ),
    Engine(
        name="openai",
        run_here=True,
        known_from="common features",
        recognised=_any_other,
        request=openai.request,
        reading=openai.TextReading,
        chat_reading=openai.TextReading,
    ),
)


def engine_of(info: ServerInfo) -> Engine:
    return next(each for each in ENGINES if each.name == info.engine)
