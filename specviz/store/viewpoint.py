"""Who asks the library: the runs that a person sees and changes, and the SQL conditions for them.

Each condition holds for the rows of the table ``runs``. For the owner and the command line, the
conditions add nothing to a query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from specviz.access.roles import Action, Person, Role
from specviz.errors import StoreError
from specviz.store.rows import NewRun, RunRow
from specviz.values import Value

SHARED = "shared"  # the tag with which the owner shares a run
Condition = tuple[str, list[Any]]  # SQL and the values to bind

_ALL = "1"
_NONE = "0"
_LIVE = "deleted_at IS NULL"
# The second comparison lets SQLite use the partial index, and no key matches the owner's runs.
_OWN = "person = ? AND person <> ''"


class Viewpoint(Value):
    """The runs that somebody sees and changes.

    The owner sees and changes all runs. Everybody else sees the runs that the owner tagged
    ``SHARED``. With ``edits``, they also see and change the runs of ``person``, and add such runs.
    """

    person: str = ""  # "": the owner
    sees_all: bool = True
    edits: bool = True

    def changes(self, row: RunRow) -> bool:
        return self.sees_all or (self.edits and bool(self.person) and row.person == self.person)

    def shown(self, row: RunRow) -> RunRow:
        """Return the row as this person may see it: without the name of another person."""
        return row if self.sees_all or self.changes(row) else replace(row, person="")

    def check_new(self, runs: Sequence[NewRun]) -> None:
        """Raise StoreError if this person may not add the runs."""
        if self.sees_all:
            return
        if not self.edits or not self.person:
            raise StoreError(
                "You may not store runs here.", remedy="Ask the owner of this dashboard."
            )
        if any(run.comparison is not None for run in runs):
            raise no_comparisons()


EVERYTHING = Viewpoint()  # of the owner and of the command line


def stored_key(person: Person) -> str:
    """Return the key under which a person's runs are stored; "" for every owner."""
    if person.role == Role.OWNER:
        return ""
    return person.key.encode("utf-8", "backslashreplace").decode() or "unknown"


def viewpoint_of(person: Person) -> Viewpoint:
    if person.role == Role.OWNER:
        return EVERYTHING
    key = stored_key(person)
    return Viewpoint(person=key, sees_all=False, edits=person.may(Action.EDIT))


# Conditions


def own(viewpoint: Viewpoint) -> Condition:
    """Return the condition for runs that the person can change, deleted or not."""
    if viewpoint.sees_all:
        return _ALL, []
    return (f"({_OWN})", [viewpoint.person]) if viewpoint.edits else (_NONE, [])


def seen(viewpoint: Viewpoint) -> Condition:
    """Return the condition, for lists, of all runs that the person sees, deleted or not."""
    if viewpoint.sees_all:
        return _ALL, []
    found, values = "SELECT run FROM tags WHERE tag = ?", [SHARED]
    if viewpoint.edits:
        found += f" UNION SELECT run FROM runs WHERE {_OWN}"
        values.append(viewpoint.person)
    return f"runs.run IN ({found})", values


def live(viewpoint: Viewpoint) -> Condition:
    """Return the condition for all runs that the person sees and that are not deleted."""
    condition, values = seen(viewpoint)
    return f"{_LIVE} AND {condition}", values


def readable(viewpoint: Viewpoint) -> Condition:
    """Return a condition for the runs of ``live`` that is fast for a few rows.

    It is as fast for a run that the person does not see as for a run that does not exist.
    """
    if viewpoint.sees_all:
        return _LIVE, []
    shared = "EXISTS (SELECT 1 FROM tags WHERE tags.run = runs.run AND tag = ?)"
    mine, values = own(viewpoint)
    return f"{_LIVE} AND ({shared} OR {mine})", [SHARED, *values]


def openable(viewpoint: Viewpoint) -> Condition:
    """Return the condition for runs that the person can open by id.

    These runs include the person's own deleted runs.
    """
    if viewpoint.sees_all:
        return _ALL, []
    (others, first), (mine, second) = readable(viewpoint), own(viewpoint)
    return f"({others} OR {mine})", [*first, *second]


def whole_comparison(viewpoint: Viewpoint) -> Condition:
    """Return the condition for rows of ``comparisons`` that the person sees.

    The plan of a comparison contains all of its prompts. So a person sees the comparison only if
    they see all of its runs.
    """
    if viewpoint.sees_all:
        return _ALL, []
    condition, values = readable(viewpoint)
    runs = "SELECT 1 FROM runs WHERE comparison = comparisons.key"
    hidden = f"{runs} AND {_LIVE} AND NOT ({condition})"
    return f"EXISTS ({runs} AND {_LIVE}) AND NOT EXISTS ({hidden})", values


# Errors


def no_comparisons() -> StoreError:
    return StoreError(
        "Only the owner of this dashboard stores comparisons.", remedy="Make single runs on Watch."
    )


def not_yours() -> StoreError:
    return StoreError(
        "This run belongs to somebody else.", remedy="You can change only your own runs."
    )


def only_owner_shares() -> StoreError:
    return StoreError(
        f"Only the owner of this dashboard sets the tag “{SHARED}”.",
        remedy="Leave it out, or ask the owner to share the run.",
    )
