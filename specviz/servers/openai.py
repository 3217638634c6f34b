"""The adapter for any server with OpenAI's API: text chunks without rounds.

Few servers report the number of tokens in a chunk; most report the total at the end. The adapters
of other engines read the same events and extract more from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from specviz.errors import ServerError
from specviz.record.server_run import (
    Capabilities,
    ServerInfo,
    ServerRound,
    ServerSettings,
    ServerTotals,
)
from specviz.record.trace import Finish
from specviz.servers.account import Account
from specviz.servers.connection import Connection
from specviz.servers.foreign_json import inside, logprob, whole, wholes
from specviz.servers.pieces import Event, Listed, Outcome, Piece, Prompt, Request

NO_TOTALS = ServerTotals()
_BAD_LOGPROBS = "Ignored log-probabilities that are above 0 or not numbers."
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"


def recognised(connection: Connection, listed: Listed) -> ServerInfo:
    """Return the server's description; this adapter accepts any server."""
    return ServerInfo(
        address=connection.address,
        engine="openai",
        model=listed.model,
        capabilities=Capabilities(),
    )


def request(info: ServerInfo, prompt: Prompt, settings: ServerSettings) -> Request:
    """Build a request from common fields only, because some servers refuse unknown fields."""
    body: dict[str, Any] = {
        "model": info.model,
        "max_tokens": settings.max_new_tokens,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if settings.temperature > 0:
        body["seed"] = settings.seed
    if settings.chat:
        return Request(path=CHAT, body={**body, "messages": messages(prompt)})
    return Request(path=COMPLETIONS, body={**body, "prompt": as_json(prompt)})


def as_json(prompt: Prompt) -> str | list[int]:
    return prompt if isinstance(prompt, str) else list(prompt)


def messages(prompt: Prompt) -> list[dict[str, str]]:
    if not isinstance(prompt, str):
        raise ServerError(
            "A chat needs text, but the prompt is a list of token ids.",
            remedy="Give the prompt as text, or request a completion.",
        )
    return [{"role": "user", "content": prompt}]


@dataclass(slots=True)
class Pieces:
    """The text chunks of an answer's first choice, its finish reason and its token counts."""

    account: Account
    pieces: list[Piece] = field(default_factory=list)
    finish: Finish | None = None
    prompt_tokens: int | None = None
    tokens: int | None = None  # tokens of the answer, as the engine counts them
    bad_logprobs: bool = False  # whether a log-probability was above 0 or not a number

    def take(self, event: Event, at: float) -> Piece | None:
        """Read an event; return its chunk.

        Return None if the event has no chunk, or if its text was added to the previous chunk.
        """
        self.account.add_event()
        self._take_usage(event.get("usage"))
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            return None
        piece = self._piece(choice, at)
        self.account.add(piece.num_tokens, piece.text)
        reason = choice.get("finish_reason")
        if isinstance(reason, str):
            self.finish = finish_of(reason, choice.get("stop_reason"))
        return self._added(piece)

    def _added(self, piece: Piece) -> Piece | None:
        if piece.num_tokens or (piece.text and not (self.pieces and self.pieces[-1].num_tokens)):
            self.pieces.append(piece)
            return piece
        if piece.text:
            last = self.pieces[-1]
            self.pieces[-1] = replace(last, text=last.text + piece.text, texts=())
        return None

    def _take_usage(self, usage: Any) -> None:
        self.prompt_tokens = either(whole(inside(usage, "prompt_tokens")), self.prompt_tokens)
        self.tokens = either(whole(inside(usage, "completion_tokens")), self.tokens)
        self.account.update(tokens=self.tokens)

    def _piece(self, choice: Mapping[str, Any], at: float) -> Piece:
        text = _text(choice)
        ids = wholes(choice.get("token_ids"))
        texts, values = _reported_tokens(choice.get("logprobs"))
        logprobs = _logprobs(values, len(texts))
        self.bad_logprobs |= logprobs is None
        known = not ids or len(ids) == len(texts)
        return Piece(
            text=text,
            at=at,
            num_tokens=len(ids) or len(texts),
            token_ids=ids,
            texts=_shown(texts, text) if known else (),
            logprobs=logprobs or () if known else (),
        )

    @property
    def notices(self) -> tuple[str, ...]:
        return (_BAD_LOGPROBS,) if self.bad_logprobs else ()


@dataclass(slots=True)
class TextReading:
    """Reads the text chunks of an answer whose server does not report rounds."""

    info: ServerInfo
    settings: ServerSettings
    pieces: Pieces = field(init=False)

    def __post_init__(self) -> None:
        self.pieces = Pieces(Account(self.info, self.settings))

    def take(self, event: Event, at: float) -> Sequence[ServerRound]:
        piece = self.pieces.take(event, at)
        if piece is None:
            return ()
        return (piece.as_round(len(self.pieces.pieces) - 1, drafted=None, accepted=None),)

    def close(self) -> Sequence[ServerRound]:
        return ()

    def outcome(self) -> Outcome:
        return text_outcome(self.pieces)


def text_outcome(pieces: Pieces, totals: ServerTotals = NO_TOTALS) -> Outcome:
    """Return the outcome of an answer whose chunks do not show its rounds.

    If there are as many chunks as tokens, each chunk counts as one token.
    """
    found = pieces.pieces
    if pieces.tokens == len(found) and not any(piece.num_tokens for piece in found):
        found = [replace(piece, num_tokens=1) for piece in found]
    return Outcome(
        rounds=tuple(
            piece.as_round(index, drafted=None, accepted=None) for index, piece in enumerate(found)
        ),
        grounds="none",
        finish=pieces.finish,
        prompt_tokens=pieces.prompt_tokens,
        totals=replace(totals, tokens=either(totals.tokens, pieces.tokens)),
        notices=pieces.notices,
    )


def finish_of(reason: str, stop_reason: Any = None) -> Finish:
    """Translate an engine's finish reason, such as ``length``, to a ``Finish``.

    Engines report ``stop`` for EOS and for a stop string; only the latter has a ``stop_reason``.
    """
    if reason == "length":
        return "length"
    if reason in ("stop", "eos"):
        return "stop" if isinstance(stop_reason, str) else "eos"
    return "stopped" if reason in ("abort", "cancelled") else "stop"


def either(first: int | None, second: int | None) -> int | None:
    return second if first is None else first


def _text(choice: Mapping[str, Any]) -> str:
    if isinstance(text := choice.get("text"), str):
        return text
    return text_of_delta(choice.get("delta"))


def text_of_delta(delta: Any) -> str:
    """Return the text of a chat delta, its reasoning first.

    Some engines send the reasoning twice, under two names; it is read once.
    """
    reasoning = inside(delta, "reasoning_content")
    if not isinstance(reasoning, str):
        reasoning = inside(delta, "reasoning")
    return "".join(each for each in (reasoning, inside(delta, "content")) if isinstance(each, str))


def _shown(texts: Sequence[str], text: str) -> tuple[str, ...]:
    """Return what each token adds to ``text``; empty if the tokens' texts do not make up ``text``.

    A token that is listed but not part of the text, such as EOS, adds "".
    """
    shown, place = list[str](), 0
    for each in texts:
        shown.append(each if text.startswith(each, place) else "")
        place += len(shown[-1])
    return tuple(shown) if place == len(text) else ()


def _reported_tokens(reported: Any) -> tuple[tuple[str, ...], Any]:
    """Return the tokens' texts and log-probabilities from a completion or a chat."""
    if isinstance(content := inside(reported, "content"), list):
        texts = [inside(each, "token") for each in content]
        values = [inside(each, "logprob") for each in content]
    else:
        texts, values = inside(reported, "tokens"), inside(reported, "token_logprobs")
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        return (), None
    return tuple(texts), values


def _logprobs(values: Any, count: int) -> tuple[float, ...] | None:
    """Return the log-probabilities; empty if none were sent, None if a value is not valid."""
    if not isinstance(values, list) or not values:
        return ()
    found = [logprob(each) for each in values]
    good = [each for each in found if each is not None]
    return tuple(good) if len(good) == len(found) == count else None
