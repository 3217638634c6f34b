"""Plans of comparisons that had not ended when the server did, so that they can be gone on with.

Only the plans are remembered here; the runs that were made are in the library.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock

from specviz.comparison.plan import Plan, plan_from_json, plan_to_json
from specviz.errors import SpecvizError
from specviz.store import load_value, save_value

_KIND, _KEY = "unfinished-work", "comparisons"
_MOST = 20
_lock = Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedPlan:
    """A plan, and which sort of work it was for."""

    name: str
    plan_json: str

    @property
    def plan(self) -> Plan:
        return plan_from_json(self.plan_json)


@dataclass(frozen=True, slots=True, kw_only=True)
class _UnfinishedPlans:
    entries: tuple[UnfinishedPlan, ...] = ()


def remember(name: str, plan: Plan) -> None:
    """Called before the first run of the plan."""
    entry = UnfinishedPlan(name=name, plan_json=plan_to_json(plan))
    with _lock:
        _save((*_without(plan.key), entry)[-_MOST:])


def forget(plan: Plan) -> None:
    """Called when it is over, or was stopped by hand."""
    with _lock:
        _save(_without(plan.key))


def remembered() -> tuple[UnfinishedPlan, ...]:
    """Oldest first; plans that cannot be read any more are left out."""
    kept = load_value(_KIND, _KEY, _UnfinishedPlans)
    return tuple(each for each in kept.entries if _key(each)) if kept else ()


def _without(key: str) -> tuple[UnfinishedPlan, ...]:
    return tuple(each for each in remembered() if _key(each) != key)


def _save(entries: tuple[UnfinishedPlan, ...]) -> None:
    save_value(_KIND, _KEY, _UnfinishedPlans(entries=entries))


def _key(entry: UnfinishedPlan) -> str:
    try:
        return entry.plan.key
    except SpecvizError:
        return ""
