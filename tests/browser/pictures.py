"""Take the pictures of README and the docs from the real pages: `make pictures`.

pytest runs this file only when it is named. `-k film` takes one picture. The machine should be
quiet, because the pictures show its measurements.
"""

from __future__ import annotations

import base64
import io
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from PIL import Image

from tests.browser.conftest import Server, wait_for_pair
from tests.browser.reading import END, ROUND, at_rest, seek

ASSETS = Path(__file__).parents[2] / "assets"
FILM_BYTES = 2_000_000
_FRAME = 0.09  # seconds between two frames of the film, at least

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def dashboard(serve: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A dashboard with an empty home that measures as long as for a user."""
    home = str(tmp_path_factory.mktemp("pictures"))
    return serve(SPECVIZ_HOME=home, SPECVIZ_TIMING_SECONDS="", SPECVIZ_FIRST_BODY="auto")


class Film:
    """Records the frames that the browser paints."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.frames: list[tuple[float, Image.Image]] = []
        self.session = page.context.new_cdp_session(page)
        self.session.on("Page.screencastFrame", self._keep)

    def _keep(self, event: dict[str, Any]) -> None:
        self.session.send("Page.screencastFrameAck", {"sessionId": event["sessionId"]})
        now = float(event["metadata"]["timestamp"])
        if not self.frames or now - self.frames[-1][0] >= _FRAME:
            image = Image.open(io.BytesIO(base64.b64decode(event["data"]))).convert("RGB")
            self.frames.append((now, image))

    def start(self) -> None:
        self.session.send("Page.startScreencast", {"format": "png"})

    def save(self, path: Path) -> None:
        self.session.send("Page.stopScreencast")
        times = [at for at, _ in self.frames] + [time.time()]
        images = [image for _, image in self.frames]
        images[0].save(
            path, save_all=True, append_images=images[1:], loop=0, quality=62, method=4,
            duration=[round(1000 * (b - a)) for a, b in pairwise(times)],
        )  # fmt: skip


def test_film(dashboard: Server, open_page: Callable[..., Any]) -> None:
    """Rounds land while both lanes race; a rejected token is clicked, and its card opens."""
    page = open_page(f"{dashboard.url}/?target_body=none", width=1280, height=880)
    wait_for_pair(page)
    at_rest(page)
    page.select_option("[data-testid=speed]", "readable")
    seek(page, 0)
    page.wait_for_timeout(300)
    film = Film(page)
    film.start()
    page.keyboard.press(" ")
    page.wait_for_timeout(5000)
    page.keyboard.press(" ")
    page.locator('.rounds .chip[data-state="rejected"]').first.click()
    page.wait_for_timeout(4000)
    film.save(ASSETS / "watch.webp")
    assert len(film.frames) > 40
    assert (ASSETS / "watch.webp").stat().st_size <= FILM_BYTES


def test_compare(dashboard: Server, open_page: Callable[..., Any]) -> None:
    link = urlencode([("lane", "gamma=2"), ("lane", "gamma=12")])
    page = at_rest(open_page(f"{dashboard.url}/compare?{link}"))
    page.get_by_role("button", name="Compare", exact=True).click()
    own_result(page, '[data-testid="stTable"]')
    picture(page, "compare")


def test_tune(dashboard: Server, open_page: Callable[..., Any]) -> None:
    page = at_rest(open_page(f"{dashboard.url}/tune"))
    page.get_by_role("button", name="Compute").click()
    own_result(page, ".st-key-tune_map")
    picture(page, "tune")


def test_theory(dashboard: Server, open_page: Callable[..., Any]) -> None:
    page = open_page(f"{dashboard.url}/bias")
    page.wait_for_timeout(8000)  # the simulations reach their precision
    picture(page, "theory")


def test_servers(dashboard: Server, open_page: Callable[..., Any]) -> None:
    page = open_page(f"{dashboard.url}/servers", height=1180)  # the recorded answer of an engine
    page.wait_for_selector(ROUND)
    seek(page, END)
    page.locator('.rounds .chip[data-state="rejected"]').last.click()
    picture(page, "servers")


def own_result(page: Any, selector: str) -> None:
    """Wait for what shows the page's first result, which replaces its recorded example."""
    page.get_by_text("Recorded example").wait_for(state="hidden")
    page.locator(selector).first.wait_for(timeout=400_000)
    at_rest(page)


def picture(page: Any, name: str) -> None:
    at_rest(page)
    page.wait_for_timeout(1500)
    page.screenshot(path=ASSETS / f"{name}.png")
