"""The adapter for LM Studio: text chunks, and totals of drafted and accepted tokens.

It is written from LM Studio's documentation (REST API v0) and was never run here. LM Studio drafts
only with a draft model that is configured in LM Studio; our requests do not name a draft model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specviz.record.server_run import (
    Capabilities,
    ServerInfo,
    ServerRound,
    ServerSettings,
    ServerTotals,
)
from specviz.servers import openai
from specviz.servers.connection import Connection
from specviz.servers.foreign_json import inside, whole
from specviz.servers.pieces import Event, Listed, Outcome, Prompt, Request


def recognised(connection: Connection, listed: Listed) -> ServerInfo | None:
    models = inside(connection.look("/api/v0/models"), "data")
    if not isinstance(models, list):
        return None
    if not any("compatibility_type" in each for each in models if isinstance(each, dict)):
        return None
    return ServerInfo(
        address=connection.address,
        engine="lmstudio",
        model=listed.model,
        capabilities=Capabilities(totals=True),
    )


def request(info: ServerInfo, prompt: Prompt, settings: ServerSettings) -> Request:
    plain = openai.request(info, prompt, settings)
    return Request(
        path=plain.path.replace("/v1/", "/api/v0/"), body={**plain.body, "top_k": settings.top_k}
    )


@dataclass(slots=True)
class StatisticsReading(openai.TextReading):
    """Reads the text chunks of an answer, and the totals in LM Studio's statistics."""

    totals: ServerTotals = openai.NO_TOTALS

    def take(self, event: Event, at: float) -> Sequence[ServerRound]:
        if isinstance(stats := event.get("stats"), dict):
            self.totals = self.pieces.account.checked(self._grown(stats))
        # In a dataclass with slots, super() fails without arguments.
        return openai.TextReading.take(self, event, at)

    def outcome(self) -> Outcome:
        return openai.text_outcome(self.pieces, self.totals)

    def _grown(self, stats: Mapping[str, Any]) -> ServerTotals:
        drafted = whole(stats.get("total_draft_tokens_count"))
        accepted = whole(stats.get("accepted_draft_tokens_count"))
        return ServerTotals(
            drafted=openai.either(drafted, self.totals.drafted),
            accepted=openai.either(accepted, self.totals.accepted),
        )
