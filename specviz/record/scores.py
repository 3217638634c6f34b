"""Scores of a known text by both models: one value for each token.

The odds of a token x are the probability that x was an accepted candidate, given that the target
wrote the text. In token-by-token verification they are min(1, draft(x) / target(x)), because x is
an accepted candidate with probability min(draft(x), target(x)) and is emitted with probability
target(x). Under other rules, the odds are different. The odds hold only for the temperature, top-k
and top-p that the text was sampled with.
"""

from __future__ import annotations

import sys
from dataclasses import field, replace

from specviz.record.trace import Prompt, RunConfig
from specviz.values import Value


class SamplingParams(Value):
    """The sampling parameters of both models."""

    temperature: float
    top_k: int = 0
    top_p: float = 1.0

    def put_into(self, config: RunConfig) -> RunConfig:
        return replace(config, temperature=self.temperature, top_k=self.top_k, top_p=self.top_p)


class TextScores(Value):
    """The scores of a text, one value per token.

    ``overlaps``: sum min(draft, target), the acceptance probability before the token is drawn.
    ``first_odds``: the odds that the token would have as the first of a round; empty unless a round
    has several drafts. ``sureness``: the draft's probability of the token, at temperature 1 if the
    text's temperature is 0; empty if unknown. Entropies are in nats. ``matches``: whether the token
    is the draft's likeliest token. ``agrees``: whether both models have the same likeliest token. A
    token that top-k or top-p excludes has odds 0. If only part of the distributions is known,
    ``overlap_bounds`` has the lower and upper bounds of the overlaps, and ``overlaps`` and the
    entropies are empty.
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
        """The index of the first token with target probability 0; None if there is none."""
        return next((at for at, prob in enumerate(self.text_probs) if prob == 0.0), None)

    def as_written(self) -> TextScores:
        """Return scores in which no token is impossible, because the target wrote the text.

        The scores come from one pass over the whole text. The pass sums in another order than the
        single steps that wrote the text. In low precision, a token that won a near tie in a step
        can therefore have target probability 0 in the pass. Such a token gets the smallest positive
        probability. The token's odds, its acceptance probability, become 1 if the draft's likeliest
        token is this token, else 0.
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


class CopiedRounds(Value):
    """The rounds of prompt or suffix lookup along a known text, one value per round.

    A known text determines these rounds: a proposed token is accepted exactly if it is the text's
    next token. A round that the end of the text or a limit shortens is left out.
    """

    gamma: int
    starts: tuple[int, ...]  # tokens of the text before each round
    drafted: tuple[int, ...]
    emitted: tuple[int, ...]


class ScoredText(Value):
    """A text with its scores under one set of sampling parameters.

    ``ends``: whether the text ends with an end-of-text token, not at a limit. ``own``: whether the
    target wrote the text with these parameters. Only then do the odds along the text apply to a
    run. ``scores`` is None if no model drafts; ``copied`` is empty if a model drafts.
    """

    prompt: Prompt
    sampling: SamplingParams
    token_ids: tuple[int, ...]
    token_texts: tuple[str, ...]
    ends: bool
    own: bool
    scores: TextScores | None
    copied: tuple[CopiedRounds, ...] = ()
    doubt: str = ""  # why a server's text may not have the target's distribution
    pieces: dict[str, str] = field(default_factory=dict[str, str])  # as in ``Trace.pieces``

    @property
    def num_prompt(self) -> int:
        return len(self.prompt.token_ids)
