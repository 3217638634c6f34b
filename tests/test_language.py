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
# Word and why it stays: the files.
ALLOWED = {
    ("told", "a stored value of Grounds"): (
        "specviz/record/server_run.py",
        "specviz/figures/server_figures.py",
        "specviz/servers/vllm.py",
        "tests/record/server_traces.py",
        "tests/servers/check_real.py",
        "tests/servers/test_recorded_answers.py",
    ),
    ("told", "a test id"): ("assets/player/until_menu.js", "tests/browser/test_until.py"),
    ("stand", "a name in links"): (
        "specviz/ui/learn/challenges.py",
        "specviz/ui/recorded/learn.py",
        "tests/ui/test_learn.py",
    ),
    ("tell", "a prompt"): ("tests/cli/test_attach.py",),
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
    allowed = {(file, word) for (word, _), files in ALLOWED.items() for file in files}
    assert found - allowed == set()
    assert allowed - found == set()  # no unused exceptions
    assert len(allowed) <= 20
