"""From logits to one distribution, and from a distribution and a uniform to a token.

The same sampler serves draft and target, so both sides see the same temperature, top-k and
top-p. Greedy decoding is a one-hot through the same functions. Randomness is keyed by
(seed, round, slot): a slot's uniform does not depend on how many others are drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, Protocol, TypeVar

import numpy as np
import torch

from specviz.record.trace import RunConfig

Given = ParamSpec("Given")
Found = TypeVar("Found")

EXTRA_SLOT = 0
_COLDEST = 1e-30  # any lower, and a logit over the temperature is no float32
_UNIFORM_BITS = 24  # a product of two such numbers and a float32 is exact in double precision


def draft_slot(position: int) -> int:
    """The slot that draws the candidate at this position of a round."""
    return 1 + 2 * position


def verdict_slot(position: int) -> int:
    """The slot that decides on the candidate at this position of a round."""
    return 2 + 2 * position


class Uniforms:
    """The uniforms of a seed. One generator is set to every round, since a new one takes longer."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Philox(key=seed)
        self._state: Any = self._generator.state

    def of_round(self, index: int, num_candidates: int) -> np.ndarray:
        """In [0, 1) for the slots of one round, [2 * num_candidates + 1] float32."""
        self._state["state"]["counter"][1] = index
        self._generator.state = self._state
        raw = self._generator.random_raw(2 * num_candidates + 1)
        return ((raw >> np.uint64(64 - _UNIFORM_BITS)) * 2.0**-_UNIFORM_BITS).astype(np.float32)


class Noise:
    """An exponential for every place of a text and every token, keyed by seed and place.

    Whoever takes the token whose exponential over its probability is least draws from that law
    (the Gumbel-max trick); two laws that share the noise often say the same.
    """

    def __init__(self, seed: int, vocabulary: int, device: torch.device) -> None:
        self._generator = np.random.Philox(key=seed)
        self._state: Any = self._generator.state
        self._vocabulary = vocabulary
        self._device = device
        self._rows: dict[int, torch.Tensor] = {}

    def rows(self, place: int, count: int) -> torch.Tensor:
        """Of ``count`` places from this one of the text after the prompt, [count, vocabulary]."""
        wanted = range(place, place + count)
        self._rows = {each: self._row(each) for each in wanted}
        return torch.stack(list(self._rows.values()))

    def _row(self, place: int) -> torch.Tensor:
        if place in self._rows:
            return self._rows[place]
        self._state["state"]["counter"][1:3] = place, 1  # those of rounds have a nought there
        self._generator.state = self._state
        raw = self._generator.random_raw(self._vocabulary) >> np.uint64(11)
        row = -np.log((raw + 0.5) * 2.0**-53)
        return torch.from_numpy(row).to(self._device, wide_on(self._device))


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """The random numbers of one round: uniforms by slot and, where the rule shares it, noise."""

    uniforms: torch.Tensor  # [1 + 2 * num_candidates]
    noise: torch.Tensor | None = None  # [depth + 1, vocabulary]

    def of_candidate(self, number: int) -> torch.Tensor:
        """[1]: what draws it."""
        slot = draft_slot(number)
        return self.uniforms[slot : slot + 1]

    def verdicts(self, count: int) -> torch.Tensor:
        """[count]: what decides on the candidates."""
        return self.uniforms[verdict_slot(0) : verdict_slot(count) : 2]


def keyed_uniforms(seed: int, round_index: int, num_candidates: int) -> np.ndarray:
    """Those of one round alone."""
    return Uniforms(seed).of_round(round_index, num_candidates)


def on_one_thread(function: Callable[Given, Found]) -> Callable[Given, Found]:
    """Its tensor operations wake none of torch's other threads.

    Those would keep their cores busy for milliseconds afterwards, and the step's own threads would
    have to wait for them.
    """

    @wraps(function)
    def alone(*args: Given.args, **settings: Given.kwargs) -> Found:
        threads = torch.get_num_threads()
        if threads == 1:
            return function(*args, **settings)
        torch.set_num_threads(1)
        try:
            return function(*args, **settings)
        finally:
            torch.set_num_threads(threads)

    return alone


class Sampler:
    """The processors of a run, applied to logits of any number of rows."""

    def __init__(self, config: RunConfig) -> None:
        self._temperature = max(config.temperature, _COLDEST)
        self._top_k = config.top_k
        self._top_p = config.top_p
        self.greedy = config.greedy

    @on_one_thread
    def probs(self, logits: torch.Tensor) -> torch.Tensor:
        """Distributions [..., vocabulary] in float32."""
        if self.greedy:
            return one_hot(logits.argmax(-1, keepdim=True), logits.shape[-1])
        probs = (logits / self._temperature).softmax(-1)
        if 0 < self._top_k < logits.shape[-1]:
            probs = _keep_top_k(probs, self._top_k)
        if self._top_p < 1.0:
            probs = _keep_top_p(probs, self._top_p)
        return probs

    @on_one_thread
    def choose(
        self, logits: torch.Tensor, uniforms: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Tokens [...] drawn from logits [..., vocabulary], and the distributions drawn from."""
        if self.greedy:
            index = logits.argmax(-1, keepdim=True)
            return index[..., 0], one_hot(index, logits.shape[-1])
        probs = self.probs(logits)
        return inverse_cdf(probs, uniforms), probs

    @on_one_thread
    def next_token(
        self, logits: torch.Tensor, uniforms: Callable[[], torch.Tensor]
    ) -> torch.Tensor:
        """Tokens as ``choose`` draws them, for a caller that needs neither laws nor uniforms."""
        return logits.argmax(-1) if self.greedy else inverse_cdf(self.probs(logits), uniforms())

    @on_one_thread
    def draw(self, probs: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
        """Token ids [...] for distributions [..., vocabulary] and uniforms [...]."""
        return probs.argmax(-1) if self.greedy else inverse_cdf(probs, uniforms)


def one_hot(index: torch.Tensor, size: int) -> torch.Tensor:
    """Rows [..., size] with a one at index [..., 1]."""
    rows = torch.zeros(*index.shape[:-1], size, dtype=torch.float32, device=index.device)
    return rows.scatter_(-1, index, 1.0)


def inverse_cdf(probs: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """The first token whose cumulated probability exceeds the uniform's share.

    Cumulated in double precision, a uniform below 1 stays below the total; so a token of
    probability zero is never drawn. A device without it leaves this to the host.
    """
    if wide(probs) != torch.float64:
        return inverse_cdf(probs.cpu(), uniforms.cpu()).to(probs.device)
    cumulated = probs.cumsum(-1, dtype=torch.float64)
    levels = uniforms[..., None].to(cumulated) * cumulated[..., -1:]
    index = torch.searchsorted(cumulated, levels, right=True)[..., 0]
    return index.clamp_(max=probs.shape[-1] - 1)


def wide(like: torch.Tensor) -> torch.dtype:
    """Double precision where the device has it."""
    return wide_on(like.device)


def wide_on(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type == "mps" else torch.float64


class Chooser(Protocol):
    """How a drafter takes a candidate from a law."""

    def __call__(
        self, logits: torch.Tensor, draws: Draws, number: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The token [1] of this number in the round, and the law [1, vocabulary] it is of."""
        ...


class Drawing:
    """By a uniform of its own."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    def __call__(
        self, logits: torch.Tensor, draws: Draws, number: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return self._sampler.choose(logits, draws.of_candidate(number))


class Likeliest:
    """The likeliest token, and no other law than that."""

    def __call__(
        self, logits: torch.Tensor, draws: Draws, number: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        del draws, number
        index = logits.argmax(-1, keepdim=True)
        return index[..., 0], one_hot(index, logits.shape[-1])


class Racing:
    """By the noise that the target will use in the same place."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    @on_one_thread
    def __call__(
        self, logits: torch.Tensor, draws: Draws, number: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        assert draws.noise is not None
        law = self._sampler.probs(logits)
        return race(law, draws.noise[number : number + 1]).argmin(-1), law


def make_chooser(config: RunConfig, sampler: Sampler) -> Chooser:
    if config.rule == "coupled":
        return Racing(sampler)
    return Likeliest() if config.rule == "match" else Drawing(sampler)


def race(law: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """When each token [..., vocabulary] arrives; the first one is drawn from the law."""
    return noise / law.to(noise)


def _keep_top_k(probs: torch.Tensor, count: int) -> torch.Tensor:
    top = probs.topk(count, dim=-1)
    kept = torch.zeros_like(probs).scatter_(-1, top.indices, top.values)
    return kept / kept.sum(-1, keepdim=True)


def _keep_top_p(probs: torch.Tensor, share: float) -> torch.Tensor:
    """The smallest set of likeliest tokens whose mass reaches the share, the likeliest always.

    A share too small for float32 counts as 0; hence ``before > 0``, which spares the likeliest.
    """
    ordered, order = probs.sort(dim=-1, descending=True)
    before = ordered.cumsum(-1) - ordered
    kept = ordered.masked_fill((before >= share) & (before > 0.0), 0.0)
    kept = torch.zeros_like(probs).scatter_(-1, order, kept)
    return kept / kept.sum(-1, keepdim=True)
