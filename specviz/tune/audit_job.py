"""The background job of an audit. The job keeps all reports, for the chart of the evidence."""

from __future__ import annotations

from specviz.measure.background_job import MakerJob
from specviz.measure.run_makers import RunMaker
from specviz.record.pairs import PairSpec
from specviz.tune.audit import Audit, AuditReport

AUDIT = "audit"


class AuditJob(MakerJob):
    def __init__(self, audit: Audit, spec: PairSpec, maker: RunMaker) -> None:
        rule = audit.broken or "the unmodified loop"
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

    def _work(self) -> None:
        for value in self._maker.find(self.spec, self.audit):
            assert isinstance(value, AuditReport)
            self._reports.append(value)
