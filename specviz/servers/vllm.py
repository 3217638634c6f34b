"""The adapter for vLLM: a chunk with token ids is a step of the engine.

Chunks merge if the reader is slow or the server's stream interval exceeds 1; the engine's report at
the end splits them again. vLLM sends the report only if it was started with
``--per-request-spec-decode-metrics``. With the value ``detailed``, the report lists every step;
with ``summary``, it has only totals. In the last step, the report also counts accepted candidates
that are missing in the text, because it was cut at EOS or the limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

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
from specviz.servers.foreign_json import inside, one_line_name, whole, wholes
from specviz.servers.pieces import Event, Listed, Outcome, Prompt, Request
from specviz.servers.prometheus import num_positions, samples_of
from specviz.servers.reconciling import Step, checked_rounds, rounds_of

_DRAFTS = "vllm:spec_decode_num_drafts_total"
_BY_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
_NO_REPORT = (
    "vLLM reports its steps if it is started with --per-request-spec-decode-metrics detailed."
)
_DISAGREE = "The chunks do not match the steps that vLLM counts."


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
        gamma=num_positions(samples, _BY_POSITION),
        capabilities=Capabilities(
            token_ids=True,
            rounds=speculates is True,
            counters=known,
            prompt_laws=True,
            speculates=speculates,
        ),
    )


def request(info: ServerInfo, prompt: Prompt, settings: ServerSettings) -> Request:
    """Build a request. It has ``logprobs``, so that vLLM also reports the text of each token."""
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
    """Reads an answer, whose chunks count as steps unless vLLM's final report splits them."""

    info: ServerInfo
    settings: ServerSettings
    pieces: openai.Pieces = field(init=False)
    report: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        self.pieces = openai.Pieces(Account(self.info, self.settings))

    def take(self, event: Event, at: float) -> Sequence[ServerRound]:
        report = inside(event, "metrics", "speculative_decoding")
        if isinstance(report, dict):
            self._check(report)
            self.report = report
        piece = self.pieces.take(event, at)
        if piece is None:
            return ()
        index = len(self.pieces.pieces) - 1
        return (piece.as_step(index, speculates=self._speculates),)

    def close(self) -> Sequence[ServerRound]:
        return ()

    def _check(self, report: dict[str, Any]) -> None:
        account, steps = self.pieces.account, _steps(report)
        totals = account.checked(_totals(report))
        for step in steps or ():
            account.check_round(step.drafted, step.accepted)
        if steps is not None:
            account.check_sum("drafted", totals.drafted, [each.drafted for each in steps])
            account.check_sum("accepted", totals.accepted, [each.accepted for each in steps])

    @property
    def _speculates(self) -> bool:
        return self.info.capabilities.speculates is True

    def outcome(self) -> Outcome:
        found = _split_by_report(self.pieces, self.report) if self.report is not None else None
        if found is not None:
            return found
        if not self._speculates or not all(each.num_tokens for each in self.pieces.pieces):
            return openai.text_outcome(self.pieces)
        return _chunks(self.pieces, self.report)


def _split_by_report(pieces: openai.Pieces, report: dict[str, Any]) -> Outcome | None:
    """Return the reported steps as rounds; None if none are reported or the chunks do not match."""
    steps = _steps(report)
    rounds = None if steps is None else rounds_of(pieces.pieces, steps)
    if rounds is None:
        return None
    return _outcome(pieces, rounds, "told", _totals(report))


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


def _steps(report: dict[str, Any]) -> list[Step] | None:
    """Return the steps that the report lists; None if the report has no valid list of steps."""
    accepted = wholes(report.get("per_step_accepted"))
    drafted = wholes(report.get("per_step_drafted"))
    if len(accepted) != len(drafted) or len(accepted) != whole(report.get("num_spec_steps")):
        return None
    pairs = zip(drafted, accepted, strict=True)
    return [Step(drafted=each, accepted=count) for each, count in pairs]


def _totals(report: dict[str, Any]) -> ServerTotals:
    return ServerTotals(
        rounds=whole(report.get("num_spec_steps")),
        drafted=whole(report.get("num_draft_tokens")),
        accepted=whole(report.get("num_accepted_draft_tokens")),
    )


def _chunks(pieces: openai.Pieces, report: dict[str, Any] | None) -> Outcome:
    """Return the outcome of an answer, with every chunk as a step.

    If vLLM reports totals, the steps are checked against them.
    """
    found = pieces.pieces
    rounds = tuple(piece.as_step(place, speculates=True) for place, piece in enumerate(found))
    if report is None:
        notices = () if pieces.finish is None else (_NO_REPORT,)
        return _outcome(pieces, rounds, "chunks", ServerTotals(), notices)
    totals = _totals(report)
    checked = checked_rounds(rounds, totals, whole(report.get("num_spec_tokens")))
    if checked is None:
        return _outcome(pieces, rounds, "chunks", totals, (_DISAGREE,))
    return _outcome(pieces, checked, "checked chunks", totals)
