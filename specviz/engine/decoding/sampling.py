"""Sampling: turn logits into a distribution, and a distribution and a uniform into a token.

Draft and target share one sampler, hence the same temperature, top-k and top-p. Greedy decoding
uses a one-hot distribution in the same functions. Each draw of a round has a numbered slot: the
extra token, every candidate and every verdict. Randomness is keyed by (seed, round, slot), so a
slot's uniform does not depend on how many other uniforms are drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, Protocol, TypeVar

import numpy as np
import torch

from specviz.engine.model.tensors import kernel_readable
from specviz.kernels.draws import draw_rows
from specviz.kernels.readiness import draws_ready
from specviz.record.trace import RunConfig

Given = ParamSpec("Given")
Found = TypeVar("Found")

EXTRA_SLOT = 0
_COLDEST = 1e-30  # below this, logit / temperature overflows float32
_UNIFORM_BITS = 24  # so few that a uniform times a float32 is exact in double precision


def draft_slot(position: int) -> int:
    """Return the index in a round's uniforms for drawing candidate ``position``."""
    return 1 + 2 * position


def verdict_slot(position: int) -> int:
    """Return the index in a round's uniforms for judging candidate ``position``."""
    return 2 + 2 * position


class Uniforms:
    """Draws the uniform random numbers of a seed, round by round.

    All rounds reuse one generator, which saves time.
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Philox(key=seed)
        self._state: Any = self._generator.state

    def of_round(self, index: int, num_candidates: int) -> np.ndarray:
        """Return the uniforms of one round, `[2 * num_candidates + 1]` float32 in [0, 1)."""
        self._state["state"]["counter"][1] = index
        self._generator.state = self._state
        raw = self._generator.random_raw(2 * num_candidates + 1)
        return ((raw >> np.uint64(64 - _UNIFORM_BITS)) * 2.0**-_UNIFORM_BITS).astype(np.float32)


class Noise:
    """Exponential noise for every position and token, keyed by seed and position.

    Divide each token's noise by its probability: the token with the smallest quotient is a draw
    from the distribution (the Gumbel-max trick). Two similar distributions that share the noise
    often draw the same token.
    """

    def __init__(self, seed: int, vocabulary: int, device: torch.device) -> None:
        self._generator = np.random.Philox(key=seed)
        self._state: Any = self._generator.state
        self._vocabulary = vocabulary
        self._device = device
        self._rows: dict[int, torch.Tensor] = {}

    def rows(self, place: int, count: int) -> torch.Tensor:
        """Return the noise `[count, vocabulary]` of consecutive positions.

        ``place``: how many tokens are between the prompt and the first position.
        """
        wanted = range(place, place + count)
        self._rows = {each: self._row(each) for each in wanted}
        return torch.stack(list(self._rows.values()))

    def _row(self, place: int) -> torch.Tensor:
        if place in self._rows:
            return self._rows[place]
        self._state["state"]["counter"][1:3] = place, 1  # the 1: not a counter of ``Uniforms``
        self._generator.state = self._state
        raw = self._generator.random_raw(self._vocabulary) >> np.uint64(11)
        row = -np.log((raw + 0.5) * 2.0**-53)
        return torch.from_numpy(row).to(self._device, widest_float_on(self._device))


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """The random numbers of one round.

    ``uniforms`` are indexed by ``EXTRA_SLOT``, ``draft_slot`` and ``verdict_slot``. ``noise`` is
    None unless draft and target share noise.
    """

    uniforms: torch.Tensor  # [1 + 2 * num_candidates]
    noise: torch.Tensor | None = None  # [depth + 1, vocabulary]

    def of_candidate(self, number: int) -> torch.Tensor:
        """Return the uniform that draws the candidate with index ``number``, as a tensor `[1]`."""
        slot = draft_slot(number)
        return self.uniforms[slot : slot + 1]

    def verdicts(self, count: int) -> torch.Tensor:
        """Return the uniforms `[count]` that decide on the candidates."""
        return self.uniforms[verdict_slot(0) : verdict_slot(count) : 2]


def keyed_uniforms(seed: int, round_index: int, num_candidates: int) -> np.ndarray:
    """Return the uniforms of one round; see ``Uniforms.of_round``."""
    return Uniforms(seed).of_round(round_index, num_candidates)


def on_one_thread(function: Callable[Given, Found]) -> Callable[Given, Found]:
    """Decorate a function so that its tensor operations run on the calling thread only.

    Torch's other threads would keep their cores busy for milliseconds after the call, and the
    threads of the next model step would have to wait for these cores.
    """

    @wraps(function)
    def single_threaded(*args: Given.args, **settings: Given.kwargs) -> Found:
        threads = torch.get_num_threads()
        if threads == 1:
            return function(*args, **settings)
        torch.set_num_threads(1)
        try:
            return function(*args, **settings)
        finally:
            torch.set_num_threads(threads)

    return single_threaded


class Sampler:
    """Applies a run's temperature, top-k and top-p to any number of rows of logits."""

    def __init__(self, config: RunConfig) -> None:
        self._temperature = max(config.temperature, _COLDEST)
        self._top_k = config.top_k
        self._top_p = config.top_p
        self.greedy = config.greedy

    @on_one_thread
    def probs(self, logits: torch.Tensor) -> torch.Tensor:
        """Return distributions `[..., vocabulary]` in float32."""
        if self.greedy:
            return one_hot(likeliest(logits)[..., None], logits.shape[-1])
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
        """Return tokens `[...]` and the distributions `[..., vocabulary]` they were drawn from."""
        if self.greedy:
            return certain_choice(logits)
        probs = self.probs(logits)
        return inverse_cdf(probs, uniforms), probs

    @on_one_thread
    def next_token(
        self, logits: torch.Tensor, uniforms: Callable[[], torch.Tensor]
    ) -> torch.Tensor:
        """Return the tokens of ``choose`` without their distributions.

        At temperature 0, no distributions are built and ``uniforms`` is not called.
        """
        return likeliest(logits) if self.greedy else inverse_cdf(self.probs(logits), uniforms())

    @on_one_thread
    def draw(self, probs: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
        """Return token ids `[...]` for distributions `[..., vocabulary]` and uniforms `[...]`."""
        return likeliest(probs) if self.greedy else inverse_cdf(probs, uniforms)


def likeliest(rows: torch.Tensor) -> torch.Tensor:
    """Return the index `[...]` of the largest entry of each row `[..., size]`, the first of equals.

    For float32 on a CPU, this uses numpy, which is several times faster than torch.
    """
    if rows.device.type != "cpu" or rows.dtype != torch.float32:
        return rows.argmax(-1)
    return torch.from_numpy(np.asarray(rows.numpy().argmax(-1)))


def certain_choice(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the likeliest tokens `[...]` and one-hot distributions `[..., vocabulary]`."""
    token_ids = likeliest(logits)
    return token_ids, one_hot(token_ids[..., None], logits.shape[-1])


def one_hot(index: torch.Tensor, size: int) -> torch.Tensor:
    """Return rows `[..., size]` with 1 at ``index`` `[..., 1]` and 0 elsewhere."""
    rows = torch.zeros(*index.shape[:-1], size, dtype=torch.float32, device=index.device)
    return rows.scatter_(-1, index, 1.0)


def inverse_cdf(probs: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """Return the first token whose cumulative probability exceeds the uniform times the total.

    Uniforms are below 1. In double precision the product is therefore less than the total, so a
    token of probability 0 is never drawn. If a device has no double precision, the host draws.
    """
    if probs.ndim == 2 and uniforms.ndim == 1 and kernels_can_read(probs, uniforms):
        token_ids = np.empty(len(probs), np.int64)
        draw_rows(probs.numpy(), uniforms.numpy(), token_ids)
        return torch.from_numpy(token_ids)
    if widest_float(probs) != torch.float64:
        return inverse_cdf(probs.cpu(), uniforms.cpu()).to(probs.device)
    cumulated = probs.cumsum(-1, dtype=torch.float64)
    levels = uniforms[..., None].to(cumulated) * cumulated[..., -1:]
    index = torch.searchsorted(cumulated, levels, right=True)[..., 0]
    return index.clamp_(max=probs.shape[-1] - 1)


def kernels_can_read(*tensors: torch.Tensor) -> bool:
    """Return whether the kernels of draws and verdicts work here and can read these tensors."""
    return draws_ready() and all(
        each.dtype == torch.float32 and kernel_readable(each) for each in tensors
    )


def widest_float(like: torch.Tensor) -> torch.dtype:
    """Return float64 if the tensor's device supports it, else float32."""
    return widest_float_on(like.device)


def widest_float_on(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type == "mps" else torch.float64


class Chooser(Protocol):
    """A function with which a drafter chooses a candidate from logits."""

    def __call__(
        self, logits: torch.Tensor, draws: Draws, number: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the candidate's token `[1]` and its distribution `[1, vocabulary]`."""
        ...


class SampledChooser:
    """Draws each candidate with the candidate's own uniform (see ``draft_slot``)."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    def __call__(
        self, logits: torch.Tensor, draws: Draws, number: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return self._sampler.choose(logits, draws.of_candidate(number))


class ArgmaxChooser:
    """Chooses the likeliest token and returns a one-hot distribution."""

    def __call__(
        self, logits: torch.Tensor, draws: Draws, number: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        del draws, number
        return certain_choice(logits)


class SharedNoiseChooser:
    """Draws a candidate with the noise that the target, too, uses at the candidate's position."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    @on_one_thread
    def __call__(
        self, logits: torch.Tensor, draws: Draws, number: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        assert draws.noise is not None
        probs = self._sampler.probs(logits)
        return race(probs, draws.noise[number : number + 1]).argmin(-1), probs


def make_chooser(config: RunConfig, sampler: Sampler) -> Chooser:
    if config.rule == "coupled":
        return SharedNoiseChooser(sampler)
    certain = config.rule == "match" or sampler.greedy
    return ArgmaxChooser() if certain else SampledChooser(sampler)


def race(probs: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """Return each token's arrival time: its noise divided by its probability.

    The token that arrives first is a draw from ``probs``.
    """
    return noise / probs.to(noise)


def _keep_top_k(probs: torch.Tensor, count: int) -> torch.Tensor:
    top = probs.topk(count, dim=-1)
    masked = torch.zeros_like(probs).scatter_(-1, top.indices, top.values)
    return masked / masked.sum(-1, keepdim=True)


def _keep_top_p(probs: torch.Tensor, share: float) -> torch.Tensor:
    """Return ``probs`` restricted to the likeliest tokens, and normalised.

    The tokens are the smallest set whose total probability reaches ``share``. The likeliest token
    is kept even if ``share`` rounds to 0 in float32.
    """
    ordered, order = probs.sort(dim=-1, descending=True)
    before = ordered.cumsum(-1) - ordered
    masked = ordered.masked_fill((before >= share) & (before > 0.0), 0.0)
    masked = torch.zeros_like(probs).scatter_(-1, order, masked)
    return masked / masked.sum(-1, keepdim=True)
