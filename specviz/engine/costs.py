"""Step costs: what each kind of step takes, measured before any run is judged.

The steps are timed as a run makes them: draft steps and a verification in turn, so that
each finds the processor's caches as the other left them; and between their rows, plain
target steps in a row: c and v are quotients, whose parts should be of one time. Each includes
its processors, its draw, and the host's wait where the loop waits. A round draws all its
uniforms at once, within its draft phase; so does the phase that is timed here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median

import torch

from specviz.engine.drafting import ModelDrafter, Proposal
from specviz.engine.memory import memory_errors
from specviz.engine.pair import Pair
from specviz.engine.plain import PlainLane
from specviz.engine.sampling import Sampler, keyed_uniforms, one_hot
from specviz.engine.target_pass import TargetPass
from specviz.engine.verify import make_rule
from specviz.trace import RunConfig, StepCosts

MAX_TOKENS = 17
_LATER_STEPS = 3  # draft steps after the first, in the phases that tell what a later one costs
_PHASES = ((1, 1), (2, 1), (1, 1 + _LATER_STEPS))  # tokens fed first, candidates drafted
_PARTS = 4  # of the plain steps, to see whether the machine held still
_ROW = 4  # turns that verify the same number, one after the other
_PLAIN_ROW = 2  # plain steps after each row, and one before them that is not counted


def measure_step_costs(
    pair: Pair, config: RunConfig, *, contexts: Sequence[int], repeats: int = 12
) -> StepCosts:
    """The table for this pair under this sampling, at the given context lengths."""
    with memory_errors(pair.device):
        columns = [_StepBench(pair, config, context).measure(repeats) for context in contexts]
    draft_rows = tuple(zip(*(draft for draft, _, _ in columns), strict=True))
    return StepCosts(
        contexts=tuple(contexts),
        draft=draft_rows[:2],
        target=tuple(zip(*(target for _, target, _ in columns), strict=True)),
        draft_next=draft_rows[2] if draft_rows else (),
        drift=max(drift for _, _, drift in columns),
    )


class _StepBench:
    """Both models with caches of a given length, stepping without getting longer."""

    def __init__(self, pair: Pair, config: RunConfig, context: int) -> None:
        generator = torch.Generator().manual_seed(0)
        ids = torch.randint(pair.vocabulary, (context + MAX_TOKENS,), generator=generator)
        self._ids: list[int] = ids.tolist()
        self._context = context
        self._device = pair.device
        capacity = context + MAX_TOKENS + 1
        sampler = Sampler(config)
        known = self._ids[: context + 1]
        self._plain = PlainLane(pair, known, config, capacity)
        step = pair.target_step(capacity)
        step.feed(torch.tensor(known[:-1], device=step.device), 0)
        self._pass = TargetPass(step, sampler, make_rule(config), pair.device)
        self._drafter = None
        if pair.draft is not None and config.drafter == "model":
            self._drafter = ModelDrafter(pair.draft_step(capacity), sampler)
            self._drafter.prefill(known)
        self._proposals = {
            tokens: self._proposal(tokens - 1, pair.vocabulary)
            for tokens in range(2, MAX_TOKENS + 1)
        }

    def measure(self, repeats: int) -> tuple[list[float], list[float], float]:
        """Medians: draft steps, if any (first of one token, first of two, later); target steps.

        Then the drift of the plain steps.
        """
        self._round_robin(2)
        phases, verifications, plain = self._round_robin(repeats)
        drift = _drift(plain)
        target = [median(plain), *(median(verifications[n]) for n in sorted(verifications))]
        if self._drafter is None:
            return [], target, drift
        one, two, longer = (median(times) for times in phases)
        later = max(1e-9, (longer - one) / _LATER_STEPS)
        return [one, two, later], target, drift

    def _round_robin(
        self, repeats: int
    ) -> tuple[list[list[float]], dict[int, list[float]], list[float]]:
        """A draft phase, a verification, in turn; each kind of phase meets each verification.

        A run verifies the same number again and again. So does each row here, and its first
        turn, which finds the caches as another number left them, is not counted. The same holds
        of the plain steps, which come last.
        """
        plain: list[float] = []
        phases: list[list[float]] = [[] for _ in _PHASES]
        verifications: dict[int, list[float]] = {tokens: [] for tokens in self._proposals}
        for row in range(0, repeats, _ROW):
            for tokens, times in verifications.items():
                for turn in range(min(_ROW, repeats - row) + 1):
                    kind = (row + turn + tokens) % len(_PHASES)
                    drafting = self._draft_phase(*_PHASES[kind])
                    checking = self._verification(tokens)
                    if turn:
                        phases[kind].append(drafting)
                        times.append(checking)
                plain += [self._plain_step() for _ in range(_PLAIN_ROW + 1)][1:]
        return phases, verifications, plain

    def _plain_step(self) -> float:
        seconds = self._time(lambda: self._plain.step(self._ids[self._context], 0))
        self._plain.forget(1)
        return seconds

    def _draft_phase(self, tokens: int, count: int) -> float:
        if self._drafter is None:
            return 0.0
        drafter, history = self._drafter, self._ids[: self._context + tokens]
        drafter.settle(self._context)
        with torch.inference_mode():
            return self._time(lambda: drafter.propose(history, count, self._uniforms(count), None))

    def _verification(self, tokens: int) -> float:
        proposal, uniforms = self._proposals[tokens], self._uniforms(tokens - 1)
        pending = self._ids[self._context]
        seconds = self._time(lambda: self._pass.check(pending, proposal, uniforms))
        self._pass.step.forget(tokens)
        return seconds

    def _proposal(self, count: int, vocabulary: int) -> Proposal:
        ids = torch.tensor(self._ids[self._context + 1 :][:count], device=self._device)
        return Proposal(ids, one_hot(ids[:, None], vocabulary), None, 1)

    def _uniforms(self, count: int) -> torch.Tensor:
        return torch.from_numpy(keyed_uniforms(0, 0, count)).to(self._device)

    def _time(self, work: Callable[[], object]) -> float:
        self._wait()
        began = time.perf_counter()
        work()
        self._wait()
        return time.perf_counter() - began

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


def _drift(seconds: Sequence[float]) -> float:
    """The slowest part of a measurement over its fastest, less 1, by their medians."""
    size = len(seconds) // _PARTS
    parts = [median(seconds[i * size : (i + 1) * size]) for i in range(_PARTS)]
    return max(parts) / min(parts) - 1.0
