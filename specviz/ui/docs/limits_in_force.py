"""Show the limits in force: all limits to the owner, and to other people only their own limits.

The tables are in the chapter "Limits" of the documentation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from specviz.access.roles import Action, Person, Role
from specviz.access.setting_values import Settings
from specviz.access.settings import the_settings, the_settings_file
from specviz.record.numbers import SIZE
from specviz.ui.access import reachable_by_others
from specviz.ui.session.person import the_person
from specviz.ui.widgets.plain_text import as_text

Row = tuple[str, str]
_NO_LIMIT = "no limit"
_MOST_SHOWN = 8  # entries of a list


def show_limits_in_force() -> None:
    person, settings = the_person(), the_settings()
    if person.may(Action.MANAGE):
        _show_all(settings)
    else:
        st.header("Your limits", anchor=False)
        _show_table({"": rows_for(person, settings)})


def rows_for(person: Person, settings: Settings) -> list[Row]:
    """Return the limits that apply to this viewer or student, without any paths."""
    if person.role < Role.STUDENT:
        return [("Role", "viewer: stored runs, theory and Learn; no runs of your own")]
    return [("Role", "student: runs of the loaded pair"), *_rows_of_students(settings)]


def rows_of_owner(settings: Settings) -> dict[str, list[Row]]:
    """Return all limits in force, grouped by the section of the settings file."""
    models, quota = settings.models, settings.quota
    folders = "any folder" if models.folders is None else _listed(models.folders)
    if models.folders is None and reachable_by_others():
        folders = "only the folders in SPECVIZ_MODELS"
    return {
        "People": _rows_of_people(settings),
        "Limits of students": _rows_of_students(settings),
        "Models": [
            ("Folders", folders),
            ("Downloads from the Hub", "on" if models.hub else "off"),
            ("Largest model", _size(models.largest)),
        ],
        "Servers": [("Addresses", _servers(settings))],
        "Run library": [("Size", _size(quota))],
    }


def _rows_of_people(settings: Settings) -> list[Row]:
    rows: list[Row] = []
    for role in sorted(Role, reverse=True):
        listed = [who for who, has in settings.people if has == role]
        rows.append((f"{role.name.capitalize()}s", _listed(listed)))
    others = settings.others.name.lower() if settings.others else "no access"
    return [*rows, ("Everybody else who logs in", others)]


def _rows_of_students(settings: Settings) -> list[Row]:
    limits = settings.limits
    return [
        ("New tokens of a run", f"{limits.tokens:,}"),
        ("γ", f"{limits.gamma:,}"),
        ("Candidates per round", f"{limits.candidates:,}"),
        ("Runs per minute", f"{limits.runs_per_minute:,}"),
        ("Runs at once", f"{limits.runs_at_once:,}"),
        ("Characters of a prompt", f"{limits.prompt_characters:,}"),
        ("Size of an upload or request", SIZE.shown(limits.request_body)),
    ]


def _servers(settings: Settings) -> str:
    if settings.servers is None:
        return (
            "none, because others can reach the dashboard"
            if reachable_by_others()
            else "any address"
        )
    return _listed([each.text for each in settings.servers])


def _listed(entries: Sequence[str]) -> str:
    shown = ", ".join(entries[:_MOST_SHOWN]) or "none"
    more = len(entries) - _MOST_SHOWN
    return f"{shown} and {more:,} more" if more > 0 else shown


def _size(size: int | None) -> str:
    return _NO_LIMIT if size is None else SIZE.shown(size)


def _show_all(settings: Settings) -> None:
    file = the_settings_file()
    st.header("Limits in force", anchor=False)
    if file.exists:
        st.caption(f"Read from {as_text(file.path)}.")
    else:
        st.caption(
            "There is no settings file, so these are the defaults. Create the file at "
            f"{as_text(file.path)}."
        )
    _show_table(rows_of_owner(settings))


def _show_table(groups: Mapping[str, Sequence[Row]]) -> None:
    """Draw the rows of all groups in one table, so that their columns align."""
    lines = ["| Limit | In force |", "|---|---|"]
    for title, rows in groups.items():
        lines += [f"| **{as_text(title)}** | |"] if title else []
        lines += [f"| {as_text(name)} | {as_text(value)} |" for name, value in rows]
    with st.container(key="limits_in_force"):
        st.markdown("\n".join(lines))
