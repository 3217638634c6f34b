"""The section "Quality" in a browser: from the button to the plot and the texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.conftest import Server
from tests.browser.reading import at_rest
from tests.browser.test_access import own_violations, serious_violations
from tests.browser.test_theory_pages import cut_off

LINK = (
    "bias?bias_section=Quality&bias_pause=true&quality_prompts=2&quality_texts=2"
    "&quality_length=16&quality_epsilons=0.2"
)


@pytest.mark.thorough
@pytest.mark.parametrize("width", [1440, 420])
def test_from_the_button_to_the_plot(
    server: Server, open_page: Callable[..., Any], width: int
) -> None:
    page = open_page(f"{server.url}/{LINK}", width=width, height=900)
    at_rest(page)
    assert own_violations(page) == []
    page.locator(".st-key-quality_start button").click()
    page.locator(".st-key-quality_measured .scatterlayer").wait_for(timeout=120_000)
    at_rest(page)
    assert page.get_by_text("Control, lossless against lossless").is_visible()
    assert page.get_by_text("The texts", exact=True).is_visible()
    assert serious_violations(page) == []
    assert cut_off(page) == []
