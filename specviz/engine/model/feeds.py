"""Code that needs model passes, as generators: a reading yields passes and receives their logits.

A reading calls no model step itself, so its caller decides how passes are made. ``read_alone``
makes the passes of one reading one by one. ``StepBatch`` makes one pass for the readings of several
sequences.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

import torch

from specviz.engine.model.steps import Step
from specviz.values import Value

T = TypeVar("T")


class Feed(Value, eq=False):
    """Tokens to feed to a step; the logits of the last ``num_logits`` tokens are needed."""

    step: Step
    token_ids: torch.Tensor  # [num_tokens]
    num_logits: int


# Yields passes, is sent the logits of each, and returns its result.
Reading: TypeAlias = Generator[Feed, torch.Tensor, T]


def read_alone(reading: Reading[T]) -> T:
    """Run a reading, a generator of model passes, to its end and return its result.

    The reading receives the logits of each pass that it yields. If a pass fails, its error is
    raised at the generator's ``yield``.
    """
    try:
        feed = next(reading)
        while True:
            try:
                logits = feed.step.feed(feed.token_ids, feed.num_logits)
            except BaseException as error:
                feed = reading.throw(error)
            else:
                feed = reading.send(logits)
    except StopIteration as end:
        return end.value
