"""Deal the prompts of a load test so that no engine finds a prompt in its prefix cache.

A block measures one server at one level of load. Blocks that are compared with each other (A B, or
B A) get the same prompts in the same order. If an engine cannot switch off its prefix cache for a
request, each prompt begins with a number. The number is different in every block of a sweep and in
every pass over the suite. So prompts differ from their first token on, and all engines miss the
cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from threading import Lock

from specviz.record.prompts import SuiteItem


class PromptDealer:
    """Deals the prompts for one measurement (a block) of a load test; safe to use from any thread.

    Args:
        order: Seed of the order; equal for blocks that are compared with each other.
        block: The block's number in its sweep, put in front of each prompt; None for no number.
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
