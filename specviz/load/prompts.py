"""The prompts of one block, so that no lane finds a prompt in a prefix cache.

Blocks of one A B B A half get the same prompts in the same order. If an engine cannot exclude its
prefix cache per request, a number in front of each prompt is different in every block of a sweep
and in every pass over the suite, so prompts differ from their first token on, and every lane misses
the cache alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from threading import Lock

from specviz.record.prompts import SuiteItem


class PromptDealer:
    """Deals the prompts of one block; safe to use from any thread.

    Args:
        order: Determines the order; equal for blocks that are compared with each other.
        block: The number of the block in its sweep; None sends the prompts as they are.
    """

    def __init__(self, items: Sequence[SuiteItem], *, order: str, block: int | None) -> None:
        self._items, self._block = items, block
        self._order = list(range(len(items)))
        self._random = Random(order)
        self._dealt, self._lock = 0, Lock()

    def deal(self) -> tuple[int, str]:
        """Return the index of the next prompt in the suite, and the prompt as it is sent."""
        with self._lock:
            turn, place = divmod(self._dealt, len(self._items))
            if place == 0:
                self._random.shuffle(self._order)
            self._dealt += 1
            item = self._order[place]
        prompt = self._items[item].prompt
        return item, prompt if self._block is None else f"[{self._block}.{turn}] {prompt}"
