"""Where a text ends: end-of-text token, stop string, length limit, context limit."""

from __future__ import annotations

from collections.abc import Sequence

from specviz.engine.model.pair import Pair
from specviz.errors import PromptError
from specviz.record.trace import CutReason, Finish, RunConfig
from specviz.values import Value

_STOP_MARGIN = 4  # tokens searched per character of a stop string: up to 4 bytes, a token each


class RoundOutput(Value):
    """The tokens that a round emits, up to the end of the text."""

    emitted: tuple[int, ...]
    num_accepted: int  # candidates that stay in the text
    has_extra: bool
    cut: CutReason | None
    finish: Finish | None


class Endings:
    """Cuts the rounds of one run at the end of the text."""

    def __init__(self, pair: Pair, config: RunConfig, prompt_length: int) -> None:
        self._table = pair.token_table
        self._eos = frozenset[int]() if config.ignore_eos else pair.eos_ids
        self._stop = config.stop
        self._prompt_length = prompt_length
        limit = prompt_length + config.max_new_tokens
        short = pair.max_context is not None and limit > pair.max_context
        self.limit_reason: CutReason = "context" if short else "length"

    def judge(
        self,
        history: Sequence[int],
        accepted: Sequence[int],
        extra_id: int,
        room: int,
    ) -> RoundOutput:
        """Return the tokens that the round emits: the accepted candidates and the extra token.

        They are cut at the end of the text or after ``room`` tokens.
        """
        full = (*accepted, extra_id)
        kept = full[:room]
        length, reason = self._first_ending(history, kept)
        if reason is None and len(kept) == room:
            reason = self.limit_reason
        lost = length < len(full) and reason in ("eos", "stop")
        return RoundOutput(
            emitted=kept[:length],
            num_accepted=min(len(accepted), length),
            has_extra=length == len(full),
            cut=reason if lost else None,
            finish=reason,
        )

    def text(self, history: Sequence[int]) -> str:
        """Return the emitted text, without end-of-text tokens and cut before a stop string."""
        emitted = [token for token in history[self._prompt_length :] if token not in self._eos]
        text = self._table.join(emitted)
        ends = [text.find(stop) for stop in self._stop]
        return text[: min((end for end in ends if end >= 0), default=len(text))]

    def _first_ending(
        self, history: Sequence[int], kept: Sequence[int]
    ) -> tuple[int, CutReason | None]:
        for position, token in enumerate(kept):
            if token in self._eos:
                return position + 1, "eos"
            if self._stop and self._completes_stop(history, kept[: position + 1]):
                return position + 1, "stop"
        return len(kept), None

    def _completes_stop(self, history: Sequence[int], tokens: Sequence[int]) -> bool:
        longest = max(len(stop) for stop in self._stop)
        before = history[self._prompt_length :][-_STOP_MARGIN * longest :]
        text = self._table.join((*before, *tokens))
        return any(stop in text for stop in self._stop)


def room_for(pair: Pair, prompt_ids: Sequence[int], config: RunConfig) -> tuple[int, int]:
    """Return how many tokens a run's cache must hold, and the greatest length of the run's text.

    Raises:
        PromptError: the prompt leaves no room for a token.
    """
    context = pair.max_context
    check_room(context, len(prompt_ids))
    limit = len(prompt_ids) + config.max_new_tokens
    if context is not None:
        limit = min(limit, context)
    return limit + 1, limit


def check_room(context: int | None, length: int) -> None:
    """Raise PromptError if a prompt of ``length`` tokens leaves no room for another token.

    ``context``: the greatest length of a text; None if there is no limit.
    """
    if context is not None and length >= context:
        raise PromptError(
            f"The prompt has {length} tokens; the pair's context holds {context}.",
            remedy=f"Shorten the prompt to at most {context - 1} tokens, or use a pair with more "
            "context.",
        )
