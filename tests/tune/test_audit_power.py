"""How often the audit alarms, on the embedded pair: seldom without a bug, soon with one."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from specviz.engine import Pair, load_pair
from specviz.record.breaks import BREAKS
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig
from specviz.tune.audit import Audit

SETTINGS = RunConfig(temperature=1.0)


@cache
def embedded_pair() -> Pair:
    torch.set_num_threads(1)
    return load_pair(PairSpec(threads=1))


def alarm_at(broken: str | None, seed: int, runs: int) -> int | None:
    """The run of the alarm, at which the audit is stopped."""
    audit = Audit(config=SETTINGS, runs=runs, broken=broken, seed=seed)
    reports = audit.tested(embedded_pair())
    return next((report.alarm_at for report in reports if report.alarm), None)


@pytest.mark.thorough
@pytest.mark.timeout(3600)
def test_without_a_bug_few_audits_alarm() -> None:
    alarms = [alarm_at(None, seed, 100) for seed in range(200)]
    assert sum(each is not None for each in alarms) <= 6


@pytest.mark.thorough
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", [each.name for each in BREAKS.values() if each.biased])
def test_with_a_bug_almost_every_audit_alarms(name: str) -> None:
    alarms = [alarm_at(name, seed, 20_000) for seed in range(20)]
    assert sum(each is not None for each in alarms) >= 19
