"""Base class of speculative runs: prompt, text, ending, and changes made by the user (forks).

Subclasses decode the rounds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np

from specviz.engine.decoding.endings import Endings, RoundOutput
from specviz.engine.decoding.judging import Verdicts
from specviz.engine.decoding.sampling import verdict_slot
from specviz.engine.model.chat import encode_prompt
from specviz.engine.model.pair import Pair
from specviz.engine.model.read_text import ReadText
from specviz.errors import ConfigError
from specviz.record.conversations import Conversation, PromptLike
from specviz.record.forks import Fork
from specviz.record.trace import CutReason, Finish, Prefill, Prompt, Round, RunConfig


class SpeculativeRun(ABC, Iterator[Round]):
    """An iterator over the rounds of a run; ``stop`` ends the run after the current round."""

    prefill: Prefill

    def __init__(self, pair: Pair, prompt: PromptLike, config: RunConfig) -> None:
        self.pair = pair
        self.config = config
        self.notices: tuple[str, ...] = ()  # about this run; the pair has notices of its own
        prompt_ids = encode_prompt(pair, prompt, chat=config.chat)
        self.prompt = describe_prompt(pair, prompt, prompt_ids)
        _check_vocabulary(config.forks, pair)
        self._finish: Finish = "stopped"
        self._history = list(prompt_ids)
        self._num_returned = len(prompt_ids)  # length of the history after the returned rounds
        self._endings = Endings(pair, config, len(prompt_ids))
        self._index = 0
        self._done = False

    @property
    def emitted(self) -> tuple[int, ...]:
        """The tokens of the returned rounds."""
        return tuple(self._history[len(self.prompt.token_ids) : self._num_returned])

    @property
    def text(self) -> str:
        return self._endings.text(self._history[: self._num_returned])

    @property
    def finish(self) -> Finish:
        """Why the text ended; "stopped" if it has not ended."""
        return self._finish

    @property
    def index(self) -> int:
        """The index of the next round to decode; earlier rounds may not be returned yet."""
        return self._index

    @property
    def done(self) -> bool:
        """Whether the run decodes no further round."""
        return self._done

    def stop(self) -> None:
        """End the run after the current round."""
        self._done = True

    def read_text(self) -> ReadText | None:
        """Return the text so far with its caches, so that later runs can copy the caches.

        Return None if the caches cannot be copied.
        """
        return None

    @abstractmethod
    def release(self) -> None:
        """Free the models' caches; returned rounds stay valid."""

    @abstractmethod
    def go_back(self, entry: Round) -> None:
        """Undo ``entry`` and all later rounds, so that the run decodes ``entry`` again."""

    def __iter__(self) -> SpeculativeRun:
        return self

    def _go_back(self, entry: Round) -> None:
        assert entry.context_length <= len(self._history)
        del self._history[entry.context_length :]
        self._index, self._num_returned = entry.index, entry.context_length
        self._finish, self._done = "stopped", False

    def _write(self, output: RoundOutput) -> None:
        """Append a round's tokens; end the run if the round ends the text."""
        self._history.extend(output.emitted)
        if output.finish is not None:
            self._finish = output.finish
            self._done = True


def describe_prompt(pair: Pair, prompt: PromptLike, prompt_ids: Sequence[int]) -> Prompt:
    if isinstance(prompt, Conversation):
        text, before = prompt.text, prompt.before
    else:
        text = prompt if isinstance(prompt, str) else pair.token_table.join(prompt_ids)
        before = ()
    return Prompt(
        text=text,
        before=before,
        token_ids=tuple(prompt_ids),
        token_texts=tuple(pair.token_table.text(token_id) for token_id in prompt_ids),
    )


def _check_vocabulary(forks: Sequence[Fork], pair: Pair) -> None:
    most = max((each.instead or 0 for each in forks), default=0)
    if most >= pair.vocabulary:
        raise ConfigError(
            f"A fork sets token {most}, but the pair has only {pair.vocabulary:,} tokens.",
            remedy="Load the pair of the forked run.",
        )


def overrule(uniforms: np.ndarray, forks: Sequence[Fork]) -> dict[int, float]:
    """Write the uniforms that the user chose in ``forks`` into a round's ``uniforms``.

    Returns:
        The old values of the replaced uniforms, by candidate position.
    """
    overruled: dict[int, float] = {}
    for fork in forks:
        slot = verdict_slot(fork.place)
        if fork.uniform is not None and slot < len(uniforms):
            overruled[fork.place] = float(uniforms[slot])
            uniforms[slot] = fork.uniform
    return overruled


def check_forks(forks: Sequence[Fork], verdicts: Verdicts) -> None:
    """Raise ConfigError unless each fork's candidate was tested at the fork's position."""
    for fork in forks:
        judged = verdicts.token_ids[: len(verdicts.path) + 1]
        if fork.place >= len(judged) or judged[fork.place] != fork.token_id:
            raise ConfigError(
                f"This is not the run that was forked: its candidate at {fork.words} differs.",
                remedy="Use the same pair, device, prompt and settings as the forked run.",
            )


def why_cut(
    output: RoundOutput, depth: int, room: int, limit_reason: CutReason
) -> CutReason | None:
    """Return why the end of the text shortened this round; None for a whole round."""
    if output.cut is not None:
        return output.cut
    return limit_reason if room < depth + 1 else None
