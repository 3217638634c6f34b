"""Speculative runs with the deliberate bugs that ``record/breaks.py`` describes.

A bug replaces one part of a run: the acceptance rule, the drafter, the random numbers or a model's
step. The decoding loop is unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TypeAlias

import numpy as np
import torch

from specviz.engine.decoding.endings import room_for
from specviz.engine.decoding.model_drafting import ModelDrafter
from specviz.engine.decoding.sampling import (
    SampledChooser,
    Sampler,
    Uniforms,
    certain_choice,
    draft_slot,
    verdict_slot,
)
from specviz.engine.decoding.speculation import Speculation
from specviz.engine.decoding.verify import OverAccept
from specviz.engine.model.chat import encode_prompt
from specviz.engine.model.pair import Pair
from specviz.engine.model.steps import Step
from specviz.engine.model.wrapped_step import WrappedStep
from specviz.errors import PairError
from specviz.record.breaks import break_named
from specviz.record.conversations import PromptLike
from specviz.record.trace import RunConfig

Prompt: TypeAlias = PromptLike
_MOST_KEPT = 256  # most tokens that an untrimmed cache wrongly keeps; it removes any further ones


def broken(pair: Pair, prompt: Prompt, config: RunConfig, name: str) -> Speculation:
    """Return a speculative run with the named bug."""
    break_named(name)
    if pair.draft is None:
        raise PairError("This pair has no draft model.", remedy="Load the pair with a draft model.")
    assert config.drafter == "model", "bugs need the draft model as drafter"
    return _BUGS[name](pair, prompt, config)


def _recovered_from_target(pair: Pair, prompt: Prompt, config: RunConfig) -> Speculation:
    return Speculation(pair, prompt, config, rule=OverAccept(0.0, "target"))


def _untrimmed_target(pair: Pair, prompt: Prompt, config: RunConfig) -> Speculation:
    other = _with_steps(pair, target=lambda capacity: _untrimmed(pair.target_step, pair, capacity))
    return Speculation(other, prompt, config)


def _untrimmed_draft(pair: Pair, prompt: Prompt, config: RunConfig) -> Speculation:
    other = _with_steps(pair, draft=lambda capacity: _untrimmed(pair.draft_step, pair, capacity))
    return Speculation(other, prompt, config)


def _draft_temperature(pair: Pair, prompt: Prompt, config: RunConfig) -> Speculation:
    return _drafting_with(_ColderSampler(config), pair, prompt, config)


def _match(pair: Pair, prompt: Prompt, config: RunConfig) -> Speculation:
    return _drafting_with(_LikeliestSampler(config), pair, prompt, config)


def _reused_uniform(pair: Pair, prompt: Prompt, config: RunConfig) -> Speculation:
    return Speculation(pair, prompt, config, uniforms=_ReusedUniforms(config.seed))


def _bonus_from_draft(pair: Pair, prompt: Prompt, config: RunConfig) -> Speculation:
    def target(capacity: int) -> Step:
        return _BonusFromDraft(pair.target_step(capacity), pair.draft_step(capacity))

    return Speculation(_with_steps(pair, target=target), prompt, config)


_BUGS: dict[str, Callable[[Pair, Prompt, RunConfig], Speculation]] = {
    "recovered-from-target": _recovered_from_target,
    "untrimmed-target-cache": _untrimmed_target,
    "untrimmed-draft-cache": _untrimmed_draft,
    "draft-temperature": _draft_temperature,
    "match": _match,
    "reused-uniform": _reused_uniform,
    "bonus-from-draft": _bonus_from_draft,
}

_MakeStep: TypeAlias = Callable[[int], Step]


@dataclass(slots=True, eq=False, kw_only=True)
class _PairOfOtherSteps(Pair):
    """A pair whose models run with the steps that the given functions make."""

    make_target: _MakeStep = field(repr=False)
    make_draft: _MakeStep = field(repr=False)

    def target_step(self, capacity: int, prompt_ids: Sequence[int] = ()) -> Step:
        del prompt_ids  # every run reads its whole prompt
        return self.make_target(capacity)

    def draft_step(self, capacity: int, prompt_ids: Sequence[int] = ()) -> Step:
        del prompt_ids
        return self.make_draft(capacity)


def _with_steps(
    pair: Pair, *, target: _MakeStep | None = None, draft: _MakeStep | None = None
) -> Pair:
    parts = {each.name: getattr(pair, each.name) for each in fields(Pair)}
    return _PairOfOtherSteps(
        **parts, make_target=target or pair.target_step, make_draft=draft or pair.draft_step
    )


class _Untrimmed(WrappedStep):
    """A step whose ``forget`` wrongly keeps tokens in the cache, at most ``spare`` in total."""

    def __init__(self, step: Step, spare: int) -> None:
        super().__init__(step)
        self._spare = spare
        self._kept = 0  # tokens in the cache that ``forget`` should have removed

    @property
    def length(self) -> int:
        return self.step.length - self._kept

    def forget(self, count: int) -> None:
        kept = min(count, self._spare - self._kept)
        self.step.forget(count - kept)
        self._kept += kept


def _untrimmed(make: _MakeStep, pair: Pair, capacity: int) -> Step:
    most = _MOST_KEPT if pair.max_context is None else pair.max_context - capacity
    spare = max(0, min(most, _MOST_KEPT))
    return _Untrimmed(make(capacity + spare), spare)


class _BonusFromDraft(WrappedStep):
    """A target step that returns the draft's logits for the bonus token."""

    def __init__(self, target: Step, draft: Step) -> None:
        super().__init__(target)
        self._draft = draft

    def feed(self, token_ids: torch.Tensor, num_logits: int) -> torch.Tensor:
        own = self.step.feed(token_ids, num_logits)
        other = self._draft.feed(token_ids.to(self._draft.device), min(num_logits, 1))
        if num_logits < 2:
            return own
        return torch.cat((own[:-1], other[-1:].to(own)))

    def forget(self, count: int) -> None:
        self.step.forget(count)
        self._draft.forget(count)

    def branch(self, token_ids: torch.Tensor, parents: Sequence[int]) -> torch.Tensor:
        """Feed a tree; return the draft's logits for leaves and the target's for other nodes.

        A bonus token is drawn after a leaf, so the draft's logits decide it.
        """
        rows = self.step.branch(token_ids, parents)
        other = self._draft.branch(token_ids.to(self._draft.device), parents).to(rows)
        leaves = [node for node in range(len(parents)) if node not in parents]
        rows[leaves] = other[leaves]
        return rows

    def keep(self, nodes: Sequence[int]) -> None:
        self.step.keep(nodes)
        self._draft.keep(nodes)


def _drafting_with(sampler: Sampler, pair: Pair, prompt: Prompt, config: RunConfig) -> Speculation:
    capacity, _ = room_for(pair, encode_prompt(pair, prompt, chat=config.chat), config)
    drafter = ModelDrafter(pair.draft_step(capacity), SampledChooser(sampler), pair.vocabulary)
    return Speculation(pair, prompt, config, drafter=drafter)


class _ColderSampler(Sampler):
    """Draws at half the run's temperature, but returns distributions at the run's temperature."""

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self._colder = Sampler(replace(config, temperature=config.temperature / 2))

    def choose(
        self, logits: torch.Tensor, uniforms: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        tokens, _ = self._colder.choose(logits, uniforms)
        return tokens, self.probs(logits)


class _LikeliestSampler(Sampler):
    """Chooses the likeliest token and returns a one-hot distribution."""

    def choose(
        self, logits: torch.Tensor, uniforms: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        del uniforms
        return certain_choice(logits)


class _ReusedUniforms(Uniforms):
    """Decides each candidate's verdict with the uniform that drew the candidate."""

    def of_round(self, index: int, num_candidates: int) -> np.ndarray:
        drawn = super().of_round(index, num_candidates)
        drawn[verdict_slot(0) :: 2] = drawn[draft_slot(0) :: 2]
        return drawn
