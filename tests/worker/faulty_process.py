"""A worker process in which the fourth round of the prompt "A fault" raises a device fault."""

from __future__ import annotations

from specviz.measure.measured_run import MeasuredRun
from specviz.record.trace import Round
from specviz.worker.child.process import main

ROUNDS = 3  # before the fault


def faulty_main(descriptor: int) -> None:
    play = MeasuredRun.__next__

    def play_or_fail(self: MeasuredRun) -> Round:
        if self.prompt.text == "A fault" and len(self._rounds) == ROUNDS:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return play(self)

    MeasuredRun.__next__ = play_or_fail
    main(descriptor)
