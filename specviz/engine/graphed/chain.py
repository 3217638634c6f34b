"""The stages of a round on the device: draft γ tokens, verify them, record what was thought.

For one γ and one way to sample. A stage reads and writes memory that keeps its place, finds where
the text stands on the device, and asks for no value, so it can be captured. Its random numbers lie
on a tape, a row a round: those that the other path draws from the same seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from specviz.engine.decoding.judging import OneByOne, row_at
from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.recording import Both, Recorder
from specviz.engine.decoding.sampling import Draws, Sampler, make_chooser
from specviz.engine.decoding.verify import make_rule
from specviz.engine.graphed.playback import Playback, Work
from specviz.engine.graphed.static_model import StaticModel
from specviz.engine.graphed.text_state import TextState
from specviz.engine.model.text import TokenTable
from specviz.record.run_config import RunConfig

FED_FIRST = 2  # by a draft phase: whether the text's last token but one is new to the draft or not


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Memory of one text: both models with their caches, and where the text stands."""

    target: StaticModel
    draft: StaticModel
    state: TextState


class Chain:
    """``forced`` rounds hold the target to tokens that a fork names."""

    def __init__(
        self,
        lines: Lines,
        config: RunConfig,
        table: TokenTable,
        playback: Playback,
        *,
        forced: bool,
    ) -> None:
        state, device = lines.state, lines.target.device
        gamma, size = config.gamma, len(table.texts)
        self.gamma = gamma
        self.recorder = Recorder(table, config.temperature)
        self._lines = lines
        self._playback = playback
        self._sampler = Sampler(config)
        self._choose = make_chooser(config, self._sampler)
        self._rule = make_rule(config)
        self._judge = OneByOne(self._rule, self._sampler)
        self._tape = torch.zeros(state.rows, 2 * gamma + 1, device=device)
        self._forced = _nobody(state.rows, gamma + 1, device) if forced else None
        self._candidates = torch.zeros(gamma, dtype=torch.int64, device=device)
        self._laws, self._logits = (torch.zeros(gamma, size, device=device) for _ in range(2))
        self._target_laws, self._target_logits = (
            torch.zeros(gamma + 1, size, device=device) for _ in range(2)
        )
        self.verdicts = torch.zeros(0, device=device)  # what the last round found; see ``judging``
        self.insights = torch.zeros(0, device=device)  # and what it recorded; see ``recording``
        self._works: dict[tuple[str, int], Work] = {}

    @property
    def captured(self) -> int:
        """Stages that are ready to play."""
        return len(self._works)

    def write_tape(self, uniforms: np.ndarray, forced: Sequence[tuple[int, int, int]]) -> None:
        """``uniforms`` [rounds, 2 γ + 1]; ``forced``: rounds, places, and the tokens there."""
        self._tape[: len(uniforms)].copy_(torch.from_numpy(uniforms))
        if self._forced is not None:
            self._forced.fill_(-1)
            for index, place, token_id in forced:
                self._forced[index, place] = token_id

    def draft(self, seen: int) -> Work:
        """Plays a draft phase; the text ends before row ``seen`` however many stand."""
        return self._work("draft", seen, lambda: self._draft(seen))

    def verify(self, seen: int) -> Work:
        """Plays the target's pass and the verdicts, and appends what stands to the text."""
        return self._work("verify", seen, lambda: self._verify(seen))

    def record(self) -> Work:
        return self._work("record", 0, self._record)

    def propose(self, token_ids: Sequence[int]) -> None:
        """Candidates in place of drafted ones, each of them certain."""
        self._candidates.copy_(torch.tensor(token_ids))
        self._laws.zero_().scatter_(-1, self._candidates[:, None], 1.0)

    def _work(self, name: str, seen: int, work: Work) -> Work:
        key = (name, seen)
        if key not in self._works:
            self._works[key] = self._playback.capture(work, self._lines.state.place)
        return self._works[key]

    def _draft(self, seen: int) -> None:
        state, draws = self._lines.state, self._draws()
        first, fed = state.length - FED_FIRST, state.ending(FED_FIRST)
        for number in range(self.gamma):
            logits = self._lines.draft.feed(fed, first, seen, 1)
            first = first + fed.shape[0]
            fed, law = self._choose(logits, draws, number)
            self._candidates[number : number + 1].copy_(fed)
            self._laws[number : number + 1].copy_(law)
            self._logits[number : number + 1].copy_(logits)

    def _verify(self, seen: int) -> None:
        state = self._lines.state
        fed = torch.cat((state.ending(1), self._candidates))
        logits = self._lines.target.feed(fed, state.length - 1, seen, self.gamma + 1)
        probs = self._held(self._sampler.probs(logits))
        self._target_logits.copy_(logits)
        self._target_laws.copy_(probs)
        found = self._judge.decide(self._proposal, probs, self._draws())
        self.verdicts = _kept(self.verdicts, found.values)
        places = torch.arange(self.gamma + 1, device=fed.device)
        drafted = torch.cat((self._candidates, found.extra[None]))
        written = torch.where(places == found.num_accepted, found.extra, drafted)
        state.append(written, found.num_accepted + 1)
        state.index.add_(1)

    def _record(self) -> None:
        count = self.gamma
        both = Both.of(self._proposal, self._target_logits[:count], self._target_laws[:count])
        self.insights = _kept(self.insights, self.recorder.on_device(self._rule, both))

    @property
    def _proposal(self) -> Proposal:
        return Proposal(self._candidates, self._laws, self._logits, FED_FIRST)

    def _draws(self) -> Draws:
        return Draws(row_at(self._tape, self._lines.state.index))

    def _held(self, probs: torch.Tensor) -> torch.Tensor:
        """The target's laws, but of a forced token where the round has one."""
        if self._forced is None:
            return probs
        words = row_at(self._forced, self._lines.state.index)[:, None]
        one = torch.zeros_like(probs).scatter_(-1, words.clamp(min=0), 1.0)
        return torch.where(words >= 0, one, probs)


def _nobody(rows: int, places: int, device: torch.device) -> torch.Tensor:
    return torch.full((rows, places), -1, dtype=torch.int64, device=device)


def _kept(place: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """The values in a place that stays; made where they come for the first time."""
    if place.shape != values.shape or place.dtype != values.dtype:
        place = torch.empty_like(values)
    place.copy_(values)
    return place
