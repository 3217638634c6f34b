"""No text on Watch and Compare is smaller than 13 pixels or wider than the window.

The tests of the other pages call ``assert_readable``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.conftest import Server, wait_for_pair
from tests.browser.reading import ROUND, next_frame, run_to_its_end

SMALLEST = 13
SIZES = [(1440, 900), (1024, 768), (420, 860)]

# Returns every visible text whose font is too small. Streamlit hides some text by clipping; icons
# are glyphs of a font; a nested index in a formula may be smaller.
SMALL = """(smallest) => {
  const found = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  while (walk.nextNode()) {
    const { parentElement: element, textContent: text } = walk.currentNode;
    if (!text.trim() || !element.checkVisibility({visibilityProperty: true, opacityProperty: true}))
      continue;
    if (element.closest('script, style, .unseen, [data-testid=stIconMaterial]')) continue;
    if (element.closest('.katex-mathml, .mtight .mtight')) continue;
    range.selectNodeContents(walk.currentNode);
    const { width, height } = range.getBoundingClientRect();
    if (width < 2 || height < 2) continue;
    const size = parseFloat(getComputedStyle(element).fontSize);
    if (size < smallest) found.add(`${size} ${element.tagName} ${text.trim().slice(0, 40)}`);
  }
  for (const element of document.querySelectorAll('.sv *, .bars *'))
    for (const pseudo of ['::before', '::after']) {
      const { content, fontSize } = getComputedStyle(element, pseudo);
      if (/[a-z]/.test(content.replace('none', '').replace('normal', '').replace(/attr.*/, '')))
        if (parseFloat(fontSize) < smallest && element.checkVisibility())
          found.add(`${fontSize} ${content} of ${element.className}`);
    }
  return [...found].sort();
}"""


def assert_readable(page: Any) -> None:
    assert page.evaluate(SMALL, SMALLEST) == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


@pytest.mark.thorough
def test_watch_with_a_run(server: Server, open_page: Callable[..., Any]) -> None:
    page = open_page(server.url)
    wait_for_pair(page)
    run_to_its_end(page)
    page.locator(".sum-measure summary").first.click()
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        page.keyboard.press("?")
        next_frame(page)
        assert_readable(page)
        page.keyboard.press("?")
        page.locator(f"{ROUND} [data-place]").last.click()
        next_frame(page)
        assert_readable(page)
        page.keyboard.press("Escape")


@pytest.mark.thorough
def test_compare(server: Server, open_page: Callable[..., Any]) -> None:
    page = open_page(f"{server.url}/compare")
    page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")
    assert_readable(page)
