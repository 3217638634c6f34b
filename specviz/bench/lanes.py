"""The lanes of the bench: each writes the same text in one way and says how long that took.

A lane is an entry of a table; what times the lanes and compares them knows none by name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from specviz.bench.rivals import Assistance, assisted, generate, wait_for
from specviz.record.trace import RunConfig

if TYPE_CHECKING:
    from specviz.engine import Pair


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A text of a lane; ``seconds`` are those of decoding all its tokens."""

    seconds: float
    token_ids: tuple[int, ...]
    target_passes: int | None = None


Write = Callable[[Sequence[int], int], Written]  # the prompt's ids, how many tokens to write


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """``must_agree``: in float32 it writes the words of plain decoding, or the bench refuses."""

    key: str
    name: str
    write: Write
    must_agree: bool = True


def own_lanes(pair: Pair, config: RunConfig) -> tuple[Lane, ...]:
    bare = replace(config, record=False)
    return (
        Lane(key="record", name="speculative, full record", write=_speculative(pair, config)),
        Lane(key="bare", name="speculative, no record", write=_speculative(pair, bare)),
        Lane(key="plain", name="plain", write=_plain(pair, config)),
    )


def transformers_lanes(
    pair: Pair, *, fixed: Assistance, defaults: Assistance, best: Assistance
) -> tuple[Lane, ...]:
    name = "transformers assisted"
    return (
        Lane(key="hf", name="transformers generate", write=transformers(pair, None)),
        Lane(key="hf_fixed", name=f"{name}, {fixed}", write=transformers(pair, fixed)),
        Lane(key="hf_default", name=f"{name}, defaults", write=transformers(pair, defaults)),
        Lane(key="hf_best", name=f"{name}, best: {best}", write=transformers(pair, best)),
    )


def transformers(pair: Pair, assistance: Assistance | None) -> Write:
    """Transformers' own generation; without assistance it decodes plainly."""

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
        wait_for(pair)  # the prompt may still be being read
        began = time.perf_counter()
        rounds = list(run)
        seconds = time.perf_counter() - began
        return Written(seconds=seconds, token_ids=run.emitted, target_passes=len(rounds))

    return write


def _plain(pair: Pair, config: RunConfig) -> Write:
    def write(ids: Sequence[int], num_tokens: int) -> Written:
        from specviz.engine import decode_plainly

        run = decode_plainly(pair, ids, replace(config, max_new_tokens=num_tokens))
        wait_for(pair)  # the prompt may still be being read
        began = time.perf_counter()
        tokens = tuple(run)
        return Written(seconds=time.perf_counter() - began, token_ids=tokens)

    return write
