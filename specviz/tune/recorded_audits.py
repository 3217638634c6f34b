"""Audits as JSON, for the example that the page Lossless shows before the first audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specviz.store.dataclass_json import from_json
from specviz.store.files import to_json
from specviz.tune.audit import AuditReport
from specviz.values import Value

_MOST_REPORTS = 60  # of an audit; enough for a curve


class AuditCourse(Value):
    """The reports of an audit, oldest first; ``broken`` names the injected bug."""

    broken: str | None
    reports: tuple[AuditReport, ...]


@dataclass(frozen=True, kw_only=True)
class _Record:
    audits: tuple[AuditCourse, ...]


def audits_to_record(audits: Sequence[AuditCourse]) -> str:
    """Return the audits as JSON; a long audit keeps only evenly spaced reports and the last."""
    return to_json({"audits": [_thinned(each) for each in audits]})


def audits_from_record(text: str) -> tuple[AuditCourse, ...]:
    return from_json(text, _Record).audits


def _thinned(course: AuditCourse) -> AuditCourse:
    reports = course.reports
    every = -(-len(reports) // _MOST_REPORTS) or 1
    return AuditCourse(broken=course.broken, reports=(*reports[:-1:every], *reports[-1:]))
