"""The Servers page with replayed engines: asked, timed, followed; and engines that misbehave."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import Any

import pytest

from specviz.record.server_run import ServerTrace
from specviz.servers.baseline_job import BASELINE_JOB
from specviz.servers.counter_poller import CounterPoller
from specviz.store import Library
from specviz.ui.servers import counters_section, places
from specviz.ui.session import tabs
from specviz.ui.session.background_jobs import the_job_queue
from tests.servers.replaying import Handler, Page, Served, replayed, served
from tests.servers.test_baseline_job import MODELS, slow
from tests.servers.test_other_engines import sglang
from tests.ui.paging import sent, sound
from tests.ui.servers_page import ask, boards, linked, page_of, texts, until, vllm

__all__ = ["vllm"]  # a fixture

CONNECT = "Connect"

pytestmark = pytest.mark.usefixtures("own_home")


def test_without_an_address_nothing_is_sent() -> None:
    app = page_of()
    assert "Give the address of a serving engine" in texts(app)
    assert app.button(key="server_ask").disabled
    assert "Recorded example" in texts(app)
    assert sent(app)["run"]["id"] == "recorded answer"


def test_an_answer_appears_in_the_player_and_the_library(vllm: Served) -> None:
    app = page_of(server=vllm.address, server_length="40")
    assert "vLLM 0.32.0" in texts(app)
    assert f"for an answer of at most 40 tokens, to {vllm.address}." in texts(app)
    assert "The engine does not report: rejected tokens" in texts(app)
    assert vllm.bodies == []  # only the engine was identified
    data = ask(app)
    assert data["run"]["state"] == "done"
    assert data["rounds"]["total"] == len(data["rounds"]["items"]) > 5
    (row,) = Library().find()
    kept = Library().open_any(row.id)
    assert isinstance(kept, ServerTrace)
    assert kept.info.address == vllm.address
    assert len(vllm.bodies) == 1
    assert app.get("download_button")


def test_the_answer_survives_leaving_the_page(vllm: Served) -> None:
    app = page_of(server=vllm.address)
    data = ask(app)
    sound(app.switch_page("pages/runs.py").run())
    app.query_params.clear()
    sound(app.switch_page("pages/servers.py").run())
    assert app.text_input(key="server").value == vllm.address
    assert until(app, "done")["run"]["id"] == data["run"]["id"]
    assert len(vllm.bodies) == 1


def test_another_machine_is_not_contacted_before_confirmation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    probed: list[str] = []

    def probe(address: str, *_: object) -> places.Place:
        probed.append(address)
        return places.Place(address=address, granted=True)

    monkeypatch.setattr(places, "_probe", probe)
    app = page_of(server="http://203.0.113.5:8000")
    assert probed == []
    assert "Nothing is sent to this address until you confirm it" in texts(app)
    assert app.button(key="server_ask").disabled
    (box,) = app.checkbox
    assert box.label.replace("\\", "") == "Prompts go to 203.0.113.5:8000, another machine"
    sound(box.check().run())
    assert probed == ["http://203.0.113.5:8000"]
    assert not any("granted" in name for name in app.query_params)
    sound(app.text_input(key="server").input("http://203.0.113.6:8000").run())
    assert len(probed) == 1  # another machine needs its own confirmation


def test_a_link_sends_nothing_before_a_press() -> None:
    with replayed("vllm", "short") as first, replayed("vllm-plain", "short") as second:
        app = linked(
            server=first.address, baseline=second.address, server_draft=second.address,
            server_follow="true", server_costs="true", server_model="tiny",
        )  # fmt: skip
        sound(app.run())
        assert first.asked == second.asked == []
        assert app.button(key="server_ask").disabled
        assert texts(app).count("is from a link") == 2
        sound(app.button(key="server_look_at").click().run())
        assert first.asked
        assert second.asked == []
        assert "vLLM 0.32.0" in texts(app)
        sound(app.button(key="baseline_look_at").click().run())
        assert second.asked
        count = len(second.asked)
        assert CONNECT not in [each.label for each in app.button]
        sound(app.text_input(key="server").input(second.address).run())
        assert len(second.asked) > count  # a typed address is probed


def test_marks_an_engine_that_was_not_run_here() -> None:
    statistics = {"id": "tiny", "compatibility_type": "gguf"}
    studio = {"/v1/models": MODELS, "/api/v0/models": paged({"data": [statistics]})}
    shown = {"not run here; written from the sources of 0.5.23": sglang([]),
            "not run here; written from the documentation of its REST API v0": studio}  # fmt: skip
    for badge, pages in shown.items():
        with served(pages) as server:
            assert f":orange-badge[{badge}]" in texts(page_of(server=server.address))
    with replayed("vllm") as server:
        assert "not run here" not in texts(page_of(server=server.address))


def paged(value: object) -> Page:
    return Page(body=json.dumps(value).encode())


def test_one_of_several_models_is_chosen() -> None:
    models = paged({"data": [{"id": "first"}, {"id": "second"}, {"id": "**third**"}]})
    with served({"/v1/models": models}) as server:
        app = page_of(server=server.address)
        box = app.selectbox(key="server_model")
        assert (box.value, box.options) == (None, ["first", "second", r"\*\*third\*\*"])
        assert "· first" in texts(app)
        sound(box.select_index(1).run())
        assert "· second" in texts(app)
        for link in ("second", "**third**", r"\*\*third\*\*"):  # raw, and as the box shows it
            again = page_of(server=server.address, server_model=link)
            assert f"· {link}".replace("\\", "") in texts(again)
        unknown = page_of(server=server.address, server_model="another")
        assert "· first" in texts(unknown)


def test_a_key_is_sent_and_shown_nowhere(vllm: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECVIZ_SERVER_KEY", "very-secret")
    monkeypatch.setenv("SPECVIZ_SERVER_KEY_FOR", vllm.address)
    app = page_of(server=vllm.address)
    ask(app)
    assert all(head["Authorization"] == "Bearer very-secret" for _, head in vllm.asked)
    shown = texts(app) + json.dumps(boards(app)) + json.dumps(app.query_params)
    assert "very-secret" not in shown


def behaving(how: str) -> dict[str, Page]:
    def endless(handler: Handler) -> None:
        handler.begin_stream()
        handler.wfile.write(b"data: {oh\n\n")

    return {
        "no models": {},
        "elsewhere": {
            "/v1/models": Page(status=302, headers={"Location": "http://203.0.113.9/models"})
        },
        "a key": {"/v1/models": Page(status=401)},
        "broken": {"/v1/models": MODELS, "/v1/completions": Page(behave=endless)},
        "failing": {
            "/v1/models": MODELS,
            "/v1/completions": Page(status=500, body=b'{"error": "![x](http://203.0.113.9/x)"}'),
        },
    }[how]


@pytest.mark.parametrize("how", ["no models", "elsewhere", "a key"])
def test_reports_an_invalid_server_in_one_line(how: str) -> None:
    with served(behaving(how)) as engine:
        app = page_of(server=engine.address)
    assert len(app.error) == 1
    assert app.button(key="server_ask").disabled


@pytest.mark.parametrize("how", ["broken", "failing"])
def test_reports_a_broken_answer_in_one_line(how: str) -> None:
    with served(behaving(how)) as engine:
        app = page_of(server=engine.address)
        assert app.error == []
        sound(app.button(key="server_ask").click().run())
        deadline = time.monotonic() + 10
        while not app.error:
            assert time.monotonic() < deadline
            sound(app.run())
    assert len(app.error) == 1
    assert "![" not in app.error[0].value  # as text, not as a picture
    assert not app.button(key="server_ask").disabled


def test_closing_the_tab_stops_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabs, "_GRACE", 0.05)
    with served({"/v1/models": MODELS, "/v1/completions": slow(0.05, pieces=1000)}) as engine:
        app = page_of(server=engine.address)
        sound(app.button(key="server_ask").click().run())
        until(app, "running")
        tabs.the_tabs().leave(app.session_state["tab"])
        run = app.session_state["history"].answers.current
        assert run.wait(5)
        assert run.trace.finish == "stopped"
        assert 0 < len(run.trace.rounds) < 1000
    (row,) = Library().find()
    assert row.id == run.saved_id


def test_refuses_invalid_addresses() -> None:
    for address in ("http://me:secret@127.0.0.1:1", "http://127.0.0.1:1", "::::", "ftp://x"):
        app = page_of(server=address)
        assert len(app.error) == 1, address
        assert "secret" not in app.error[0].value


def test_a_baseline_gives_a_speedup() -> None:
    fast = {"/v1/models": MODELS, "/v1/completions": slow(0.004)}
    alone = {"/v1/models": MODELS, "/v1/completions": slow(0.012)}
    with served(fast) as first, served(alone) as second:
        app = page_of(server=first.address)
        assert "No speedup" in texts(app)
        sound(app.text_input(key="baseline").input(second.address).run())
        assert app.button(key="server_time").disabled  # no answer yet
        ask(app)
        assert f"to {first.address} and {second.address} in turn" in texts(app)
        sound(app.button(key="server_time").click().run())
        job: Any = the_job_queue().newest(BASELINE_JOB)
        assert job.wait(30)
        sound(app.run())
    assert "times" in texts(app)
    assert f"Speculation ran at {first.address}, the target alone at {second.address}" in texts(app)
    (row,) = Library().find()  # saved again with its blocks
    kept = Library().open_any(row.id)
    assert isinstance(kept, ServerTrace)
    assert kept.baseline == job.blocks
    assert kept.baseline_address == second.address


def test_follows_the_counters(vllm: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    # The next reading is due after the test, so another one would come from a rerun.
    monkeypatch.setattr(counters_section, "CounterPoller", partial(CounterPoller, every=60.0))
    app = page_of(server=vllm.address, server_follow="true")
    (board,) = boards(app)
    assert board["live"]
    assert board["points"]["total"] >= 1
    assert [each["id"] for each in board["figures"]][:2] == ["tau", "rate"]
    assert len(board["alphas"]) == 5
    asked = [path for path, _ in vllm.asked].count("/metrics")
    for _ in range(5):
        sound(app.run())
    assert [path for path, _ in vllm.asked].count("/metrics") == asked


def test_reports_an_engine_without_metrics() -> None:
    with served({"/v1/models": MODELS}) as engine:
        app = page_of(server=engine.address, server_follow="true")
        assert "exposes no metrics" in texts(app)
        assert not app.toggle or all(each.key != "server_follow" for each in app.toggle)


LOG = """INFO 11-24 10:00:10 SpecDecoding metrics: Mean acceptance length: 3.00, Accepted \
throughput: 20.00 tokens/s, Drafted throughput: 50.00 tokens/s, Accepted: 200 tokens, Drafted: \
500 tokens, Per-position acceptance rate: 0.900, 0.600, 0.300, 0.150, 0.050, Avg \
Draft acceptance rate: 40.0%
"""


@pytest.mark.parametrize(
    ("name", "body", "points"),
    [
        ("metrics.txt", "vllm:spec_decode_num_drafts_total 10\n"
         "vllm:spec_decode_num_draft_tokens_total 50\n"
         "vllm:spec_decode_num_accepted_tokens_total 25\n", 1),
        ("engine.log", LOG + LOG.replace("10:00:10", "10:00:20"), 3),
    ],
)  # fmt: skip
def test_counters_from_a_file(name: str, body: str, points: int) -> None:
    app = page_of()
    sound(app.file_uploader(key="server_file").set_value((name, body.encode(), "text/plain")).run())
    (board,) = boards(app)
    assert (board["live"], board["points"]["total"]) == (False, points)


def test_refuses_a_file_without_counters() -> None:
    app = page_of()
    sound(
        app.file_uploader(key="server_file")
        .set_value(("x", b"\xff\x00![a](b)", "text/plain"))
        .run()
    )
    assert len(app.error) == 1
