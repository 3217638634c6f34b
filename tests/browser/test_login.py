"""Logins through an OpenID provider, and what each role may do, against a real server."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from tests.browser.conftest import Server
from tests.browser.logins import (
    SETTINGS,
    TOKEN,
    UNKNOWN,
    UNVERIFIED,
    Browser,
    Dashboard,
    answer_of_provider,
    claims,
    write_secrets,
)
from tests.browser.page_sockets import PageSocket, fetch
from tests.browser.reading import wait_for_script
from tests.browser.test_access import serious_violations

pytest.importorskip("authlib")
mock = pytest.importorskip("oidc_provider_mock")


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    """An OpenID provider on this machine; anybody who knows an account's name may log in."""
    users = [mock.User(sub=sub, claims=each) for sub, each in claims().items()]
    with mock.run_server_in_thread(user_claims=users) as server:
        yield f"http://localhost:{server.server_port}"


@pytest.fixture(scope="module")
def dashboard(
    provider: str, serve: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Dashboard]:
    folder = tmp_path_factory.mktemp("login")
    settings, log = folder / "specviz.toml", folder / "errors.txt"
    settings.write_text(SETTINGS)
    with log.open("wb") as errors:
        server = serve(
            options=["--secrets.files", str(write_secrets(folder, provider))],
            errors=errors.fileno(), SPECVIZ_SETTINGS=str(settings), SPECVIZ_TOKEN=TOKEN,
        )  # fmt: skip
    yield Dashboard(server, settings, log)
    os.kill(server.pid, signal.SIGTERM)


def logged_in(dashboard: Dashboard, sub: str) -> Browser:
    browser = Browser(dashboard)
    status, location, text = browser.log_in(sub)
    assert (status, location) == (303, "./"), text
    return browser


def test_a_login_opens_the_page_that_was_asked_for(dashboard: Dashboard) -> None:
    browser = Browser(dashboard)
    assert browser.get("/speed?gamma=3")[0] == 401
    status, location, _ = browser.log_in("sam", "/speed?gamma=3")
    assert (status, location) == (303, "./speed?gamma=3")
    assert browser.get("/speed?gamma=3")[0] == 200
    flags = {each.strip() for each in browser.attributes[dashboard.cookie_name].split(";")}
    assert {"httponly", "samesite=lax", "path=/"} <= flags
    assert not [name for name in browser.cookies if name.startswith("_streamlit_user")]
    with browser.socket() as page:
        text = " ".join(page.open())
    assert "sam@uni.example, student" in text
    assert "Log out" in text


@pytest.mark.parametrize(
    ("sub", "words"), [(UNKNOWN, "may not open"), (UNVERIFIED, "not verified")]
)
def test_accounts_that_may_not_enter(dashboard: Dashboard, sub: str, words: str) -> None:
    browser = Browser(dashboard)
    status, _, text = browser.log_in(sub)
    assert status == 403
    assert words in text
    assert dashboard.cookie_name not in browser.cookies


def test_a_replayed_callback(dashboard: Dashboard) -> None:
    browser = Browser(dashboard)
    back = answer_of_provider(browser.begin(), "sam")
    earlier = dict(browser.cookies)
    assert browser.get(back)[0] == 303
    for cookies in (earlier, {}):
        other = Browser(dashboard, cookies=cookies)
        assert other.get(back)[0] == 400
        assert dashboard.cookie_name not in other.cookies


def test_two_callbacks_at_once(dashboard: Dashboard) -> None:
    browser = Browser(dashboard)
    back = answer_of_provider(browser.begin(), "sam")
    racers = [Browser(dashboard, cookies=dict(browser.cookies)) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda each: each.get(back)[0], racers))
    assert sorted(answers) == [303] + [400] * 7
    assert sum(dashboard.cookie_name in each.cookies for each in racers) == 1


def test_a_login_finished_in_another_browser(dashboard: Dashboard) -> None:
    """Somebody sends a link that would log its reader into the sender's account."""
    back = answer_of_provider(Browser(dashboard).begin(), "sam")
    victim = Browser(dashboard)
    assert victim.get(back)[0] == 403
    assert dashboard.cookie_name not in victim.cookies


def test_an_altered_code(dashboard: Dashboard) -> None:
    browser = Browser(dashboard)
    back = answer_of_provider(browser.begin(), "sam")
    assert browser.get(back.replace("code=", "code=x"))[0] == 403
    assert dashboard.cookie_name not in browser.cookies


def test_logging_out_ends_the_tabs_too(dashboard: Dashboard) -> None:
    browser = logged_in(dashboard, "vic")
    with browser.socket() as page:
        shown = " ".join(page.open())
        link = shown.partition('href="./?')[2].partition('"')[0]
        status, location, _ = browser.get(f"/?{link}")
        assert status == 303
        assert "end_session" in location
        assert "Your session is over." in page.press("anything", {"anything": ("x", "")})
    assert browser.get("/")[0] == 401


# Attacks on a real server


ROUTES = ["/", "/watch", "/_stcore/health", "/_stcore/host-config", "/_stcore/metrics",
          "/_stcore/upload_file/a/b", "/_stcore/bidi-components/a.js", "/component/a/b.js",
          "/media/a.png", "/static/js/none.js", "/app/static/a", "/_stcore/agent/openapi.json",
          "/_stcore/agent/interact", "/_stcore/agent/mcp", "/auth/login", "/auth/logout",
          "/oauth2callback?code=x&state=y", "/../../etc/passwd", "/no/such/page"]  # fmt: skip


@pytest.mark.parametrize("path", ROUTES)
def test_nothing_is_served_without_a_session(dashboard: Dashboard, path: str) -> None:
    seen = []
    for cookie in ("", f"{dashboard.cookie_name}={'a' * 43}", f"{dashboard.cookie_name}={TOKEN}"):
        status, _, text = fetch(dashboard.url, path, headers={"Cookie": cookie, "Accept": "*/*"})
        assert status in (400, 401)
        seen.append(text)
    assert len(set(seen)) == 1
    assert "passwd" not in seen[0]


@pytest.mark.parametrize("kind", ["none", "foreign", "no origin"])
def test_sockets_that_are_refused(dashboard: Dashboard, kind: str) -> None:
    from websockets.sync.client import connect
    from websockets.typing import Origin

    place = dashboard.url.removeprefix("http://")
    cookie = logged_in(dashboard, "sam").access if kind != "none" else ""
    origin = {"none": f"http://{place}", "foreign": "http://localhost:1"}.get(kind)
    with pytest.raises(InvalidStatus, match="403"):
        connect(
            f"ws://{place}/_stcore/stream", origin=Origin(origin) if origin else None,
            additional_headers={"Cookie": cookie}, proxy=None,
        )  # fmt: skip


def test_a_viewer_presses_run_by_a_message_of_their_own(dashboard: Dashboard) -> None:
    """The button of an owner's page, pressed through a viewer's connection."""
    with logged_in(dashboard, "ada").socket() as page:
        page.open()
        ids = page.buttons
    assert "run" in ids
    browser = logged_in(dashboard, "vic")
    with browser.socket() as page:
        page.open()
        assert "run" not in page.buttons
        texts = page.press("run", {"run": (ids["run"][0], "")})
        assert any("only students and owners may start a run" in each for each in texts)
        assert "run" not in page.buttons


@pytest.mark.parametrize("sub", ["vic", "sam"])
def test_pages_of_owners(dashboard: Dashboard, sub: str) -> None:
    browser = logged_in(dashboard, sub)
    starts = {"train_start", "compare_start_prompt", "compare_start_suite", "tune_run"}
    for page in ("compare", "tune", "train", "lossless", "servers"):
        with browser.socket() as tab:
            texts = tab.open(page)
            assert not starts & tab.buttons.keys(), page
            assert not [each for each in texts if "Traceback" in each], page


def test_somebody_elses_tab_is_not_resumed(dashboard: Dashboard) -> None:
    with logged_in(dashboard, "ada").socket() as owner:
        owner.open()
        stolen = owner.session_id
        assert stolen
        viewer = logged_in(dashboard, "vic")
        with PageSocket(dashboard.url, viewer.access, resume=stolen) as tab:
            tab.open()
            assert tab.session_id != stolen


def test_a_change_of_the_settings_counts_in_an_open_tab(dashboard: Dashboard) -> None:
    browser = logged_in(dashboard, "vic")
    with browser.socket() as page:
        page.open()
        try:
            dashboard.settings.write_text(SETTINGS.replace('"viewer"', '"student"'))
            assert any("vic@uni.example, student" in each for each in page.open())
            dashboard.settings.write_text(SETTINGS.replace('"vic@uni.example" = "viewer"', ""))
            assert "Your session is over." in page.open()
            assert browser.get("/")[0] == 403
        finally:
            dashboard.settings.write_text(SETTINGS)


def test_nothing_secret_is_in_the_log_or_on_a_page(dashboard: Dashboard) -> None:
    browser = Browser(dashboard)
    back = answer_of_provider(browser.begin(), "sam")
    browser.get(back)
    browser.get(f"/?token={TOKEN}")
    browser.get("/?token=a-wrong-token-of-nobody")
    session = browser.cookies[dashboard.cookie_name]
    log = dashboard.log.read_text()
    code = back.partition("code=")[2].partition("&")[0]
    assert not [each for each in (session, code, "a-wrong-token-of-nobody") if each in log]
    shown = " ".join(each for each in browser.seen if "set-cookie" not in each)
    assert session not in shown
    assert TOKEN not in " ".join(browser.seen)
    assert all("'referrer-policy', 'no-referrer'" in each for each in browser.seen)


def test_a_student_may_run_the_pair(dashboard: Dashboard) -> None:
    with logged_in(dashboard, "sam").socket() as page:
        page.open()
        assert not {"load_pair", "unload_pair", "without_body"} & page.buttons.keys()
        texts = page.press("run")
        assert not [each for each in texts if "may not do this" in each]


# In a browser


@pytest.mark.thorough
def test_the_buttons_log_in_and_out(dashboard: Dashboard, contexts: Any) -> None:
    from playwright.sync_api import expect

    page = contexts.open(f"{dashboard.url}/runs")
    page.goto(f"{dashboard.url}/runs")
    page.get_by_role("link", name="Log in with Mock").click()
    page.locator('input[name="sub"]').fill("sam")
    page.get_by_role("button", name="Authorize").click()
    expect(page.get_by_role("heading", name="Runs").first).to_be_visible()
    expect(page.get_by_text("sam@uni.example, student")).to_be_visible()
    page.get_by_role("link", name="Log out").click()
    page.goto(f"{dashboard.url}/runs")
    expect(page.get_by_role("heading")).to_have_text("Log in to specviz")
    contexts.close(page)


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_of_access_have_no_serious_violation(
    dashboard: Dashboard, contexts: Any, scheme: str
) -> None:
    page = contexts.open(dashboard.url, scheme=scheme)
    page.goto(dashboard.url)
    assert page.get_by_role("link", name="Log in with Mock").is_visible()
    found = {"log in": serious_violations(page)}
    logged_in(dashboard, "sam")
    owner = logged_in(dashboard, "ada")
    session = {"name": dashboard.cookie_name, "value": owner.cookies[dashboard.cookie_name]}
    page.context.add_cookies([session | {"url": dashboard.url}])
    for chapter, heading in (("limits", "Limits in force"), ("access", "Who is logged in")):
        page.goto(f"{dashboard.url}/docs?chapter={chapter}")
        page.get_by_role("heading", name=heading).wait_for()
        wait_for_script(page)
        found[chapter] = serious_violations(page)
    contexts.close(page)
    assert found == {"log in": [], "limits": [], "access": []}


# The links of the menu that the line with the login covers, and the parts of a page that scroll
# sideways.
MISPLACED = """() => {
  const login = document.querySelector('.sv-login').getBoundingClientRect();
  const covered = [...document.querySelectorAll('[data-testid=stHeader] a')].filter((each) => {
    const {left, right, top, bottom} = each.getBoundingClientRect();
    return right > left && left < login.right && login.left < right
      && top < login.bottom && login.top < bottom;
  });
  const wide = [...document.querySelectorAll('.st-key-chapter_text *')].filter(
    (each) => each.scrollWidth > each.clientWidth && getComputedStyle(each).overflowX === 'auto');
  return [...covered, ...wide].map((each) => each.outerHTML.slice(0, 120));
}"""


@pytest.mark.thorough
@pytest.mark.parametrize("width", [1440, 1300, 1024, 420])
def test_the_login_covers_nothing_and_the_chapters_fit(
    dashboard: Dashboard, contexts: Any, width: int
) -> None:
    page = contexts.open(dashboard.url, width=width)
    owner = logged_in(dashboard, "ada")
    session = {"name": dashboard.cookie_name, "value": owner.cookies[dashboard.cookie_name]}
    page.context.add_cookies([session | {"url": dashboard.url}])
    for chapter in ("limits", "access"):
        page.goto(f"{dashboard.url}/docs?chapter={chapter}")
        page.locator(".sv-login").wait_for()
        wait_for_script(page)
        assert page.evaluate(MISPLACED) == []
    contexts.close(page)
