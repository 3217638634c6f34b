"""The words that the style guide bans are in no code, test, message or chapter."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
BANNED = re.compile(
    r"(?<![A-Za-z])(tells?|telling|told|untold|whoever|heed(s|ed)?|see[_ ]to|foretells?|foretold|"
    r"nought|stands?|stood|c[oa]me about|comes about|(held|holds?) against|lies? under|be had|"
    r"nobody can say)(?![A-Za-z])",
    re.IGNORECASE,
)
# File and word: why the word stays.
ALLOWED = {
    ("specviz/record/server_run.py", "told"): "a stored value of Grounds",
    ("specviz/figures/server_figures.py", "told"): "that value",
    ("specviz/servers/vllm.py", "told"): "that value",
    ("tests/record/server_traces.py", "told"): "that value",
    ("tests/servers/check_real.py", "told"): "that value",
    ("tests/servers/test_recorded_answers.py", "told"): "that value",
    ("assets/player/until_menu.js", "told"): "a test id",
    ("tests/browser/test_until.py", "told"): "that test id",
    ("specviz/ui/learn/challenges.py", "stand"): "a name in links",
    ("specviz/ui/recorded/learn.py", "stand"): "that name",
    ("tests/ui/test_learn.py", "stand"): "that name",
    ("tests/cli/test_attach.py", "tell"): "a prompt",
}


def texts() -> list[Path]:
    files = [ROOT / "app.py", ROOT / "README.md", ROOT / "Makefile", ROOT / "pyproject.toml"]
    files += (ROOT / "assets" / "docs").glob("*.md")
    for folder in ("specviz", "pages", "tests"):
        files += (ROOT / folder).rglob("*.py")
    for ending in ("js", "css", "toml"):
        files += (ROOT / "assets").rglob(f"*.{ending}")
    return [each for each in files if each != Path(__file__)]


def test_no_banned_word_is_used() -> None:
    found = {
        (str(file.relative_to(ROOT)), match[1].lower())
        for file in texts()
        for match in BANNED.finditer(file.read_text(encoding="utf-8"))
    }
    assert found - set(ALLOWED) == set()
    assert set(ALLOWED) - found == set()  # no unused exceptions
    assert len(ALLOWED) <= 20
