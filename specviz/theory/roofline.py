"""Roofline model of the cost of a verification on a GPU, by batch size and context.

A pass over n tokens takes the longer of two times: reading the weights and KV caches at the memory
bandwidth, or computing 2 operations per parameter and token at the peak rate. The model ignores the
arithmetic of attention, kernel launches and rates below the peak. MagicDec (Chen et al. 2024)
studies speculation for batches with long contexts.

The numbers in `GPUS` are from NVIDIA's data sheets: A100 80GB SXM (312 TFLOPS, 2.039 TB/s), H100
SXM (989 TFLOPS, 3.35 TB/s) and H200 SXM (989 TFLOPS, 4.8 TB/s, 141 GB); dense bf16, no sparsity.
"""

from __future__ import annotations

from dataclasses import replace

from specviz.errors import ConfigError
from specviz.theory.speed import expected_tokens
from specviz.values import Value

_BYTES_PER_PARAMETER = 2.0  # bf16


class Gpu(Value):
    """A GPU: peak operations per second, memory bandwidth in bytes per second, bytes of memory."""

    name: str
    operations: float
    bandwidth: float
    memory: float

    @property
    def ridge(self) -> float:
        """The number of tokens per pass above which computing takes longer than reading weights."""
        return self.operations / self.bandwidth * _BYTES_PER_PARAMETER / 2


class Model(Value):
    """A dense model: number of parameters, and bytes of KV cache per token."""

    parameters: float
    cache_bytes: float

    @property
    def weight_bytes(self) -> float:
        return self.parameters * _BYTES_PER_PARAMETER


GPUS = (
    Gpu(name="A100", operations=312e12, bandwidth=2.039e12, memory=80e9),
    Gpu(name="H100", operations=989e12, bandwidth=3.35e12, memory=80e9),
    Gpu(name="H200", operations=989e12, bandwidth=4.8e12, memory=141e9),
)
# KV caches in bf16: 32 layers x 8 KV heads x 128 for the 8B, 24 layers x 2 KV heads x 64.
TARGET_8B = Model(parameters=8e9, cache_bytes=131072)
DRAFT_HALF_B = Model(parameters=0.5e9, cache_bytes=12288)


def sized(model: Model, parameters: float) -> Model:
    """Return the model with this many parameters and its KV cache scaled in proportion."""
    growth = parameters / model.parameters
    return replace(model, parameters=parameters, cache_bytes=growth * model.cache_bytes)


class Serving(Value):
    """A pair on a GPU that decodes ``batch`` sequences of ``context`` tokens."""

    gpu: Gpu
    target: Model
    draft: Model
    batch: int
    context: int

    def __post_init__(self) -> None:
        fits = largest_batch(self.gpu, self.target, self.draft, self.context)
        if self.batch > fits:
            raise ConfigError(
                f"A batch of {self.batch} at {self.context:,} tokens does not fit the "
                f"{self.gpu.memory / 1e9:g} GB of the {self.gpu.name}.",
                remedy=self._remedy(fits),
            )

    def _remedy(self, fits: int) -> str:
        if fits:
            return f"At most {fits} fit: use a smaller batch or a shorter context."
        weights = self.target.weight_bytes + self.draft.weight_bytes
        if weights >= self.gpu.memory:
            return (
                f"The weights alone take {weights / 1e9:,.0f} GB: use a smaller target or a "
                "larger GPU."
            )
        action = "Use" if self.batch == 1 else "A batch of 1 does not fit either: use"
        return f"{action} a shorter context or a larger GPU."

    def pass_time(self, model: Model, tokens: int) -> float:
        """Return the seconds of one pass over ``tokens`` tokens of each sequence."""
        reading = bytes_read(model, self.batch, self.context) / self.gpu.bandwidth
        computing = 2 * model.parameters * self.batch * tokens / self.gpu.operations
        return max(reading, computing)

    @property
    def draft_cost(self) -> float:
        """c, the time of a draft step in target steps."""
        return self.pass_time(self.draft, 1) / self.pass_time(self.target, 1)

    def verify_cost(self, gamma: int) -> float:
        """Return v, the time of a pass over gamma + 1 tokens in target steps."""
        return self.pass_time(self.target, gamma + 1) / self.pass_time(self.target, 1)

    def speedup(self, alpha: float, gamma: int) -> float:
        """Return the speedup tau / (gamma c + v).

        Theorem 3.8 of Leviathan et al. 2023 is the case v = 1.
        """
        if gamma == 0:
            return 1.0
        cost = gamma * self.draft_cost + self.verify_cost(gamma)
        return expected_tokens(alpha, gamma) / cost

    def best_gamma(self, alpha: float, max_gamma: int = 16) -> tuple[int, float]:
        """Return the gamma from 0 to ``max_gamma`` with the greatest speedup, and that speedup."""
        made = [self.speedup(alpha, gamma) for gamma in range(max_gamma + 1)]
        best = max(range(max_gamma + 1), key=made.__getitem__)
        return best, made[best]


def bytes_read(model: Model, batch: int, context: int) -> float:
    """Return the bytes that a pass reads: the weights once, and each sequence's KV cache."""
    return model.weight_bytes + batch * context * model.cache_bytes


def largest_batch(gpu: Gpu, target: Model, draft: Model, context: int) -> int:
    """Return the largest batch whose KV caches fit in memory beside the weights of both models.

    The result is 0 if not even one sequence fits.
    """
    assert context >= 1, context
    left = gpu.memory - target.weight_bytes - draft.weight_bytes
    return max(0, int(left // (context * (target.cache_bytes + draft.cache_bytes))))
