"""The background job of a head's examination."""

from __future__ import annotations

from specviz.measure.background_job import MakerJob
from specviz.measure.run_makers import RunMaker
from specviz.record.pairs import PairSpec
from specviz.tune.doctor import Doctor, DoctorReport, Examining

DOCTOR = "doctor"


class DoctorJob(MakerJob):
    def __init__(self, doctor: Doctor, spec: PairSpec, maker: RunMaker) -> None:
        super().__init__(maker, name=DOCTOR, label="Examination of the head")
        self.doctor, self.spec = doctor, spec
        self.report: DoctorReport | None = None
        self.stage = ""
        self._steps = (0, 1)

    @property
    def progress(self) -> tuple[int, int]:
        return self._steps

    def _work(self) -> None:
        for value in self._maker.find(self.spec, self.doctor):
            if isinstance(value, DoctorReport):
                self.report = value
            else:
                assert isinstance(value, Examining)
                self.stage, self._steps = value.doing, (value.done, value.planned)
