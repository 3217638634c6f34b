"""The documentation: every chapter opens inside the dashboard, and its links lead somewhere."""

from __future__ import annotations

import re

import pytest

from specviz import ROOT
from specviz.ui.docs.chapters import CHAPTERS, FOLDER, parts_of, title_of
from specviz.ui.shell import PAGES
from tests.ui.paging import page_of

pytestmark = pytest.mark.usefixtures("loads_nothing")

README = ROOT / "README.md"
_LINK = re.compile(r"\]\(([^)]+)\)")


def test_every_chapter_has_a_file_and_every_file_is_a_chapter() -> None:
    assert sorted(CHAPTERS) == sorted(each.stem for each in FOLDER.glob("*.md"))


OPENED = ("watch", "limits", "access")  # two draw more than their text


@pytest.mark.parametrize(
    "chapter",
    [pytest.param(each, marks=() if each in OPENED else pytest.mark.thorough) for each in CHAPTERS],
)
def test_a_chapter_opens_by_its_link(chapter: str) -> None:
    app = page_of("docs", chapter=chapter)
    assert not app.exception
    assert any(title_of(chapter) in each.value for each in app.markdown)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_links_and_pictures_of_a_chapter_exist(chapter: str) -> None:
    for part in parts_of(chapter):
        if not isinstance(part, str):
            assert part[0].is_file()
            continue
        for target in _LINK.findall(part):
            name = target.removeprefix("docs?chapter=").partition("#")[0]
            assert name in CHAPTERS or target.startswith("http") or (FOLDER / target).is_file()


def test_an_unknown_chapter_opens_the_first() -> None:
    app = page_of("docs", chapter="nonsense")
    assert not app.exception
    assert any(title_of(CHAPTERS[0]) in each.value for each in app.markdown)


def test_the_title_of_a_page_links_to_its_chapter() -> None:
    assert "docs?chapter=servers" in page_of("servers").title[0].value
    assert "docs?chapter=theory" in page_of("claims").title[0].value
    assert "docs?chapter=watch" in page_of("watch").title[0].value


def test_the_readme_is_short_and_its_links_exist() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 160
    for target in _LINK.findall(text):
        assert target.startswith("http") or (ROOT / target).is_file(), target
    assert {each.name for each in PAGES if not each.group} >= {"watch", "docs"}


def test_paths_in_the_guide_for_contributors_exist() -> None:
    """A path in backticks with a slash or an ending is one of the repository."""
    text = (FOLDER / "contributing.md").read_text(encoding="utf-8")
    found = re.findall(r"`([\w./]+\.(?:py|js|toml))`", text)
    folders = [ROOT, ROOT / "specviz", *(ROOT / "specviz").rglob("*/")]
    for name in found:  # a name alone is of a module that its neighbours lead to
        assert any((each / name).is_file() for each in folders), name
