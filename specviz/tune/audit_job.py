"""The work of an audit, for the dashboard; its reports are kept, to draw how evidence grew."""

from __future__ import annotations

from specviz.measure.background_job import Job
from specviz.measure.run_makers import RunMaker
from specviz.record.pairs import PairSpec
from specviz.tune.audit import Audit, AuditReport

AUDIT = "audit"


class AuditJob(Job):
    def __init__(self, audit: Audit, spec: PairSpec, maker: RunMaker) -> None:
        what = audit.broken or "the true rule"
        super().__init__(maker, name=AUDIT, label=f"Audit of {what}")
        self.audit, self.spec = audit, spec
        self._reports = list[AuditReport]()

    @property
    def reports(self) -> tuple[AuditReport, ...]:
        """In the order in which they came."""
        return tuple(self._reports)

    @property
    def report(self) -> AuditReport | None:
        """The newest."""
        return self._reports[-1] if self._reports else None

    @property
    def progress(self) -> tuple[int, int]:
        return (self.report.runs if self.report else 0), self.audit.runs

    @property
    def doing(self) -> str:
        if self._state == "waiting":
            return "waiting for its turn"
        return self._maker.doing or "beginning"

    def _work(self) -> None:
        self._state = "running"
        for value in self._maker.find(self.spec, self.audit):
            assert isinstance(value, AuditReport)
            self._reports.append(value)
