"""Plans of comparisons that had not ended when the server did, so that they can be gone on with.

Only the plans are remembered here; the runs that were made are in the library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from specviz.comparison.plan import Plan, plan_from_json, plan_to_json
from specviz.errors import SpecvizError
from specviz.store import change_value, load_value

_KIND, _KEY = "unfinished-work", "comparisons"
_MOST = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedPlan:
    """A plan, and which sort of work it was for."""

    name: str
    plan_json: str

    @property
    def plan(self) -> Plan:
        return plan_from_json(self.plan_json)


_Entries = tuple[UnfinishedPlan, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _UnfinishedPlans:
    entries: tuple[UnfinishedPlan, ...] = ()


def remember(name: str, plan: Plan) -> None:
    """Called before the first run of the plan."""
    entry = UnfinishedPlan(name=name, plan_json=plan_to_json(plan))
    _change(lambda entries: (*_without(plan.key, entries), entry)[-_MOST:])


def forget(plan: Plan) -> None:
    """Called when it is over, or was stopped by hand."""
    _change(lambda entries: _without(plan.key, entries))


def remembered() -> tuple[UnfinishedPlan, ...]:
    """Oldest first; plans that cannot be read any more are left out."""
    return _readable(load_value(_KIND, _KEY, _UnfinishedPlans))


def _readable(kept: _UnfinishedPlans | None) -> tuple[UnfinishedPlan, ...]:
    return tuple(each for each in kept.entries if _key(each)) if kept else ()


def _without(key: str, entries: _Entries) -> _Entries:
    return tuple(each for each in entries if _key(each) != key)


def _change(change: Callable[[_Entries], _Entries]) -> None:
    """Other dashboards on the same data folder may change the plans at the same time."""

    def changed(kept: _UnfinishedPlans | None) -> _UnfinishedPlans:
        return _UnfinishedPlans(entries=change(_readable(kept)))

    change_value(_KIND, _KEY, _UnfinishedPlans, changed)


def _key(entry: UnfinishedPlan) -> str:
    try:
        return entry.plan.key
    except SpecvizError:
        return ""
