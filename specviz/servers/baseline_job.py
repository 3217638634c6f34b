"""The background job that times a server's speculation against the target alone."""

from __future__ import annotations

from specviz.errors import ServerError
from specviz.figures.paired import Ratio
from specviz.measure.background_job import Job
from specviz.record.server_run import ServerBlock, ServerInfo, ServerTrace
from specviz.servers.address import BASELINE_KEY, SERVER_KEY, KeyName
from specviz.servers.asking import Answer, ask
from specviz.servers.baseline import blocks_against, speedup_of
from specviz.values import Value

BASELINE_JOB = "servers"  # the job's name in the job queue
BLOCKS = 5
_OF_A_BLOCK = 4
_WARM_UP = 2
MOST_ANSWERS = BLOCKS * _OF_A_BLOCK + _WARM_UP


class BaselineRequest(Value):
    """An answer whose target is to be timed (``trace``), and a server without a draft (``alone``).

    If ``alone`` is None, the answer's own server turns speculation off.
    """

    trace: ServerTrace
    alone: ServerInfo | None
    allow_remote: bool = False

    @property
    def address(self) -> str:
        return self.alone.address if self.alone else self.trace.info.address


class BaselineJob(Job):
    """Times a server's speculation against the target alone; ``blocks`` grows as the job runs.

    ``answer_id`` is the answer's id on the page.
    """

    def __init__(self, against: BaselineRequest, answer_id: str) -> None:
        label = f"Timing {against.trace.info.model} against the target alone"
        super().__init__(name=BASELINE_JOB, label=label)
        self.against, self.answer_id = against, answer_id
        self.blocks: tuple[ServerBlock, ...] = ()
        self._begun = 0  # number of answers requested

    @property
    def progress(self) -> tuple[int, int]:
        return min(self._begun, MOST_ANSWERS), MOST_ANSWERS

    @property
    def speedup(self) -> Ratio | None:
        return speedup_of(self.blocks)

    def _work(self) -> None:
        with self._stopped_instead_of(ServerError):  # a stopped answer is too short to be timed
            for block in blocks_against(self._speculative, self._alone, blocks=BLOCKS):
                self._check_stop()
                self.blocks = (*self.blocks, block)

    def _speculative(self) -> Answer:
        info = self.against.trace.info
        return self._ask(info, f"with speculation at {info.address}", SERVER_KEY)

    def _alone(self) -> Answer:
        alone = self.against.alone
        info = alone or self.against.trace.info
        key = SERVER_KEY if alone is None else BASELINE_KEY
        step = f"the target alone at {info.address}"
        return self._ask(info, step, key, speculate=alone is not None)

    def _ask(self, info: ServerInfo, step: str, key: KeyName, *, speculate: bool = True) -> Answer:
        trace = self.against.trace
        self._check_stop()
        answer = ask(
            info, trace.prompt, trace.settings, speculate=speculate, key=key,
            allow_remote=self.against.allow_remote,
        )  # fmt: skip
        self._step, self._begun = step, self._begun + 1
        self._parts.clear()  # earlier answers are over
        return self._begin(answer)
