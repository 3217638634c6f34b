"""Any server that speaks as OpenAI's does: pieces of text as they come, and no rounds.

How many tokens a piece holds is told by few; their number in all by most, at the end. The other
engines' adapters read the same events and find more in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from specviz.errors import ServerError
from specviz.record.server_run import ServerInfo, ServerRound, ServerSettings, ServerTotals
from specviz.record.trace import Finish
from specviz.servers.pieces import (
    Event,
    Outcome,
    Piece,
    Prompt,
    Request,
    inside,
    whole,
    wholes,
)

NO_TOTALS = ServerTotals()
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"


def request(info: ServerInfo, prompt: Prompt, settings: ServerSettings) -> Request:
    """Only what all know: an unknown field makes some refuse the whole request."""
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
            "A chat takes text, and the prompt is a list of token ids.",
            remedy="Give text, or ask for a completion.",
        )
    return [{"role": "user", "content": prompt}]


@dataclass(slots=True)
class Pieces:
    """The pieces of an answer's first choice, and what its events say of the whole."""

    settings: ServerSettings
    pieces: list[Piece] = field(default_factory=list)
    finish: Finish | None = None
    prompt_tokens: int | None = None
    tokens: int | None = None  # in all, as the engine counts them

    def take(self, event: Event, at: float) -> Piece | None:
        """None if no new piece came: what came joins the one before it."""
        self._take_usage(event.get("usage"))
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            return None
        piece = _piece(choice, at)
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


@dataclass(slots=True)
class TextReading:
    """Pieces, and nothing else."""

    info: ServerInfo
    settings: ServerSettings
    pieces: Pieces = field(init=False)

    def __post_init__(self) -> None:
        self.pieces = Pieces(self.settings)

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
    """Without rounds. Where there are as many pieces as tokens, each is a token."""
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
    )


def finish_of(reason: str, stop_reason: Any = None) -> Finish:
    """Engines say ``stop`` for the end of the text as well as for a word that was to end it."""
    if reason == "length":
        return "length"
    if reason in ("stop", "eos"):
        return "stop" if isinstance(stop_reason, str) else "eos"
    return "stopped" if reason in ("abort", "cancelled") else "stop"


def either(first: int | None, second: int | None) -> int | None:
    return second if first is None else first


def _piece(choice: Mapping[str, Any], at: float) -> Piece:
    text = _text(choice)
    ids = wholes(choice.get("token_ids"))
    texts, logprobs = _told_tokens(choice.get("logprobs"))
    known = not ids or len(ids) == len(texts)
    return Piece(
        text=text,
        at=at,
        num_tokens=len(ids) or len(texts),
        token_ids=ids,
        texts=_shown(texts, text) if known else (),
        logprobs=logprobs if known else (),
    )


def _text(choice: Mapping[str, Any]) -> str:
    if isinstance(text := choice.get("text"), str):
        return text
    parts = (
        inside(choice, "delta", name) for name in ("reasoning_content", "reasoning", "content")
    )
    return "".join(part for part in parts if isinstance(part, str))


def _shown(texts: Sequence[str], text: str) -> tuple[str, ...]:
    """What each token adds to the text: nothing, if it is named but not shown, as one that ends a
    text. Empty if the text is not made of them."""
    shown = list[str]()
    for each in texts:
        shown.append(each if text.startswith(each) else "")
        text = text[len(shown[-1]) :]
    return () if text else tuple(shown)


def _told_tokens(told: Any) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Texts and log-probabilities by token, of a completion or of a chat."""
    if isinstance(content := inside(told, "content"), list):
        texts = [inside(each, "token") for each in content]
        values = [inside(each, "logprob") for each in content]
    else:
        texts, values = inside(told, "tokens"), inside(told, "token_logprobs")
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        return (), ()
    whole_list = isinstance(values, list) and all(isinstance(each, int | float) for each in values)
    return tuple(texts), tuple(map(float, values)) if whole_list else ()
