"""The adapter for SGLang, which sends one chunk per step if its stream interval is 1.

The totals at the end of an answer show whether its chunks are steps. The adapter is written from
SGLang's sources (0.5.23) and was never run here. Names of fields differ between versions, so all
known names are tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from specviz.record.limits import MAX_DRAFTED
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
from specviz.servers.pieces import Event, Listed, Outcome, Piece, Prompt, Request
from specviz.servers.reconciling import checked_rounds

_FINISH: dict[str, Finish] = {"length": "length", "abort": "stopped"}
_DISAGREE = "The chunks do not match the steps that SGLang counts: chunks may have merged."
_ACCEPTED = ("spec_num_correct_drafts", "spec_accept_token_num")
_DRAFTED = ("spec_num_proposed_drafts", "spec_draft_token_num")


def recognised(connection: Connection, listed: Listed) -> ServerInfo | None:
    page = connection.look("/server_info") or connection.look("/get_server_info")
    if not isinstance(page, dict) or "internal_states" not in page:
        return None
    version, method = page.get("version"), page.get("speculative_algorithm")
    drafts = whole(page.get("speculative_num_draft_tokens"))
    drafts = drafts if drafts and drafts <= MAX_DRAFTED else None
    speculates = method is not None if "speculative_algorithm" in page else None
    return ServerInfo(
        address=connection.address,
        engine="sglang",
        version=one_line_name(version) if isinstance(version, str) else None,
        model=listed.model,
        gamma=drafts - 1 if speculates and drafts else None,
        capabilities=Capabilities(
            token_ids=True,
            rounds=speculates is True,
            totals=speculates is True,
            counters="sglang:" in (connection.look_text("/metrics") or ""),
            prompt_laws=True,
            speculates=speculates,
        ),
    )


def request(info: ServerInfo, prompt: Prompt, settings: ServerSettings) -> Request:
    if settings.chat:
        return openai.request(info, prompt, settings)
    sampling = {
        "max_new_tokens": settings.max_new_tokens,
        "temperature": settings.temperature,
        "top_k": settings.top_k or -1,
        "top_p": settings.top_p,
        "ignore_eos": settings.ignore_eos,
    }
    given = {"text": prompt} if isinstance(prompt, str) else {"input_ids": list(prompt)}
    return Request(path="/generate", body={**given, "sampling_params": sampling, "stream": True})


@dataclass(slots=True)
class GenerateReading:
    """Reads an answer.

    An event contains either all text and token ids so far, or only the new text and ids.
    """

    info: ServerInfo
    settings: ServerSettings
    pieces: list[Piece] = field(default_factory=list[Piece])
    text: str = ""
    ids: list[int] = field(default_factory=list[int])
    tokens: int = 0
    meta: dict[str, Any] = field(default_factory=dict[str, Any])
    account: Account = field(init=False)

    def __post_init__(self) -> None:
        self.account = Account(self.info, self.settings)

    def take(self, event: Event, at: float) -> Sequence[ServerRound]:
        self.account.add_event()
        if not isinstance(meta := event.get("meta_info"), dict):
            return ()
        self.account.checked(_totals(meta, whole(meta.get("completion_tokens"))))
        self.meta = meta
        piece = self._piece(event, at)
        if not piece.num_tokens:
            self._join(piece.text)
            return ()
        self.pieces.append(piece)
        return (piece.as_step(len(self.pieces) - 1, speculates=self._speculates),)

    def _join(self, text: str) -> None:
        """Append ``text``, which came without new tokens, to the last chunk."""
        if text and self.pieces:
            last = self.pieces[-1]
            self.pieces[-1] = replace(last, text=last.text + text)

    def _piece(self, event: Event, at: float) -> Piece:
        ids, text = wholes(event.get("output_ids")), event.get("text")
        count = whole(self.meta.get("completion_tokens"))
        so_far = count is not None and len(ids) in (0, count)
        added = self._new_text(text if isinstance(text, str) else "", so_far, bool(ids))
        if so_far and ids:
            self.account.check_same("tokens", self.ids, list(ids))
        new = ids[len(self.ids) :] if so_far else ids
        size = len(new) if ids or count is None else max(0, count - self.tokens)
        self.account.add(size, added)
        self.text += added
        self.ids += new
        self.tokens += size
        return Piece(text=added, at=at, num_tokens=size, token_ids=new)

    def _new_text(self, text: str, so_far: bool, has_ids: bool) -> str:
        """Return the text that an event adds.

        Events of older versions have no ids. Only a comparison with the earlier text shows whether
        such an event repeats the whole text so far.
        """
        if so_far and text.startswith(self.text):
            return text[len(self.text) :]
        if so_far and has_ids and self.tokens:
            if self.text.startswith(text):  # SGLang has removed a stop string from the end
                return ""
            self.account.check_same("text", self.text, text)
        return text

    @property
    def _speculates(self) -> bool:
        return self.info.capabilities.speculates is True

    def close(self) -> Sequence[ServerRound]:
        return ()

    def outcome(self) -> Outcome:
        speculates = self._speculates
        rounds = tuple(
            piece.as_step(place, speculates=speculates) for place, piece in enumerate(self.pieces)
        )
        totals = _totals(self.meta, self.tokens)
        plain = Outcome(
            rounds=rounds,
            grounds="none",
            finish=_finish(self.meta.get("finish_reason")),
            prompt_tokens=whole(self.meta.get("prompt_tokens")),
            totals=totals,
        )
        if not speculates:
            return plain
        checked = checked_rounds(rounds, totals, self.info.gamma)
        if checked is not None:
            return replace(plain, rounds=checked, grounds="checked chunks")
        notices = () if totals.rounds is None else (_DISAGREE,)
        return replace(plain, grounds="chunks", notices=notices)


def _totals(meta: dict[str, Any], tokens: int | None) -> ServerTotals:
    return ServerTotals(
        rounds=whole(meta.get("spec_verify_ct")) or None,
        drafted=_any_of(meta, _DRAFTED),
        accepted=_any_of(meta, _ACCEPTED),
        tokens=tokens,
    )


def _any_of(meta: dict[str, Any], names: Sequence[str]) -> int | None:
    return next((each for name in names if (each := whole(meta.get(name))) is not None), None)


def _finish(reason: Any) -> Finish | None:
    """Translate SGLang's finish reason to a ``Finish``; return None without a reason.

    A stop with a matched text was caused by a stop string; any other stop was caused by EOS.
    """
    kind = inside(reason, "type")
    if not isinstance(kind, str):
        return None
    matched = inside(reason, "matched")
    return _FINISH.get(kind, "stop" if isinstance(matched, str) else "eos")
