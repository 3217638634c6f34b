"""The page Lossless in a browser with the real pair: no finding, and a planted bug is found."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.conftest import Server
from tests.browser.reading import at_rest
from tests.browser.test_access import own_violations, serious_violations
from tests.browser.test_text_size import assert_readable
from tests.browser.test_theory_pages import cut_off
from tests.browser.test_tune import tab_to

pytestmark = pytest.mark.timeout(240)

REPORT = ".st-key-audit_report"
PROGRESS = ".st-key-progress_audit"


@pytest.mark.thorough
def test_an_audit_finds_nothing_and_a_bug_is_found(
    server: Server, open_page: Callable[..., Any]
) -> None:
    page = at_rest(open_page(f"{server.url}/lossless?audit_runs=50"))
    tab_to(page, "Audit")
    page.keyboard.press("Enter")
    report = page.locator(REPORT)
    report.get_by_text("At temperature 0 all 240 tokens of 5 texts").wait_for(timeout=120_000)
    page.locator(PROGRESS).wait_for(state="detached")
    assert "No deviation found" in report.inner_text()
    assert "50 of 50 runs" in report.inner_text()
    page.locator(".st-key-audit_evidence .main-svg").first.wait_for()
    at_rest(page)
    assert_readable(page)
    assert serious_violations(page) == []

    page.set_viewport_size({"width": 420, "height": 860})
    page.goto(f"{server.url}/lossless?audit_runs=50")
    at_rest(page)
    page.locator(".st-key-break_recovered-from-target button").click()
    report.get_by_text(re.compile("Alarm at run")).wait_for(timeout=120_000)
    page.locator(PROGRESS).wait_for(state="detached", timeout=120_000)
    text = report.inner_text()
    assert text.index("Alarm at run") < text.index("broken on purpose (recovered-from-target)")
    card = page.locator(".st-key-bug_recovered-from-target")
    card.locator(REPORT).wait_for()
    at_rest(page)
    assert_readable(page)
    assert cut_off(page) == []
    page.emulate_media(color_scheme="dark")
    at_rest(page)
    assert own_violations(page) == []
