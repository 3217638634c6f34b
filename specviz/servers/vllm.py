"""vLLM: a piece with token ids is a step of its engine, which tells of every step at the end.

Pieces merge when the reader lags, or by the server's stream interval; what the engine tells of its
steps divides them again. It tells so only if it was started with
``--per-request-spec-decode-metrics``: ``detailed`` for every step, ``summary`` for totals. It
counts the accepted candidates of its last step before it cuts them at the end of the text or the
limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from specviz.record.limits import MAX_DRAFTED
from specviz.record.server_run import (
    Capabilities,
    Grounds,
    ServerInfo,
    ServerRound,
    ServerSettings,
    ServerTotals,
)
from specviz.servers import openai
from specviz.servers.account import Account
from specviz.servers.connection import Connection
from specviz.servers.foreign_json import one_line_name
from specviz.servers.pieces import (
    Event,
    Listed,
    Outcome,
    Piece,
    Prompt,
    Request,
    inside,
    whole,
    wholes,
)
from specviz.servers.prometheus import largest_position, samples_of
from specviz.servers.reconciling import Step, checked_rounds, rounds_of

_DRAFTS = "vllm:spec_decode_num_drafts_total"
_BY_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
_TELL_MORE = (
    "vLLM tells of its steps if it is started with --per-request-spec-decode-metrics detailed."
)
_DISAGREE = (
    "The pieces are not the steps that vLLM counts: it tells of fewer or other ones than came."
)


def recognised(connection: Connection, listed: Listed) -> ServerInfo | None:
    samples = samples_of(connection.look_text("/metrics") or "")
    known = any(each.name.startswith("vllm:") for each in samples)
    version = inside(connection.look("/version"), "version")
    if not isinstance(version, str) or not (known or listed.owner == "vllm"):
        return None
    speculates = any(each.name == _DRAFTS for each in samples) if known else None
    return ServerInfo(
        address=connection.address,
        engine="vllm",
        version=one_line_name(version),
        model=listed.model,
        gamma=largest_position(samples, _BY_POSITION),
        capabilities=Capabilities(
            token_ids=True,
            rounds=speculates is True,
            counters=known,
            prompt_laws=True,
            speculates=speculates,
        ),
    )


def request(info: ServerInfo, prompt: Prompt, settings: ServerSettings) -> Request:
    """``logprobs`` also divides the text of a piece by its tokens."""
    plain = openai.request(info, prompt, settings)
    body = {
        **plain.body,
        "top_k": settings.top_k,
        "repetition_penalty": 1.0,
        "ignore_eos": settings.ignore_eos,
        "return_token_ids": True,
    }
    if settings.chat:
        return Request(path=plain.path, body={**body, "logprobs": True, "top_logprobs": 0})
    return Request(path=plain.path, body={**body, "logprobs": 0})


@dataclass(slots=True)
class StepReading:
    """Pieces that are steps, checked by what the engine tells of them when it is done."""

    info: ServerInfo
    settings: ServerSettings
    pieces: openai.Pieces = field(init=False)
    told: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        self.pieces = openai.Pieces(Account(self.info, self.settings))

    def take(self, event: Event, at: float) -> Sequence[ServerRound]:
        told = inside(event, "metrics", "speculative_decoding")
        if isinstance(told, dict):
            self._check(told)
            self.told = told
        piece = self.pieces.take(event, at)
        if piece is None:
            return ()
        index = len(self.pieces.pieces) - 1
        return (_taken_for_a_round(piece, index, self._speculates),)

    def close(self) -> Sequence[ServerRound]:
        return ()

    def _check(self, told: dict[str, Any]) -> None:
        account, steps = self.pieces.account, _steps(told)
        totals = account.checked(_totals(told))
        for step in steps or ():
            account.check_round(step.drafted, step.accepted)
        if steps is not None:
            account.check_sum("drafted", totals.drafted, [each.drafted for each in steps])
            account.check_sum("accepted", totals.accepted, [each.accepted for each in steps])

    @property
    def _speculates(self) -> bool:
        return self.info.capabilities.speculates is True

    def outcome(self) -> Outcome:
        found = _divided(self.pieces, self.told) if self.told is not None else None
        if found is not None:
            return found
        if not self._speculates or not all(each.num_tokens for each in self.pieces.pieces):
            return openai.text_outcome(self.pieces)
        return _chunks(self.pieces, self.told)


def _taken_for_a_round(piece: Piece, index: int, speculates: bool) -> ServerRound:
    """As long as nothing else is told, a piece is a step; the first one follows the prompt."""
    if not speculates or not piece.num_tokens:
        return piece.as_round(index, drafted=None, accepted=None)
    if (index == 0 and piece.num_tokens == 1) or piece.num_tokens > MAX_DRAFTED + 1:
        return piece.as_round(index, drafted=None, accepted=None)
    return piece.as_round(index, drafted=None, accepted=piece.num_tokens - 1)


def _divided(pieces: openai.Pieces, told: dict[str, Any]) -> Outcome | None:
    """None if it told no steps, or such as the pieces cannot be made of."""
    steps = _steps(told)
    rounds = None if steps is None else rounds_of(pieces.pieces, steps)
    if rounds is None:
        return None
    return _outcome(pieces, rounds, "told", _totals(told))


def _outcome(
    pieces: openai.Pieces,
    rounds: tuple[ServerRound, ...],
    grounds: Grounds,
    totals: ServerTotals,
    notices: tuple[str, ...] = (),
) -> Outcome:
    return Outcome(
        rounds=rounds,
        grounds=grounds,
        finish=pieces.finish,
        prompt_tokens=pieces.prompt_tokens,
        totals=replace(totals, tokens=pieces.tokens),
        notices=(*notices, *pieces.notices),
    )


def _steps(told: dict[str, Any]) -> list[Step] | None:
    """None without an account of every step; an answer without any drafts has an empty one."""
    accepted, drafted = wholes(told.get("per_step_accepted")), wholes(told.get("per_step_drafted"))
    if len(accepted) != len(drafted) or len(accepted) != whole(told.get("num_spec_steps")):
        return None
    pairs = zip(drafted, accepted, strict=True)
    return [Step(drafted=each, accepted=ours) for each, ours in pairs]


def _totals(told: dict[str, Any]) -> ServerTotals:
    return ServerTotals(
        rounds=whole(told.get("num_spec_steps")),
        drafted=whole(told.get("num_draft_tokens")),
        accepted=whole(told.get("num_accepted_draft_tokens")),
    )


def _chunks(pieces: openai.Pieces, told: dict[str, Any] | None) -> Outcome:
    """Every piece taken for a round."""
    found = pieces.pieces
    rounds = tuple(_taken_for_a_round(piece, place, True) for place, piece in enumerate(found))
    if told is None:
        notices = () if pieces.finish is None else (_TELL_MORE,)
        return _outcome(pieces, rounds, "chunks", ServerTotals(), notices)
    totals = _totals(told)
    checked = checked_rounds(rounds, totals, whole(told.get("num_spec_tokens")))
    if checked is None:
        return _outcome(pieces, rounds, "chunks", totals, (_DISAGREE,))
    return _outcome(pieces, checked, "checked chunks", totals)
