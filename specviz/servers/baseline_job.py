"""The timing of an answer against the target alone, as work that any page may watch and stop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Never

from specviz.errors import ConfigError, ServerError
from specviz.figures.paired import Ratio
from specviz.measure.background_job import Job
from specviz.measure.run_makers import MadeRun, RunOrder, StoppedError, Study
from specviz.record.pairs import PairCheck, PairSpec
from specviz.record.server_run import ServerBlock, ServerInfo, ServerTrace
from specviz.servers.address import BASELINE_KEY, SERVER_KEY
from specviz.servers.asking import Answer, ask
from specviz.servers.baseline import blocks_against, speedup_of

AGAINST = "servers"  # its name as a work
BLOCKS = 5
_OF_A_BLOCK = 4
_WARM_UP = 2
MOST_ANSWERS = BLOCKS * _OF_A_BLOCK + _WARM_UP


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """What is timed: the answer, whom to ask for it again, and who answers for the target alone;
    None: the same server, which can do without speculation."""

    trace: ServerTrace
    alone: ServerInfo | None
    allow_remote: bool = False

    @property
    def address(self) -> str:
        return self.alone.address if self.alone else self.trace.info.address


class BaselineJob(Job):
    """``blocks`` grows; ``answer_id`` is what its page calls the answer."""

    def __init__(self, against: Against, answer_id: str) -> None:
        self._asking = _Asking()
        label = f"Timing {against.trace.info.model} against the target alone"
        super().__init__(self._asking, name=AGAINST, label=label)
        self.against, self.answer_id = against, answer_id
        self.blocks: tuple[ServerBlock, ...] = ()

    @property
    def progress(self) -> tuple[int, int]:
        return min(self._asking.asked, MOST_ANSWERS), MOST_ANSWERS

    @property
    def doing(self) -> str:
        return "waiting for its turn" if self._state == "waiting" else self._asking.doing

    @property
    def speedup(self) -> Ratio | None:
        return speedup_of(self.blocks)

    def _work(self) -> None:
        self._state = "running"
        try:
            for block in blocks_against(self._speculative, self._alone, blocks=BLOCKS):
                self._check_stop()
                self.blocks = (*self.blocks, block)
        except ServerError:
            self._check_stop()  # what was stopped is too short to be timed
            raise

    def _speculative(self) -> Answer:
        told = self.against
        self._check_stop()
        return self._asking.begin(
            ask(
                told.trace.info, told.trace.prompt, told.trace.settings, key=SERVER_KEY,
                allow_remote=told.allow_remote,
            ),
            f"with speculation at {told.trace.info.address}",
        )  # fmt: skip

    def _alone(self) -> Answer:
        told = self.against
        self._check_stop()
        info = told.alone or told.trace.info
        return self._asking.begin(
            ask(
                info, told.trace.prompt, told.trace.settings, allow_remote=told.allow_remote,
                key=BASELINE_KEY if told.alone else SERVER_KEY,
                speculate=told.alone is not None,
            ),
            f"the target alone at {info.address}",
        )  # fmt: skip


class _Asking:
    """A maker that makes no runs: it holds the answer under way, so that it can be stopped."""

    def __init__(self) -> None:
        self.doing, self.asked = "", 0
        self._answer: Answer | None = None
        self._stopped = False

    def begin(self, answer: Answer, doing: str) -> Answer:
        self._answer, self.doing = answer, doing
        self.asked += 1
        if self._stopped:
            answer.stop()
            raise StoppedError
        return answer

    def stop(self) -> None:
        self._stopped = True
        if self._answer is not None:
            self._answer.stop()

    def check(self, spec: PairSpec, prompts: Sequence[str], *, chat: bool) -> PairCheck:
        del prompts, chat
        _refuse(spec)

    def make(self, order: RunOrder) -> MadeRun:
        _refuse(order.spec)

    def find(self, spec: PairSpec, study: Study) -> Never:
        del study
        _refuse(spec)


def _refuse(spec: PairSpec) -> Never:
    raise ConfigError(f"{spec.label} is no server.", remedy="Give the address of one.")
