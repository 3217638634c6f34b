"""The target alone, compiled by ``torch.compile``: the reference for our CUDA-graph target.

The settings are those of gpt-fast: the whole step as one graph, CUDA graphs and tuned kernels.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from specviz.bench.lanes import Written
from specviz.bench.rivals import wait_for

if TYPE_CHECKING:
    from specviz.engine import Pair

INDUCTOR = "inductor"
_WARM_UP = 4  # steps: the first compiles, the second warms up, the third captures the graph
_READ_AT_ONCE = 256  # prompt tokens per pass
_LEFT_OUT = "cudagraph_skips"


class CompiledTarget:
    """A compiled target with a KV cache for ``rows`` tokens.

    ``seconds``: compile time; ``graphs_left_out``: how often the compiler skipped a CUDA graph that
    was requested.
    """

    def __init__(self, pair: Pair, rows: int, backend: str) -> None:
        import torch
        import torch._dynamo.utils

        from specviz.bench.static_llama import StaticLlama

        self._pair = pair
        weights: Any = pair.target_weights
        with torch.no_grad():
            self._model = StaticLlama(weights, pair.vocabulary, rows)
        torch._dynamo.reset()
        counted = torch._dynamo.utils.counters["inductor"]
        before = counted[_LEFT_OUT]
        mode = "reduce-overhead" if backend == INDUCTOR else None
        self._step: Any = torch.compile(
            self._model, backend=backend, mode=mode, fullgraph=True, dynamic=False
        )
        began = time.perf_counter()
        with _tuned(backend):
            self.write((0,), _WARM_UP)
        self.seconds = time.perf_counter() - began
        self.graphs_left_out = counted[_LEFT_OUT] - before

    def write(self, ids: Sequence[int], num_tokens: int) -> Written:
        import torch

        with torch.no_grad():
            known = torch.tensor(ids, device=self._pair.device)
            places = torch.arange(len(ids), device=known.device)
            for begin in range(0, len(ids) - 1, _READ_AT_ONCE):
                end = min(begin + _READ_AT_ONCE, len(ids) - 1)
                self._model(known[begin:end], places[begin:end])
            token, place = known[-1:].clone(), places[-1:].clone()
            wait_for(self._pair)
            began = time.perf_counter()
            written: list[torch.Tensor] = []
            for _ in range(num_tokens):
                token = self._step(token, place).clone()  # the next step overwrites its output
                written.append(token)
                place += 1
            token_ids = tuple(torch.cat(written).tolist())
            return Written(seconds=time.perf_counter() - began, token_ids=token_ids)


def _tuned(backend: str) -> AbstractContextManager[Any]:
    if backend != INDUCTOR:
        return nullcontext()
    import torch._inductor.config

    return torch._inductor.config.patch(coordinate_descent_tuning=True)
