"""The wheel in environments outside the checkout: every page, a run, and the end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from specviz import ROOT
from specviz.cli.free_port import free_port
from specviz.ui.shell import PAGES
from tests.packaging.dashboards import Dashboard, bound_socket, still_running
from tests.packaging.environments import Environment, full_environment, light_environment

pytestmark = pytest.mark.thorough

MISSING = "Models cannot be loaded without torch"
WITHOUT_ENGINE = {"watch", "learn", "compare", "tune", "train", "lossless"}  # these load a pair
TRACE = str(ROOT / "assets" / "first_trace.json")


@pytest.fixture(scope="module")
def light(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return light_environment(wheel, tmp_path_factory.mktemp("light"))


@pytest.fixture(scope="module")
def full(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return full_environment(wheel, tmp_path_factory.mktemp("full"))


@contextmanager
def dashboard_of(environment: Environment) -> Iterator[tuple[Dashboard, str]]:
    with bound_socket() as taken:
        port = free_port("127.0.0.1", taken.getsockname()[1])
    program, url = [environment.program], f"http://127.0.0.1:{port}"
    with Dashboard(program, environment.home, port, "--no-browser") as dashboard:
        assert dashboard.started(url), dashboard.errors
        yield dashboard, url


def opened(browser: Any, url: str) -> tuple[Any, list[str]]:
    """Open a page and wait until its script has ended; return it and its script errors."""
    page, errors = browser.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(url)
    page.wait_for_function(
        "() => !document.querySelector('[data-testid=stStatusWidget]') &&"
        " document.querySelector('[data-testid=stMainBlockContainer]')?.innerText.length > 80"
    )
    page.wait_for_timeout(1_000)  # for the state of the worker process, which a fragment shows
    return page, errors


def test_the_light_environment_has_no_torch(light: Environment) -> None:
    assert not light.installed() & {"torch", "transformers", "numba", "gguf", "huggingface_hub"}
    assert "streamlit" in light.installed()


def test_every_page_opens_without_torch_and_says_what_to_install(
    light: Environment, browser: Any
) -> None:
    with dashboard_of(light) as (dashboard, url):
        for each in PAGES:
            page, errors = opened(browser, f"{url}/{each.name}")
            assert page.get_by_test_id("stException").count() == 0, each.name
            assert errors == []
            if each.name in WITHOUT_ENGINE:
                page.get_by_text(MISSING).first.wait_for(state="attached")  # in The pair, or above
            else:
                assert page.get_by_text(MISSING).count() == 0, each.name
            page.close()
        assert "Traceback" not in dashboard.errors


def test_commands_without_torch(light: Environment) -> None:
    assert light.run("--version").returncode == 0
    assert light.run("show", TRACE).returncode == 0
    assert "cannot be reached" in light.run("attach", "http://127.0.0.1:9").stderr
    refused = light.run("run", "Once upon a time")
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"error: {MISSING}")
    assert refused.stderr.endswith("Run `pip install 'specviz-decoding[run]'`.\n")


def test_every_page_opens_and_a_run_is_made(full: Environment, browser: Any) -> None:
    from playwright.sync_api import expect

    with dashboard_of(full) as (dashboard, url):
        for each in PAGES:
            page, errors = opened(browser, f"{url}/{each.name}")
            assert page.get_by_test_id("stException").count() == 0, each.name
            assert page.get_by_text(MISSING).count() == 0, each.name
            assert errors == []
            page.close()
        page, errors = opened(browser, url)
        status = page.get_by_test_id("status")
        expect(status).to_have_text(re.compile(r"press Run\s*$"), timeout=220_000)
        page.get_by_role("button", name="Run", exact=True).first.click()
        expect(status).to_have_attribute("data-state", "done", timeout=120_000)
        assert errors == []
        assert "Traceback" not in dashboard.errors
        children = dashboard.descendants()
        assert dashboard.interrupt() < 2  # with an open page
        assert not still_running(children)


def test_a_run_of_the_command_line(full: Environment) -> None:
    done = full.run("run", "Once upon a time", "--max-new-tokens", "8", "--threads", "1")
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr


@pytest.mark.parametrize("name", ["light", "full"])
def test_after_an_uninstall_only_the_data_folder_is_left(
    name: str, request: pytest.FixtureRequest
) -> None:
    """This test is the last one, because it empties the environments."""
    environment: Environment = request.getfixturevalue(name)
    environment.run("costs")
    environment.uninstall()
    left = {each.name for each in environment.packages.iterdir() if "specviz" in each.name}
    assert left == set()
    assert not Path(environment.program).exists()
    assert environment.home.is_dir()
