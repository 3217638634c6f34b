"""The background job that compares a running engine's acceptance with specviz's own."""

from __future__ import annotations

from specviz.measure.background_job import MakerJob
from specviz.measure.run_makers import RunMaker
from specviz.record.pairs import PairSpec
from specviz.record.run_config import RunConfig
from specviz.record.server_run import ServerInfo
from specviz.servers.acceptance import AcceptanceMeter, MeasuringPlan
from specviz.tune.doctor import Examining
from specviz.tune.doctor_job import DOCTOR
from specviz.tune.parity import Parity
from specviz.tune.parity_values import ParityReport


class ParityJob(MakerJob):
    def __init__(
        self,
        info: ServerInfo,
        plan: MeasuringPlan,
        config: RunConfig,
        spec: PairSpec,
        maker: RunMaker,
        *,
        allow_remote: bool,
    ) -> None:
        super().__init__(maker, name=DOCTOR, label=f"Acceptance of {info.address}")
        self.plan, self.spec = plan, spec
        self.report: ParityReport | None = None
        self._config = config
        self._meter = AcceptanceMeter(info, plan, allow_remote=allow_remote)
        self._steps: tuple[int, int] | None = None  # of the reference
        self.stage = ""

    @property
    def progress(self) -> tuple[int, int]:
        return self._steps or (self._meter.done, self.plan.requests)

    def _work(self) -> None:
        self.stage = "the engine answers"
        measured = self._begin(self._meter).measure()
        for value in self._maker.find(self.spec, Parity(measured=(measured,), config=self._config)):
            if isinstance(value, ParityReport):
                self.report = value
            elif isinstance(value, Examining):
                self.stage, self._steps = value.doing, (value.done, value.planned)
