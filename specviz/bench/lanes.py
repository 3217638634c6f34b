"""The lanes of the bench: a lane decodes with one engine and method, and measures the time.

The code that times and compares lanes does not depend on their names.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from specviz.bench.rivals import Assistance, assisted, generate, wait_for
from specviz.record.trace import RunConfig
from specviz.values import Value

if TYPE_CHECKING:
    from specviz.engine import Pair

_T = TypeVar("_T")


class Written(Value):
    """A text that a lane wrote, and the seconds that decoding took."""

    seconds: float
    token_ids: tuple[int, ...]
    target_passes: int | None = None


Write = Callable[[Sequence[int], int], Written]  # takes prompt ids and a number of tokens


class BenchLane(Value):
    """An engine with a method, to be timed.

    With ``must_agree``, the lane's text must equal the text of plain decoding in float32.
    """

    key: str
    name: str
    write: Write
    must_agree: bool = True


def own_lanes(pair: Pair, config: RunConfig) -> tuple[BenchLane, ...]:
    bare = replace(config, record=False)
    return (
        BenchLane(key="record", name="speculative, full record", write=_speculative(pair, config)),
        BenchLane(key="bare", name="speculative, no record", write=_speculative(pair, bare)),
        BenchLane(key="plain", name="plain", write=_plain(pair, config)),
    )


def transformers_lanes(
    pair: Pair, *, fixed: Assistance, defaults: Assistance, best: Assistance
) -> tuple[BenchLane, ...]:
    name = "transformers assisted"
    return (
        BenchLane(key="hf", name="transformers generate", write=transformers(pair, None)),
        BenchLane(key="hf_fixed", name=f"{name}, {fixed}", write=transformers(pair, fixed)),
        BenchLane(key="hf_default", name=f"{name}, defaults", write=transformers(pair, defaults)),
        BenchLane(key="hf_best", name=f"{name}, best: {best}", write=transformers(pair, best)),
    )


def transformers(pair: Pair, assistance: Assistance | None) -> Write:
    """Return a function that decodes with transformers, plainly if ``assistance`` is None."""

    def write(ids: Sequence[int], num_tokens: int) -> Written:
        if assistance is None:
            run = generate(pair, ids, num_tokens)
        else:
            run = assisted(pair, ids, num_tokens, assistance)
        return Written(
            seconds=run.seconds, token_ids=run.token_ids, target_passes=run.target_forwards
        )

    return write


def _speculative(pair: Pair, config: RunConfig) -> Write:
    def write(ids: Sequence[int], num_tokens: int) -> Written:
        from specviz.engine import speculate

        run = speculate(pair, ids, replace(config, max_new_tokens=num_tokens))
        seconds, rounds = _timed(pair, run)
        return Written(seconds=seconds, token_ids=run.emitted, target_passes=len(rounds))

    return write


def _plain(pair: Pair, config: RunConfig) -> Write:
    def write(ids: Sequence[int], num_tokens: int) -> Written:
        from specviz.engine import decode_plainly

        run = decode_plainly(pair, ids, replace(config, max_new_tokens=num_tokens))
        seconds, tokens = _timed(pair, run)
        return Written(seconds=seconds, token_ids=tokens)

    return write


def _timed(pair: Pair, run: Iterable[_T]) -> tuple[float, tuple[_T, ...]]:
    """Return the seconds that a run takes after its prefill, and the items that the run yields."""
    wait_for(pair)  # prefill may still be running
    began = time.perf_counter()
    made = tuple(run)
    return time.perf_counter() - began, made
