"""llama.cpp's server: a piece is a token, and the running totals of the answer show its round.

All tokens of a round come with the same totals of drafted and accepted candidates. A round gives
its accepted candidates and one more token; a token beyond these had no drafts. llama.cpp holds back
the text of an incomplete character together with its token's id, but counts the token. A chat has
no ids: the list of tokens that llama.cpp sends on request omits the drafted ones.
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
from specviz.servers.foreign_json import one_line_name
from specviz.servers.pieces import Event, Listed, Outcome, Prompt, Request, inside, whole, wholes
from specviz.servers.prometheus import largest_position, samples_of

_BY_POSITION = "llamacpp:spec_decode_num_accepted_tokens_per_pos_total"
_FINISH: dict[str, Finish] = {"eos": "eos", "word": "stop", "limit": "length"}
_HELD_BACK = (
    "llama.cpp held back text of half a character and the ids of its tokens with it: rounds with "
    "such tokens have no ids."
)
_NO_IDS = "llama.cpp tells no ids of the tokens of a chat."


def recognised(connection: Connection, listed: Listed) -> ServerInfo | None:
    props = connection.look("/props")
    if inside(props, "default_generation_settings") is None:
        return None
    slots = connection.look("/slots")
    told = [inside(each, "speculative") for each in slots] if isinstance(slots, list) else []
    speculates = any(each is True for each in told) if told else None
    version = inside(props, "build_info")
    samples = samples_of(connection.look_text("/metrics") or "")
    return ServerInfo(
        address=connection.address,
        engine="llama.cpp",
        version=one_line_name(version) if isinstance(version, str) else None,
        model=listed.model,
        gamma=largest_position(samples, _BY_POSITION),
        capabilities=Capabilities(
            token_ids=True,
            rounds=speculates is not False,
            totals=speculates is not False,
            counters=any(each.name.startswith("llamacpp:") for each in samples),
            speculates=speculates,
        ),
    )


def request(info: ServerInfo, prompt: Prompt, settings: ServerSettings) -> Request:
    """Samplers that other engines do not have are left out, so that the law is what was asked."""
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
        told = {"max_tokens": settings.max_new_tokens, "messages": openai.messages(prompt)}
        usage = {"stream_options": {"include_usage": True}, "model": info.model}
        return Request(path=openai.CHAT, body={**body, **told, **usage})
    told = {"n_predict": settings.max_new_tokens, "prompt": openai.as_json(prompt)}
    return Request(path="/completion", body={**body, **told})


@dataclass(slots=True)
class _OpenRound:
    """``wanted``: tokens that it gives if nothing cuts it."""

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
        """Take the totals: from here on every count is one that an answer can have."""
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

    def _begin_round(self, came: int, at: float) -> None:
        """Begin a round if the totals have grown. Tokens held back belong to the round before."""
        drafted, accepted = self.account.drafted, self.account.accepted
        if drafted == self.drafted:
            return
        if self.open is not None:
            held = min(self.open.missing, came - 1)
            self.open.num_tokens += held
            self.tokens += held
            self.open.at = at
            self._close()
        self.open = _OpenRound(drafted=drafted - self.drafted, accepted=accepted - self.accepted)
        self.drafted, self.accepted = drafted, accepted

    def _add(self, came: int, event: Event, at: float) -> None:
        """Add tokens to the open round; all but the last were held back and have no text."""
        while came > 0:
            if self.open is None:
                self.open = _OpenRound(drafted=0, accepted=0)
            part = min(came, self.open.missing)
            self.open.num_tokens += part
            self.open.at = at
            came -= part
            if came == 0:
                self.open.texts.append(_text(event))
                self.open.token_ids += wholes(event.get("tokens"))
            if self.open.missing == 0:
                self._close()

    def _close(self) -> None:
        held, self.open = self.open, None
        if held is None or held.num_tokens == 0:
            return
        known = len(held.token_ids) == held.num_tokens
        divided = len(held.texts) == held.num_tokens
        self.rounds.append(
            ServerRound(
                index=len(self.rounds),
                texts=tuple(held.texts) if divided else ("".join(held.texts),),
                token_ids=tuple(held.token_ids) if known else (),
                num_tokens=held.num_tokens,
                at=held.at,
                drafted=held.drafted or None,
                accepted=held.accepted if held.drafted else None,
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
        told = [bool(each.token_ids) for each in self.rounds]
        if any(told):
            return () if all(told) else (_HELD_BACK,)
        return (_NO_IDS,) if self.settings.chat and told else ()

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
