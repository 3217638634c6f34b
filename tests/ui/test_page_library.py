"""Each method of the library for each role; a method without an entry here fails."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from specviz.access.roles import OPEN_OWNER, Person, Role
from specviz.errors import StoreError
from specviz.store import SHARED, Library, NewRun, Query
from specviz.store.saving import save_run, summary_of
from specviz.ui.session import person
from specviz.ui.session.page_library import PageLibrary, the_library
from tests.store.persons import ADA, BOB, PERSONS, RUNS, SEEN, Shelf, trace_named

ROLES = [*PERSONS]
ALL = {*RUNS, "open 0", "half 0", "half 1", "closed 0"}
REFUSED = "refused"


@pytest.fixture
def shelf(tmp_path: Path, home: None, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path / "home"))
    return Shelf()


def library_of(role: str) -> Library:
    """Return the library as the pages get it while this person is logged in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(person, "the_person", lambda: PERSONS[role])
        return the_library()


def opens(role: str) -> set[str]:
    """Return the names of the runs that the person opens by id."""
    gone = {"ada": {"hers gone"}, "owner": {"hers gone", "shared gone"}}
    return SEEN[role] | gone.get("owner" if role == "open" else role, set())


def changes(role: str) -> set[str]:
    return {"ada": {"hers", "hers gone"}, "owner": ALL, "open": ALL}.get(role, set())


def outcome(act: Callable[[], Any]) -> Any:
    try:
        return act()
    except StoreError:
        return REFUSED


def each_run(shelf: Shelf, act: Callable[[str], object]) -> set[str]:
    """Return the names of the runs for which ``act(id)`` was not refused."""
    return {name for name, run_id in shelf.ids.items() if outcome(partial(act, run_id)) != REFUSED}


def _new(name: str = "new", **options: Any) -> NewRun:
    trace = trace_named(name)
    return NewRun(trace=trace, summary=summary_of(trace), name=name, **options)


def _person_of(shelf: Shelf, run_id: str) -> str:
    return shelf.library.row(run_id).person


# One check for each method: ``check(library of the role, shelf, role)``.
Check = Callable[[Library, Shelf, str], None]


def check_find(library: Library, shelf: Shelf, role: str) -> None:
    assert {row.name for row in library.find()} == SEEN[role]
    gone = {row.name for row in library.find(Query(deleted=True))}
    assert gone == opens(role) - SEEN[role]
    assert {row.name for row in library.find(Query(comparison="half"))} == {
        name for name in SEEN[role] if name.startswith("half")
    }


def check_count(library: Library, shelf: Shelf, role: str) -> None:
    assert library.count() == len(SEEN[role])
    assert library.count(Query(search="his")) == len({"his", "his shared"} & SEEN[role])
    assert library.count(Query(search="secret")) == ("secret" in SEEN[role])


def check_row(library: Library, shelf: Shelf, role: str) -> None:
    assert each_run(shelf, library.row) == SEEN[role]


def check_open(library: Library, shelf: Shelf, role: str) -> None:
    assert each_run(shelf, library.open) == opens(role)


def check_open_any(library: Library, shelf: Shelf, role: str) -> None:
    assert each_run(shelf, library.open_any) == opens(role)


def check_facets(library: Library, shelf: Shelf, role: str) -> None:
    shelf.library.annotate(shelf.ids["his"], tags=["of bob"])
    facets = library.facets()
    assert ("of bob" in facets.tags) == ("his" in SEEN[role])
    assert facets.persons == (("", ADA, BOB) if "secret" in SEEN[role] else ())


def check_texts_by(library: Library, shelf: Shelf, role: str) -> None:
    sha = trace_named("his").pair.target.weights_sha256
    assert len(library.texts_by(sha, 100)) == len(SEEN[role])


def check_add(library: Library, shelf: Shelf, role: str) -> None:
    made = outcome(lambda: library.add(_new(person=BOB)))
    if role in ("demo", "viewer"):
        assert made == REFUSED
    else:
        assert _person_of(shelf, made) == (ADA if role == "ada" else BOB)
    taken = each_run(shelf, lambda run_id: library.add(_new(run_id=run_id)))
    assert taken == changes(role)
    assert outcome(lambda: library.add(_new(comparison="open", job=(0, 9, 0)))) == REFUSED or (
        "secret" in SEEN[role]
    )


def check_add_together(library: Library, shelf: Shelf, role: str) -> None:
    before = shelf.library.count()
    made = outcome(lambda: library.add_together([_new("one"), _new(run_id=shelf.ids["his"])]))
    refused = "secret" not in SEEN[role]
    assert (made == REFUSED) == refused
    assert shelf.library.count() == before + (not refused)


def check_add_unless_there(library: Library, shelf: Shelf, role: str) -> None:
    if role in ("demo", "viewer"):
        assert outcome(lambda: library.add_unless_there(_new("his"))) == REFUSED
        return
    for name in ("secret", "his", "shared", "shared gone", "hers", "hers gone"):
        run_id, known = library.add_unless_there(_new(name))
        assert known == (name in opens(role)), name
        assert (run_id == shelf.ids[name]) == known
        if not known:
            assert _person_of(shelf, run_id) == ADA
    gone = {row.name for row in shelf.library.find(Query(deleted=True))}
    assert gone == ({"shared gone"} if role == "ada" else set())


def check_annotate(library: Library, shelf: Shelf, role: str) -> None:
    done = each_run(shelf, lambda run_id: library.annotate(run_id, name="taken", note="taken"))
    assert done == changes(role)
    rows = shelf.library.find()
    assert sum(row.name == "taken" for row in rows) == len(changes(role) & SEEN["owner"])


def check_share(library: Library, shelf: Shelf, role: str) -> None:
    ids = list(shelf.ids.values())
    allowed = outcome(lambda: library.share(ids, shared=True)) != REFUSED
    assert allowed == ("secret" in SEEN[role])
    assert (SHARED in shelf.library.row(shelf.ids["his"]).tags) == allowed


def check_delete(library: Library, shelf: Shelf, role: str) -> None:
    each_run(shelf, lambda run_id: library.delete([run_id]))
    left = {row.name for row in shelf.library.find()}
    assert left == SEEN["owner"] - changes(role)


def check_restore(library: Library, shelf: Shelf, role: str) -> None:
    library.restore(list(shelf.ids.values()))
    gone = {row.name for row in shelf.library.find(Query(deleted=True))}
    assert gone == {"hers gone", "shared gone"} - changes(role)


def check_purge(library: Library, shelf: Shelf, role: str) -> None:
    gone = {"hers gone", "shared gone"} & changes(role)
    assert library.purge(older_than_days=0) == len(gone)
    left = {row.name for row in shelf.library.find(Query(deleted=True))}
    assert left == {"hers gone", "shared gone"} - gone


def check_complete_older(library: Library, shelf: Shelf, role: str) -> None:
    with shelf.library._writing() as db:
        db.execute("UPDATE runs SET unread = 1, alpha_observed = NULL")
    assert library.complete_older(60) == 0
    with shelf.library._reading() as db:
        read = {name for (name,) in db.execute("SELECT name FROM runs WHERE unread = 0")}
    assert read == opens(role)


def check_begin_comparison(library: Library, shelf: Shelf, role: str) -> None:
    done = outcome(lambda: library.begin_comparison("new", "{}", "new")) != REFUSED
    assert done == ("secret" in SEEN[role])
    assert ("new" in {row.key for row in shelf.library.comparisons()}) == done


def check_comparison_jobs(library: Library, shelf: Shelf, role: str) -> None:
    for key in ("open", "half", "closed"):
        names = {name for name in SEEN[role] if name.startswith(key)}
        assert shelf.names(library.comparison_jobs(key).values()) == names
    assert library.comparison_jobs("missing") == {}


def check_comparisons(library: Library, shelf: Shelf, role: str) -> None:
    keys = {"open", "half", "closed"} if "secret" in SEEN[role] else {"open"}
    assert {row.key: row.num_runs for row in library.comparisons()} == {
        key: 2 if key == "half" else 1 for key in keys
    }


def check_comparison(library: Library, shelf: Shelf, role: str) -> None:
    keys = {"open", "half", "closed"}
    found = {key for key in keys if outcome(partial(library.comparison, key)) != REFUSED}
    assert found == ({"open", "half", "closed"} if "secret" in SEEN[role] else {"open"})


def check_viewpoint(library: Library, shelf: Shelf, role: str) -> None:
    mine = {row.name for row in library.find() if library.viewpoint.changes(row)}
    assert mine == changes(role) & SEEN[role]
    persons = {row.person for row in library.find()}
    assert persons == {"demo": {""}, "viewer": {""}, "ada": {"", ADA}}.get(role, {"", ADA, BOB})


CHECKS: dict[str, Check] = {
    name.removeprefix("check_"): check
    for name, check in list(globals().items())
    if name.startswith("check_")
}


def test_each_method_of_the_library_has_a_check() -> None:
    methods = {
        name
        for name, value in inspect.getmembers(PageLibrary)
        if not name.startswith("_") and (callable(value) or isinstance(value, property))
    }
    assert methods == CHECKS.keys()


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("method", CHECKS)
def test_a_method_for_a_role(method: str, role: str, shelf: Shelf) -> None:
    CHECKS[method](library_of(role), shelf, role)


# A run that may not be seen is answered like one that does not exist


@pytest.mark.parametrize("role", ["viewer", "ada"])
@pytest.mark.parametrize("name", ["secret", "his", "shared gone", "closed 0"])
@pytest.mark.parametrize(
    "act",
    [
        lambda library, run_id: library.row(run_id),
        lambda library, run_id: library.open(run_id),
        lambda library, run_id: library.open_any(run_id),
        lambda library, run_id: library.annotate(run_id, name="x"),
        lambda library, run_id: library.delete([run_id]),
        lambda library, run_id: library.restore([run_id]),
    ],
)
def test_a_hidden_run_is_answered_as_a_missing_one(
    act: Callable[[Library, str], object], name: str, role: str, shelf: Shelf
) -> None:
    library, hidden, missing = library_of(role), shelf.ids[name], "0" * 32

    def words(run_id: str) -> str:
        try:
            return str(act(library, run_id))
        except StoreError as error:
            return str(error).replace(run_id, "ID")

    assert words(hidden) == words(missing)


def test_a_hidden_comparison_is_answered_as_a_missing_one(shelf: Shelf) -> None:
    library = library_of("ada")

    def words(key: str) -> str:
        with pytest.raises(StoreError) as caught:
            library.comparison(key)
        return str(caught.value).replace(key, "KEY")

    assert words("half") == words("closed") == words("missing")


def test_a_comparison_is_hidden_once_one_of_its_runs_is(shelf: Shelf) -> None:
    shelf.library.share([shelf.ids["half 1"]], shared=True)
    assert "half" in {row.key for row in library_of("viewer").comparisons()}
    shelf.library.share([shelf.ids["half 0"]], shared=False)
    assert "half" not in {row.key for row in library_of("viewer").comparisons()}


# Tags


@pytest.mark.parametrize(
    "tag",
    [
        "shared",
        " shared ",
        "sha\nred shared",
        "Shared",
        "SHARED",
        "ｓｈａｒｅｄ",
        "sha\u200bred",
        "shared\0",
    ],
)
def test_a_student_cannot_share(tag: str, shelf: Shelf) -> None:
    hers = shelf.ids["hers"]
    outcome(lambda: library_of("ada").annotate(hers, tags=["mine", *tag.split("\n")]))
    assert SHARED not in shelf.library.row(hers).tags
    assert hers not in {row.id for row in library_of("viewer").find()}


def test_a_student_keeps_or_withdraws_the_tag_of_the_owner(shelf: Shelf) -> None:
    hers, library = shelf.ids["hers"], library_of("ada")
    shelf.library.share([hers], shared=True)
    library.annotate(hers, tags=[SHARED, "mine"])
    assert library.row(hers).tags == ("mine", SHARED)
    library.annotate(hers, tags=["mine"])
    assert hers not in {row.id for row in library_of("viewer").find()}
    assert outcome(lambda: library.annotate(hers, tags=[SHARED])) == REFUSED


def test_a_refused_tag_changes_nothing_else(shelf: Shelf) -> None:
    hers = shelf.ids["hers"]
    act = lambda: library_of("ada").annotate(hers, name="other", note="n", tags=[SHARED])  # noqa: E731
    assert outcome(act) == REFUSED
    row = shelf.library.row(hers)
    assert (row.name, row.note, row.tags) == ("hers", "", ())


def test_a_filter_by_person_reveals_nothing(shelf: Shelf) -> None:
    library = library_of("ada")
    assert library.find(Query(persons=(BOB,))) == library.find()
    assert {row.name for row in shelf.library.find(Query(persons=(BOB,)))} == {"his", "his shared"}


# Who is asked


def test_the_person_is_asked_at_each_call_of_a_script(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [PERSONS["owner"]]
    monkeypatch.setattr(person, "the_person", lambda: now[0])
    library = the_library()
    assert library.count() == len(SEEN["owner"])
    now[0] = PERSONS["viewer"]
    assert library.count() == len(SEEN["owner"])  # outside a script: the person who made it
    monkeypatch.setattr("specviz.ui.session.page_library.is_in_script", lambda: True)
    assert library.count() == len(SEEN["viewer"])


@pytest.mark.parametrize("key", ["", "' OR 1 --", "%", ADA.upper(), "\ud800@uni.example"])
def test_an_odd_key_sees_no_runs_of_others(key: str, shelf: Shelf) -> None:
    odd = Person(key=key, role=Role.STUDENT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(person, "the_person", lambda: odd)
        library = the_library()
    assert {row.name for row in library.find()} == SEEN["viewer"]
    run_id = library.add(_new())
    assert library.row(run_id).name == "new"
    assert run_id not in {row.id for row in library_of("ada").find()}


def test_a_demoted_student_does_not_change_runs(shelf: Shelf) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(person, "the_person", lambda: Person(key=ADA, role=Role.VIEWER))
        library = the_library()
    assert {row.name for row in library.find()} == SEEN["viewer"]
    assert outcome(lambda: library.annotate(shelf.ids["hers"], name="x")) == REFUSED


def test_a_dashboard_without_a_login_stores_runs_as_before(shelf: Shelf) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(person, "the_person", lambda: OPEN_OWNER)
        run_id = save_run(the_library(), trace_named("plain"))
    assert _person_of(shelf, run_id) == ""
