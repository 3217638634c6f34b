"""What both models say of a text that is known: one value at each of its tokens.

The odds at a token x are the chance that x was an accepted candidate, given that the target wrote
the text: token by token min(1, draft(x) / target(x)), under another rule what that says. They are
of the law that the text was written under, its temperature, top-k and top-p, and of no other.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace

from specviz.record.trace import Prompt, RunConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """The processors that both models pass through before anything is drawn."""

    temperature: float
    top_k: int = 0
    top_p: float = 1.0

    @staticmethod
    def of(config: RunConfig) -> Law:
        return Law(temperature=config.temperature, top_k=config.top_k, top_p=config.top_p)

    def put_into(self, config: RunConfig) -> RunConfig:
        return replace(config, temperature=self.temperature, top_k=self.top_k, top_p=self.top_p)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextScores:
    """``overlaps``: sum min(draft, target), acceptance before the token is drawn.

    ``first_odds``: those of a token with which a round begins, where several drafts begin it.
    ``sureness``: the draft's chance of the token, at temperature 0 that at 1; empty if unknown.
    Entropies are in nats. ``matches``: the token is the draft's likeliest; ``agrees``: both models
    have the same likeliest token. Where the law forbids the token, its odds are 0. Where laws were
    listed in part, overlaps lie between ``overlap_bounds``, and they and the entropies are empty.
    """

    odds: tuple[float, ...]
    overlaps: tuple[float, ...]
    text_probs: tuple[float, ...]  # of the target
    draft_entropies: tuple[float, ...]
    target_entropies: tuple[float, ...]
    matches: tuple[bool, ...]
    agrees: tuple[bool, ...]
    overlap_bounds: tuple[tuple[float, float], ...] = ()
    first_odds: tuple[float, ...] = ()
    sureness: tuple[float, ...] = ()

    @property
    def impossible_at(self) -> int | None:
        """The first token that the target never writes under this law."""
        return next((at for at, prob in enumerate(self.text_probs) if prob == 0.0), None)

    def as_written(self) -> TextScores:
        """Of words that the target wrote under this law, none of which is impossible.

        A pass over the whole text adds up in another order than steps do, so with few bits it may
        choose otherwise at a near tie. A token that it forbids gets the smallest probability, and
        odds of 1 if it is the draft's likeliest, as at temperature 0; else of 0.
        """
        if self.impossible_at is None:
            return self
        return replace(
            self,
            odds=self._or_match(self.odds),
            first_odds=self._or_match(self.first_odds),
            text_probs=tuple(prob or sys.float_info.min for prob in self.text_probs),
        )

    def _or_match(self, odds: tuple[float, ...]) -> tuple[float, ...]:
        rows = zip(odds, self.text_probs, self.matches, strict=bool(odds))
        return tuple(own if prob else float(match) for own, prob, match in rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedRounds:
    """The rounds of a drafter that copies, along a text that is known: nothing in them is left to
    chance.

    Cut rounds are left out, as everywhere.
    """

    gamma: int
    starts: tuple[int, ...]  # tokens of the text before each round
    drafted: tuple[int, ...]
    emitted: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredText:
    """A text with what the pair makes of it under one law.

    ``ends``: by an end-of-text token, not at a limit. ``own``: the target wrote it under this law;
    odds along any other text are of that text, not of a run. ``scores`` is None where no model
    drafts, ``copied`` empty where one does.
    """

    prompt: Prompt
    law: Law
    token_ids: tuple[int, ...]
    token_texts: tuple[str, ...]
    ends: bool
    own: bool
    scores: TextScores | None
    copied: tuple[CopiedRounds, ...] = ()
    doubt: str = ""  # why its words may not have the target's law, although a server wrote them
    pieces: dict[str, str] = field(default_factory=dict[str, str])  # as in ``Trace.pieces``

    @property
    def num_prompt(self) -> int:
        return len(self.prompt.token_ids)
