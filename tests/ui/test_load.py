"""The tab "Under load" of Servers: stored sweeps, a start against scripted engines, refusals."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from specviz.figures.load_figures import load_figures
from specviz.figures.load_rows import count_rows
from specviz.figures.load_words import load_words
from specviz.load.live import LoadNow
from specviz.load.load_job import LOAD_JOB, LoadJob
from specviz.load.stored import save_sweep, sweep_to_json
from specviz.record.load_run import LoadSweep
from specviz.ui.servers.load import section as load_section
from specviz.ui.servers.load.points import ShownSweep, break_evens
from specviz.ui.servers.load.section import RECORDED
from specviz.ui.servers.load.wall import wall_data
from specviz.ui.session.background_jobs import the_job_queue
from tests.load.scripted_engine import running_two
from tests.load.sweeps import BREAK_EVEN, TAU, halving, lanes_with, sweep_of
from tests.servers.replaying import Served
from tests.ui.paging import page_of, sound, until
from tests.ui.servers_page import texts
from tests.ui.theory_pages import charts

pytestmark = pytest.mark.usefixtures("own_home")

LOAD, JSON = "Under load", "application/json"
QUICK = {
    "servers_tab": LOAD, "load_users": ["1", "2"], "load_seconds": "1", "load_ramp": "0",
    "load_budget": "2", "server_length": "8",
}  # fmt: skip
AIPERF = json.dumps(
    {
        "input_config": {"loadgen": {"concurrency": 8}, "endpoint": {"model_names": ["tiny"]}},
        "output_token_throughput": {"unit": "tokens/sec", "avg": 640.0},
        "inter_token_latency": {"unit": "ms", "p50": 12.0, "p90": 13.0, "p99": 14.0},
        "request_count": {"unit": "requests", "avg": 80.0},
    }
).encode()


@pytest.fixture
def no_example(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Open the tab without the recorded example, whose charts take most of the time."""
    monkeypatch.setattr(load_section, "RECORDED", tmp_path / "none")


@pytest.fixture
def engines() -> Iterator[tuple[Served, Served]]:
    with running_two(0.01) as both:
        yield both


def section(**link: Any) -> AppTest:
    """Open the tab and connect to the link's addresses."""
    app = page_of("servers", **link)
    for key in [each.key for each in app.button if each.key and each.key.endswith("_look_at")]:
        sound(app.button(key=key).click().run())
    return app


def drawn(app: AppTest, chart: str) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in charts(app)[chart]["data"]}


def shown(sweep: LoadSweep) -> ShownSweep:
    figures = load_figures(sweep)
    return ShownSweep(sweep=sweep, figures=figures, words=load_words(sweep, figures))


@pytest.mark.usefixtures("no_example")
def test_a_stored_sweep_is_opened_and_compared() -> None:
    first = sweep_of()
    save_sweep(first)
    save_sweep(replace(sweep_of(laws=(halving, lambda _: 1.5), seed=1), created="2026-01-02"))
    app = section(servers_tab=LOAD)
    assert len(app.selectbox(key="load_shown").options) == 2
    sound(app.selectbox(key="load_shown").select(first.id).run())
    (line,) = drawn(app, "load_speedup_opened").values()
    assert line["x"] == [1, 2, 4, 8, 16]
    for users, speedup in zip(line["x"], line["y"], strict=True):
        assert speedup == pytest.approx(halving(users), rel=0.1)
    assert len(drawn(app, "load_throughput_opened")) == 2
    assert drawn(app, "load_acceptance_opened")["γ 4"]["y"] == pytest.approx([TAU] * 5, rel=0.02)
    sound(app.selectbox(key="load_beside").select_index(0).run())
    assert set(drawn(app, "load_speedup_opened")) == {"γ 4", "γ 4 · compared", "γ 6 · compared"}
    assert len(drawn(app, "load_throughput_opened")) == 5
    assert len(app.get("download_button")) == 3


@pytest.mark.usefixtures("no_example")
def test_files_are_shown_next_to_a_sweep() -> None:
    save_sweep(sweep_of())
    app = section(servers_tab=LOAD)
    own = sweep_to_json(sweep_of(laws=(lambda _: 1.5,), seed=1))
    sound(app.file_uploader(key="load_file").set_value(("own.json", own.encode(), JSON)).run())
    (line,) = drawn(app, "load_speedup_opened").values()
    assert line["y"] == pytest.approx([1.5] * 5, rel=0.1)
    sound(app.selectbox(key="load_shown").select_index(0).run())
    assert set(drawn(app, "load_speedup_opened")) == {"γ 4", "γ 4 · compared"}
    sound(app.file_uploader(key="load_file").set_value(("aiperf.json", AIPERF, JSON)).run())
    reported = drawn(app, "load_throughput_opened")["AIPerf, aiperf.json"]
    assert (reported["x"], reported["y"]) == ([12.0], [640.0])
    sound(app.file_uploader(key="load_file").set_value(("other.json", b"[]", JSON)).run())
    assert "other.json" in app.error[0].value


def test_the_shade_is_the_interval_of_the_break_even() -> None:
    sweep = sweep_of(units=4)
    (span,) = break_evens(shown(sweep))
    assert span.has_interval
    assert span.low is not None
    assert span.high is not None
    assert span.low < BREAK_EVEN < span.high


def test_rows_name_failures_and_differences_of_totals() -> None:
    sweep = sweep_of((8, 16), failures=1)
    first = sweep.blocks[0]
    assert first.after is not None
    assert first.after.generated is not None
    more = replace(first.after, generated=first.after.generated + 5)
    blocks = (replace(first, after=more), *sweep.blocks[1:])
    changed = replace(sweep, blocks=blocks)
    rows = count_rows(changed, load_figures(changed))
    assert [each["Failures"] for each in rows] == ["6"] * 4
    assert [each["Counted by the engine"] for each in rows] == ["+5", "the same", *["the same"] * 2]


@pytest.mark.usefixtures("no_example")
def test_a_sweep_is_started_grows_and_stops(engines: tuple[Served, Served]) -> None:
    fast, alone = engines
    app = section(server=fast.address, baseline=alone.address, **QUICK)
    assert "2 lanes" in texts(app)
    assert f"to {' and '.join(sorted((fast.address, alone.address)))}" in texts(app)
    assert "share the" in " ".join(each.value for each in app.warning)
    assert fast.bodies == []
    sound(app.button(key="load_start").click().run())
    job = the_job_queue().newest(LOAD_JOB)
    assert isinstance(job, LoadJob)
    until(app, lambda: len(job.sweep.blocks) >= 2, 30)
    assert app.get("bidi_component")
    assert not [each for each in app.button if each.key == "load_start"]
    linked = [each.proto.query_string for each in app.get("page_link")]
    assert any("servers_tab=Under" in each for each in linked)
    until(app, lambda: charts(app)["load_speedup_measured"], 10)
    began = time.monotonic()
    sound(app.button(key=f"stop_{LOAD_JOB}").click().run())
    assert job.wait(5)
    assert time.monotonic() - began < 3  # a second, on a busy machine
    sound(app.run())
    assert "Stopped" in texts(app)
    assert "load_speedup_measured" in charts(app)
    assert not app.button(key="load_start").disabled
    asked = len(fast.bodies)
    time.sleep(0.3)
    assert len(fast.bodies) == asked


def test_without_an_address_nothing_can_be_started() -> None:
    app = section(servers_tab=LOAD)
    assert app.button(key="load_start").disabled
    assert ("Recorded example" in texts(app)) == RECORDED.is_file()


@pytest.mark.usefixtures("no_example")
def test_settings_that_cannot_be_measured_are_refused(engines: tuple[Served, Served]) -> None:
    app = section(
        server=engines[0].address, baseline=engines[1].address, **QUICK | {"load_seconds": "100"}
    )
    assert "budget" in app.error[0].value
    assert app.button(key="load_start").disabled
    sound(app.multiselect(key="load_users").set_value([]).run())
    assert "levels" in app.error[0].value
    assert app.button(key="load_start").disabled
    sound(app.segmented_control(key="load_mode").set_value("open loop").run())
    sound(app.number_input(key="load_seconds").set_value(1).run())
    assert not app.button(key="load_start").disabled


@pytest.mark.usefixtures("no_example")
def test_another_machine_must_be_confirmed(engines: tuple[Served, Served]) -> None:
    app = section(server=engines[0].address, baseline="http://192.0.2.1:1", **QUICK)
    assert "not confirmed" in texts(app)
    assert app.button(key="load_start").disabled


@pytest.mark.usefixtures("no_example")
def test_further_addresses_are_lanes(engines: tuple[Served, Served]) -> None:
    fast, alone = engines
    app = section(server=fast.address, **QUICK)
    assert "no speedup" in " ".join(each.value for each in app.warning)
    sound(app.text_area(key="load_addresses").set_value(alone.address).run())
    assert "2 lanes" in texts(app)
    assert alone.asked
    count = len(alone.asked)
    sound(app.text_area(key="load_addresses").set_value("http://192.0.2.1:1").run())
    assert "not confirmed" in texts(app)
    assert len(alone.asked) == count


def now_with(**changes: Any) -> LoadNow:
    seen = LoadNow(
        lane=lanes_with([4])[1], level=4, block=3, blocks=48, elapsed=4.0, seconds=10.0,
        in_flight=3, tokens_per_second=1284.4, failures=0,
        users=("decoding", "prefill", "decoding", "pausing"),
    )  # fmt: skip
    return replace(seen, **changes)


def test_the_wall_shows_the_block_in_progress() -> None:
    data = wall_data(now_with(), "closed")
    figures = {each["id"]: (each["shown"], each["alert"]) for each in data["figures"]}
    assert figures == {
        "rate": ("1,284", False), "flight": ("3", False), "left": ("6 s", False),
        "failures": ("0", False),
    }  # fmt: skip
    assert (data["lane"], data["level"], data["done"]) == ("γ 4", "4 users", 0.4)
    assert data["users"] == ["decoding", "prefill", "decoding", "pausing"]
    assert data["counts"] == "2 decoding, 1 prefill, 1 pausing"
    failing = wall_data(now_with(failures=2, elapsed=math.inf), "open")
    assert failing["figures"][3]["alert"]
    assert failing["figures"][2]["shown"] == "0 s"
    assert failing["done"] == 1.0
    assert {each["shown"] for each in wall_data(None, "closed")["figures"]} == {"–"}
