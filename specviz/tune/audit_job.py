"""The background job of an audit; it keeps all reports, for the chart of growing evidence."""

from __future__ import annotations

from specviz.measure.background_job import Job
from specviz.measure.run_makers import RunMaker
from specviz.record.pairs import PairSpec
from specviz.tune.audit import Audit, AuditReport

AUDIT = "audit"


class AuditJob(Job):
    def __init__(self, audit: Audit, spec: PairSpec, maker: RunMaker) -> None:
        rule = audit.broken or "the true rule"
        super().__init__(maker, name=AUDIT, label=f"Audit of {rule}")
        self.audit, self.spec = audit, spec
        self._reports = list[AuditReport]()

    @property
    def reports(self) -> tuple[AuditReport, ...]:
        """Return all reports, oldest first."""
        return tuple(self._reports)

    @property
    def report(self) -> AuditReport | None:
        """Return the newest report."""
        return self._reports[-1] if self._reports else None

    @property
    def progress(self) -> tuple[int, int]:
        return (self.report.runs if self.report else 0), self.audit.runs

    @property
    def doing(self) -> str:
        if self._state == "waiting":
            return "waiting for its turn"
        return self._maker.doing or "starting"

    def _work(self) -> None:
        self._state = "running"
        for value in self._maker.find(self.spec, self.audit):
            assert isinstance(value, AuditReport)
            self._reports.append(value)
