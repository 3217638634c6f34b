"""The adapter for llama.cpp's server: an event is a token, and running totals show the rounds.

All tokens of a round come with the same totals of drafted and accepted candidates. A round emits
its accepted candidates and one more token. If a further token comes with unchanged totals, it is a
step without drafts. While a character is incomplete, llama.cpp sends neither the text nor the ids
of the character's tokens, but it counts these tokens. Answers in a chat have no token ids, because
the list of tokens that llama.cpp sends on request omits accepted candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from specviz.record.server_run import (
    Capabilities,
    ServerInfo,
    ServerRound,
    ServerSettings,
    ServerTotals,
)
from specviz.record.trace import Finish
from specviz.servers import openai
from specviz.servers.account import Account
from specviz.servers.connection import Connection
from specviz.servers.foreign_json import inside, one_line_name, whole, wholes
from specviz.servers.pieces import Event, Listed, Outcome, Prompt, Request
from specviz.servers.prometheus import num_positions, samples_of

_BY_POSITION = "llamacpp:spec_decode_num_accepted_tokens_per_pos_total"
_FINISH: dict[str, Finish] = {"eos": "eos", "word": "stop", "limit": "length"}
_HELD_BACK = (
    "llama.cpp held back incomplete characters together with their token ids, so rounds with such "
    "tokens have no ids."
)
_NO_IDS = "llama.cpp does not report the token ids of a chat."


def recognised(connection: Connection, listed: Listed) -> ServerInfo | None:
    props = connection.look("/props")
    if inside(props, "default_generation_settings") is None:
        return None
    slots = connection.look("/slots")
    flags = [inside(each, "speculative") for each in slots] if isinstance(slots, list) else []
    speculates = any(each is True for each in flags) if flags else None
    version = inside(props, "build_info")
    samples = samples_of(connection.look_text("/metrics") or "")
    return ServerInfo(
        address=connection.address,
        engine="llama.cpp",
        version=one_line_name(version) if isinstance(version, str) else None,
        model=listed.model,
        gamma=num_positions(samples, _BY_POSITION),
        capabilities=Capabilities(
            token_ids=True,
            rounds=speculates is not False,
            totals=speculates is not False,
            counters=any(each.name.startswith("llamacpp:") for each in samples),
            speculates=speculates,
        ),
    )


def request(info: ServerInfo, prompt: Prompt, settings: ServerSettings) -> Request:
    """Build a request in which only the filters in ``settings`` apply, not llama.cpp's defaults."""
    body: dict[str, Any] = {
        "stream": True,
        "timings_per_token": True,
        "return_tokens": True,
        "temperature": settings.temperature,
        "top_k": settings.top_k,
        "top_p": settings.top_p,
        "min_p": 0.0,
        "samplers": ["temperature", "top_k", "top_p"],
        "seed": settings.seed,
        "ignore_eos": settings.ignore_eos,
    }
    if settings.chat:
        chat = {"max_tokens": settings.max_new_tokens, "messages": openai.messages(prompt)}
        usage = {"stream_options": {"include_usage": True}, "model": info.model}
        return Request(path=openai.CHAT, body={**body, **chat, **usage})
    plain = {"n_predict": settings.max_new_tokens, "prompt": openai.as_json(prompt)}
    return Request(path="/completion", body={**body, **plain})


@dataclass(slots=True)
class _OpenRound:
    """A round whose tokens are still arriving.

    ``missing``: number of tokens still to come, unless the answer ends within the round.
    """

    drafted: int
    accepted: int
    num_tokens: int = 0
    texts: list[str] = field(default_factory=list[str])
    token_ids: list[int] = field(default_factory=list[int])
    at: float = 0.0

    @property
    def missing(self) -> int:
        return self.accepted + 1 - self.num_tokens


@dataclass(slots=True)
class CountedReading:
    """Reads an answer; derives its rounds from llama.cpp's running totals of candidates."""

    info: ServerInfo
    settings: ServerSettings
    rounds: list[ServerRound] = field(default_factory=list[ServerRound])
    open: _OpenRound | None = None
    tokens: int = 0
    drafted: int = 0
    accepted: int = 0
    finish: Finish | None = None
    prompt_tokens: int | None = None
    account: Account = field(init=False)

    def __post_init__(self) -> None:
        self.account = Account(self.info, self.settings)

    def take(self, event: Event, at: float) -> Sequence[ServerRound]:
        before = len(self.rounds)
        self._check(event)
        self._end(event)
        count = self.account.tokens
        if count > self.tokens:
            self._begin_round(count - self.tokens, at)
            self._add(count - self.tokens, event, at)
            self.tokens = count
        return self.rounds[before:]

    def _check(self, event: Event) -> None:
        """Update the totals; raise ServerError if they are impossible (accepted > drafted)."""
        timings, account = event.get("timings"), self.account
        account.add_event()
        account.add(0, _text(event))
        account.update(
            drafted=whole(inside(timings, "draft_n")),
            accepted=whole(inside(timings, "draft_n_accepted")),
            tokens=openai.either(
                whole(inside(timings, "predicted_n")), whole(event.get("tokens_predicted"))
            ),
        )
        account.check_accepted()
        account.check_round(account.drafted - self.drafted, account.accepted - self.accepted)

    def _end(self, event: Event) -> None:
        self.prompt_tokens = openai.either(
            openai.either(
                whole(event.get("tokens_evaluated")), whole(inside(event, "usage", "prompt_tokens"))
            ),
            self.prompt_tokens,
        )
        if event.get("stop") is True and isinstance(event.get("stop_type"), str):
            self.finish = _FINISH.get(event["stop_type"], "stop")
        if isinstance(reason := inside(_first(event.get("choices")), "finish_reason"), str):
            self.finish = openai.finish_of(reason)

    def _begin_round(self, num_tokens: int, at: float) -> None:
        """Begin a round if the totals have grown.

        If this event also brings tokens that llama.cpp had held back, these tokens complete the
        previous round.
        """
        drafted, accepted = self.account.drafted, self.account.accepted
        if drafted == self.drafted:
            return
        if self.open is not None:
            held = min(self.open.missing, num_tokens - 1)
            self.open.num_tokens += held
            self.tokens += held
            self.open.at = at
            self._close()
        self.open = _OpenRound(drafted=drafted - self.drafted, accepted=accepted - self.accepted)
        self.drafted, self.accepted = drafted, accepted

    def _add(self, num_tokens: int, event: Event, at: float) -> None:
        """Add an event's tokens.

        Only the last token gets the text. llama.cpp had held back the tokens before the last.
        """
        while num_tokens > 0:
            if self.open is None:
                self.open = _OpenRound(drafted=0, accepted=0)
            part = min(num_tokens, self.open.missing)
            self.open.num_tokens += part
            self.open.at = at
            num_tokens -= part
            if num_tokens == 0:
                self.open.texts.append(_text(event))
                self.open.token_ids += wholes(event.get("tokens"))
            if self.open.missing == 0:
                self._close()

    def _close(self) -> None:
        ended, self.open = self.open, None
        if ended is None or ended.num_tokens == 0:
            return
        known = len(ended.token_ids) == ended.num_tokens
        by_token = len(ended.texts) == ended.num_tokens
        self.rounds.append(
            ServerRound(
                index=len(self.rounds),
                texts=tuple(ended.texts) if by_token else ("".join(ended.texts),),
                token_ids=tuple(ended.token_ids) if known else (),
                num_tokens=ended.num_tokens,
                at=ended.at,
                drafted=ended.drafted or None,
                accepted=ended.accepted if ended.drafted else None,
            )
        )

    def close(self) -> Sequence[ServerRound]:
        before = len(self.rounds)
        self._close()
        return self.rounds[before:]

    def outcome(self) -> Outcome:
        drafts = self.drafted > 0
        rounds = tuple(self.rounds)
        return Outcome(
            rounds=rounds,
            grounds="counted" if drafts else "none",
            finish=self.finish,
            prompt_tokens=self.prompt_tokens,
            totals=self._totals(),
            notices=self._notices(),
        )

    def _notices(self) -> tuple[str, ...]:
        with_ids = [bool(each.token_ids) for each in self.rounds]
        if any(with_ids):
            return () if all(with_ids) else (_HELD_BACK,)
        return (_NO_IDS,) if self.settings.chat and with_ids else ()

    def _totals(self) -> ServerTotals:
        if not self.drafted:
            return ServerTotals(tokens=self.tokens)
        return ServerTotals(drafted=self.drafted, accepted=self.accepted, tokens=self.tokens)


def _first(values: Any) -> Any:
    return values[0] if isinstance(values, list) and values else None


def _text(event: Event) -> str:
    if isinstance(content := event.get("content"), str):
        return content
    return openai.text_of_delta(inside(_first(event.get("choices")), "delta"))
