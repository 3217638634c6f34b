"""The stages of a round on the device: draft, verify and record, for one configuration.

A stage uses memory at fixed addresses, reads the text's length on the device and never makes the
host wait, so a CUDA graph can capture the stage. The tape is a tensor with the uniforms of all
rounds, one row per round. With the same seed, step-by-step decoding draws the same uniforms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from specviz.engine.decoding.judging import ChainJudge, row_at
from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.recording import ModelOutputs, Recorder
from specviz.engine.decoding.sampling import Draws, Sampler, make_chooser
from specviz.engine.decoding.verify import make_rule
from specviz.engine.graphed.playback import Playback, Stage
from specviz.engine.graphed.text_state import TextState
from specviz.engine.model.static_step import StaticStep
from specviz.engine.model.text import TokenTable
from specviz.record.run_config import RunConfig

FED_FIRST = 2  # tokens fed in a draft phase's first step, even if the cache holds one of them


@dataclass(frozen=True, slots=True, eq=False)
class PairMemory:
    """Device memory for one text: both models with their caches, and the text's state."""

    target: StaticStep
    draft: StaticStep
    state: TextState


class Chain:
    """Creates and keeps the stages of a round: draft, verify and record, for one configuration.

    ``forced``: whether the run is a fork in which the user set a token (see ``write_tape``).
    """

    def __init__(
        self,
        memory: PairMemory,
        config: RunConfig,
        table: TokenTable,
        playback: Playback,
        *,
        forced: bool,
    ) -> None:
        state, device = memory.state, memory.target.device
        gamma, size = config.gamma, len(table.texts)
        self.gamma = gamma
        self.recorder = Recorder(table, config.temperature)
        self.memory = memory
        self.playback = playback
        self._sampler = Sampler(config)
        self._choose = make_chooser(config, self._sampler)
        self._rule = make_rule(config)
        self._judge = ChainJudge(self._rule, self._sampler)
        self._tape = torch.zeros(state.rows, 2 * gamma + 1, device=device)
        self._forced = _no_tokens(state.rows, gamma + 1, device) if forced else None
        self._candidates = torch.zeros(gamma, dtype=torch.int64, device=device)
        self._draft_probs, self._logits = (
            torch.zeros(gamma, size, device=device) for _ in range(2)
        )
        self._target_probs, self._target_logits = (
            torch.zeros(gamma + 1, size, device=device) for _ in range(2)
        )
        self.verdicts = torch.zeros(0, device=device)  # last round; see ``verdicts_of``
        self.insights = torch.zeros(0, device=device)  # last round; see ``Recorder.read``
        self._stages: dict[tuple[str, int], Stage] = {}

    @property
    def captured(self) -> int:
        """Return how many stages have been captured so far."""
        return len(self._stages)

    def write_tape(self, uniforms: np.ndarray, forced: Sequence[tuple[int, int, int]]) -> None:
        """Store the uniforms of all rounds, and the tokens that the user set in a fork.

        Args:
            uniforms: `[rounds, 2 γ + 1]`.
            forced: For each token that the user set: its round, its position in the round, and its
                id.
        """
        self._tape[: len(uniforms)].copy_(torch.from_numpy(uniforms))
        if self._forced is not None:
            self._forced.fill_(-1)
            for index, place, token_id in forced:
                self._forced[index, place] = token_id

    def draft(self, seen: int) -> Stage:
        """Return the captured function that drafts; each pass attends to ``seen`` cache rows."""
        return self._stage("draft", seen, lambda: self._draft(seen))

    def verify(self, seen: int) -> Stage:
        """Return the captured function that runs the target, verifies, and appends the tokens."""
        return self._stage("verify", seen, lambda: self._verify(seen))

    def record(self) -> Stage:
        return self._stage("record", 0, self._record)

    def propose(self, token_ids: Sequence[int]) -> None:
        """Use these tokens with one-hot distributions as candidates, instead of drafting."""
        self._candidates.copy_(torch.tensor(token_ids))
        self._draft_probs.zero_().scatter_(-1, self._candidates[:, None], 1.0)

    def _stage(self, name: str, seen: int, stage: Stage) -> Stage:
        key = (name, seen)
        if key not in self._stages:
            self._stages[key] = self.playback.capture(stage, self.memory.state.counters)
        return self._stages[key]

    def _draft(self, seen: int) -> None:
        state, draws = self.memory.state, self._draws()
        first, fed = state.length - FED_FIRST, state.ending(FED_FIRST)
        for number in range(self.gamma):
            logits = self.memory.draft.feed_at(fed, first, seen, 1)
            first = first + fed.shape[0]
            fed, probs = self._choose(logits, draws, number)
            self._candidates[number : number + 1].copy_(fed)
            self._draft_probs[number : number + 1].copy_(probs)
            self._logits[number : number + 1].copy_(logits)

    def _verify(self, seen: int) -> None:
        state = self.memory.state
        fed = torch.cat((state.ending(1), self._candidates))
        logits = self.memory.target.feed_at(fed, state.length - 1, seen, self.gamma + 1)
        probs = self._with_forced(self._sampler.probs(logits))
        self._target_logits.copy_(logits)
        self._target_probs.copy_(probs)
        found = self._judge.decide(self._proposal, probs, self._draws())
        self.verdicts = _stored(self.verdicts, found.values)
        places = torch.arange(self.gamma + 1, device=fed.device)
        drafted = torch.cat((self._candidates, found.extra[None]))
        written = torch.where(places == found.num_accepted, found.extra, drafted)
        state.append(written, found.num_accepted + 1)
        state.index.add_(1)

    def _record(self) -> None:
        count = self.gamma
        both = ModelOutputs.of(
            self._proposal, self._target_logits[:count], self._target_probs[:count]
        )
        self.insights = _stored(self.insights, self.recorder.on_device(self._rule, both))

    @property
    def _proposal(self) -> Proposal:
        return Proposal(self._candidates, self._draft_probs, self._logits, FED_FIRST)

    def _draws(self) -> Draws:
        return Draws(row_at(self._tape, self.memory.state.index))

    def _with_forced(self, probs: torch.Tensor) -> torch.Tensor:
        """Return ``probs`` with a one-hot at positions where the round has a forced token."""
        if self._forced is None:
            return probs
        forced = row_at(self._forced, self.memory.state.index)[:, None]
        one = torch.zeros_like(probs).scatter_(-1, forced.clamp(min=0), 1.0)
        return torch.where(forced >= 0, one, probs)


def _no_tokens(rows: int, places: int, device: torch.device) -> torch.Tensor:
    return torch.full((rows, places), -1, dtype=torch.int64, device=device)


def _stored(buffer: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Copy ``values`` into the buffer and return the buffer; allocate it on first use."""
    if buffer.shape != values.shape or buffer.dtype != values.dtype:
        buffer = torch.empty_like(values)
    buffer.copy_(values)
    return buffer
