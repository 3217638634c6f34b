"""Who may log in, and with which role."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from specviz.access.people import People, person_key, role_of
from specviz.access.roles import Action, Person, Role
from specviz.errors import ConfigError

TABLE = {"Ada@Uni.example": "owner", "*@uni.example": "student", "bad@uni.example": "none"}


@pytest.mark.parametrize(
    ("address", "role"),
    [("ada@uni.example", Role.OWNER), ("ADA@UNI.EXAMPLE", Role.OWNER),
     ("sam@uni.example", Role.STUDENT), ("bad@uni.example", None),
     ("sam@sub.uni.example", None), ("sam@notuni.example", None), ("sam@uni.example.evil", None),
     ("uni.example", None), ("*@uni.example", None), ("a@evil.example@uni.example", None),
     ("sam@uni.example ", None), ("sam@uni.example\n", None), ("<sam@uni.example>", None),
     ("sam@uni.example,ada@uni.example", None), ('"ada@uni.example"', None), ("", None),
     ("@uni.example", None), ("аda@uni.example", Role.STUDENT), ("ada@unі.example", None)],
)  # fmt: skip
def test_roles(address: str, role: Role | None) -> None:
    assert People(TABLE).role_of(address) is role


def test_everybody_else_has_no_role_unless_the_owner_says_so() -> None:
    assert People().role_of("a@b.example") is None
    assert People(TABLE, others="viewer").role_of("a@b.example") is Role.VIEWER
    assert People(TABLE, others="viewer").role_of("bad@uni.example") is None


@pytest.mark.parametrize("address", [None, 1, True, ["a@b.example"], {}, b"a@b.example"])
def test_only_text_is_an_address(address: object) -> None:
    assert person_key(address) is None


@pytest.mark.parametrize(
    ("table", "others"),
    [({"a@b.example": "admin"}, "none"), ({"a@b.example": "Owner"}, "none"),
     ({"a": "owner"}, "none"), ({"*": "owner"}, "none"), ({"*@": "owner"}, "none"),
     ({"*@*": "owner"}, "none"), ({}, "all")],
)  # fmt: skip
def test_a_wrong_table_is_refused(table: dict[str, str], others: str) -> None:
    with pytest.raises(ConfigError, match=r"\[people\]"):
        People(table, others=others)


def test_a_changed_file_counts_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "specviz.toml"
    monkeypatch.setenv("SPECVIZ_SETTINGS", str(file))
    assert role_of("a@b.example") is None
    for number, (text, role) in enumerate(
        [
            ('"a@b.example" = "viewer"', Role.VIEWER),
            ('others = "student"', Role.STUDENT),
            ("", None),
        ]
    ):
        file.write_text(f"[people]\n{text}\n")
        os.utime(file, ns=(number, number))
        assert role_of("a@b.example") is role


def test_a_higher_role_may_do_more() -> None:
    allowed = [
        {each for each in Action if Person(key="a", role=role).may(each)} for role in sorted(Role)
    ]
    assert allowed[0] < allowed[1] < allowed[2] == set(Action)
