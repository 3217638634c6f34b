"""Plans of unfinished comparisons, to be resumed after a restart of the dashboard.

Only the plans are stored here; finished runs are in the library.
"""

from __future__ import annotations

from collections.abc import Callable

from specviz.comparison.plan import Plan, plan_from_json, plan_to_json
from specviz.errors import SpecvizError
from specviz.store import change_value, load_value
from specviz.values import Value

_KIND, _KEY = "unfinished-work", "comparisons"
_MOST = 20


class UnfinishedPlan(Value):
    """The plan of an unfinished comparison, and the name of its job."""

    name: str
    plan_json: str

    @property
    def plan(self) -> Plan:
        return plan_from_json(self.plan_json)


_Entries = tuple[UnfinishedPlan, ...]


class _UnfinishedPlans(Value):
    entries: tuple[UnfinishedPlan, ...] = ()


def remember(name: str, plan: Plan) -> None:
    """Store a plan; call this before its first run."""
    entry = UnfinishedPlan(name=name, plan_json=plan_to_json(plan))
    _change(lambda entries: (*_without(plan.key, entries), entry)[-_MOST:])


def forget(plan: Plan) -> None:
    """Remove a plan that has finished or was stopped by the user."""
    _change(lambda entries: _without(plan.key, entries))


def remembered() -> tuple[UnfinishedPlan, ...]:
    """Return the stored plans, oldest first, without unreadable ones."""
    return _readable(load_value(_KIND, _KEY, _UnfinishedPlans))


def _readable(kept: _UnfinishedPlans | None) -> tuple[UnfinishedPlan, ...]:
    return tuple(each for each in kept.entries if _key(each)) if kept else ()


def _without(key: str, entries: _Entries) -> _Entries:
    return tuple(each for each in entries if _key(each) != key)


def _change(change: Callable[[_Entries], _Entries]) -> None:
    """Change the stored plans under a lock, because other dashboards may share the data folder."""

    def changed(kept: _UnfinishedPlans | None) -> _UnfinishedPlans:
        return _UnfinishedPlans(entries=change(_readable(kept)))

    change_value(_KIND, _KEY, _UnfinishedPlans, changed)


def _key(entry: UnfinishedPlan) -> str:
    try:
        return entry.plan.key
    except SpecvizError:
        return ""
