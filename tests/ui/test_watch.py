"""Watch without a browser: the player's data, and the controls."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from specviz.figures.metrics import metrics
from specviz.record.limits import CONTROLS, LIMITS
from specviz.record.pairs import PairSpec
from specviz.record.trace import RunConfig
from specviz.store import Library, load_trace
from specviz.ui.widgets.run_controls import unsupported_settings
from specviz.worker.parent.pair_status import PairStatus
from tests.ui.paging import ROOT, opened, sent, sound, until_over, until_state

EMBEDDED = ROOT / "assets" / "pairs" / "tinystories"


def test_the_page_opens_with_the_recorded_run() -> None:
    data = sent(opened())
    trace = load_trace(ROOT / "assets" / "first_trace.json")
    assert (data["run"]["id"], data["run"]["state"]) == ("recorded", "recorded")
    assert len(data["rounds"]["items"]) == len(trace.rounds)
    assert data["prompt"] == list(trace.prompt.token_texts)
    shown = {each["id"]: each["value"] for each in data["summary"]["figures"]}
    assert shown["alpha-observed"] == metrics(trace).alpha_observed
    assert data["tour"] == "ask"


def test_the_controls_start_with_the_settings_of_the_recorded_run() -> None:
    app = opened()
    trace = load_trace(ROOT / "assets" / "first_trace.json")
    assert sent(app)["run"]["id"] == "recorded"
    assert app.text_area(key="prompt").value == trace.prompt.text
    for name in ("gamma", "temperature"):
        assert app.slider(key=name).value == pytest.approx(getattr(trace.config, name)), name


def test_a_link_sets_the_controls() -> None:
    app = opened(gamma="9", temperature="0.3", prompt="The red fox", tour="1")
    assert app.slider(key="gamma").value == 9
    assert app.slider(key="temperature").value == pytest.approx(0.3)
    assert app.text_area(key="prompt").value == "The red fox"
    assert sent(app)["tour"] == "force"


def test_an_empty_prompt_is_refused_in_one_line() -> None:
    app = opened()
    app.text_area(key="prompt").set_value(" ")
    sound(app.button(key="run").click().run())
    assert [each.value.partition(".")[0] for each in app.error] == ["The prompt is empty"]
    assert sent(app)["run"]["state"] == "recorded"


def test_choosing_a_preset_fills_the_prompt() -> None:
    app = opened()
    first = app.text_area(key="prompt").value
    sound(app.selectbox(key="preset").select_index(7).run())
    assert app.text_area(key="prompt").value != first
    assert str(app.selectbox(key="preset").value).startswith("dialogue · ")


def test_editing_the_text_selects_custom_prompt() -> None:
    app = opened()
    sound(app.text_area(key="prompt").set_value("My own words").run())
    assert app.selectbox(key="preset").value == "custom prompt"


def test_a_preset_is_in_the_link() -> None:
    app = opened()
    german = "off-domain · German"
    sound(app.selectbox(key="preset").set_value(german).run())
    assert app.query_params["preset"] == german
    linked = opened(preset=german)
    assert linked.text_area(key="prompt").value == app.text_area(key="prompt").value
    sound(app.text_area(key="prompt").set_value("Other words").run())
    assert "preset" not in app.query_params
    assert opened(preset="no such one").selectbox(key="preset").index == 0


def test_the_prompt_is_restored_after_another_page() -> None:
    app = opened()
    sound(app.text_area(key="prompt").set_value("My own words").run())
    sound(app.switch_page("pages/speed.py").run())
    sound(app.switch_page("pages/watch.py").run())
    assert app.text_area(key="prompt").value == "My own words"
    assert app.selectbox(key="preset").value == "custom prompt"


CHAT_PAIR = PairStatus(state="ready", spec=PairSpec(target="with/chat"), has_chat=True)


def test_the_chat_toggle_depends_on_the_pair_of_this_tab(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The worker has one pair, which another tab may have loaded."""
    there: list[PairStatus] = [CHAT_PAIR]
    monkeypatch.setattr("specviz.worker.parent.client.Worker.status", lambda _: there[-1])
    app = opened()
    assert "chat" not in [each.key for each in app.toggle]
    there.append(replace(CHAT_PAIR, spec=PairSpec()))
    assert sound(app.run()).toggle(key="chat").value is True  # on by default
    sound(app.toggle(key="chat").set_value(False).run())
    there.append(PairStatus(state="ready", spec=PairSpec(target="without/chat")))
    sound(app.run())
    assert app.toggle(key="chat").value is False
    assert not app.session_state["history"].runs[-1].config.chat


def test_the_link_has_the_settings_and_on_request_the_prompt() -> None:
    app = opened(gamma="9", tour="1", prompt="The red fox & I")
    (link,) = [each.value for each in app.code]
    assert "gamma=9" in link
    assert "prompt" not in link
    assert "tour" not in link
    sound(app.toggle(key="share_prompt").set_value(True).run())
    (link,) = [each.value for each in app.code]
    assert link.endswith("prompt=The%20red%20fox%20%26%20I")


def test_epsilon_and_the_residual_belong_to_the_lossy_rule() -> None:
    app = opened(rule="over-accept", live="false")
    assert app.selectbox(key="residual").value == "leftover"
    sound(app.slider(key="epsilon").set_value(0.25).run())
    sound(app.button(key="run").click().run())
    config = app.session_state["history"].runs[-1].config
    assert (config.rule, config.epsilon, config.residual) == ("over-accept", 0.25, "leftover")
    sound(app.selectbox(key="rule").set_value("lossless").run())
    assert "epsilon" not in [each.key for each in app.slider]


def test_charts_show_the_chosen_settings_before_any_run() -> None:
    app = opened(gamma="9", live="false")
    charts = sent(app)["charts"]["throughput"]
    assert charts["chosen"] == {"gamma": 9, "rate": charts["forecast"][8]}
    assert not charts["stale"]
    sound(app.slider(key="gamma").set_value(3).run())
    charts = sent(app)["charts"]["throughput"]
    assert charts["chosen"] == {"gamma": 3, "rate": charts["forecast"][2]}
    for kind, key, value in (
        ("slider", "temperature", 0.3),
        ("selectbox", "drafter", "prompt-lookup"),
        ("selectbox", "rule", "over-accept"),
        ("selectbox", "preset", "off-domain · German"),
    ):
        before = getattr(app, kind)(key=key).value
        sound(getattr(app, kind)(key=key).set_value(value).run())
        assert sent(app)["charts"]["throughput"]["stale"], key
        sound(getattr(app, kind)(key=key).set_value(before).run())
        assert not sent(app)["charts"]["throughput"]["stale"], key
    assert not app.session_state["history"].runs


def test_an_invalid_link_gives_the_defaults() -> None:
    charts = sent(opened(gamma="900", temperature="hot"))["charts"]["throughput"]
    assert charts["chosen"]["gamma"] == 5


def test_nothing_runs_without_a_request() -> None:
    app = opened()
    assert not app.session_state["history"].runs


def test_a_real_run_of_the_embedded_pair() -> None:
    app = opened()
    app.slider(key="gamma").set_value(3)
    app.slider(key="length").set_value(24)
    sound(app.button(key="run").click().run())
    data = until_over(app)
    run = app.session_state["history"].current
    assert run.trace is not None
    assert (run.trace.config.gamma, run.trace.config.max_new_tokens) == (3, 24)
    assert (data["run"]["state"], data["run"]["id"]) == ("done", run.id)
    assert data["rounds"]["total"] == len(run.trace.rounds)
    assert data["lanes"] is not None
    assert len(data["lanes"]["target"]) == len(run.trace.token_ids)
    assert [point["gamma"] for point in data["charts"]["throughput"]["points"]] == [3]
    assert kept_within(run.id, seconds=10)
    # Another setting, another run; the first run's point stays, although it has few rounds.
    sound(app.slider(key="gamma").set_value(8).run())
    points = until_over(app)["charts"]["throughput"]["points"]
    assert [point["gamma"] for point in points] == [3, 8]
    runs = app.session_state["history"].shown_runs()
    assert [each["few"] for each in points] == [run.figures.num_whole_rounds < 10 for run in runs]
    assert points[1]["few"]


def kept_within(run_id: str, seconds: float) -> bool:
    """Return whether the library has the run soon after it ends."""
    deadline = time.monotonic() + seconds
    while all(row.id != run_id for row in Library().find()):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_a_changed_setting_starts_a_run() -> None:
    app = opened()
    sound(app.slider(key="gamma").set_value(2).run())
    assert [run.config.gamma for run in app.session_state["history"].runs] == [2]
    sound(app.toggle(key="live").set_value(False).run())
    sound(app.slider(key="gamma").set_value(4).run())
    assert [run.config.gamma for run in app.session_state["history"].runs] == [2]


def test_a_failed_run_shows_its_error_and_keeps_the_player() -> None:
    app = opened()
    app.text_area(key="prompt").set_value("word " * 3000)
    sound(app.button(key="run").click().run())
    data = until_state(app, "failed")
    assert data["run"]["id"] == "recorded"
    assert not data["run"]["waiting"]
    assert data["summary"]["sentence"].endswith("The player shows the recorded run.")
    assert "2048" in data["run"]["detail"] or "2,048" in data["run"]["detail"]
    assert data["run"]["remedy"]


def test_the_embedded_pair_is_installed() -> None:
    for model in ("draft", "target"):
        assert (EMBEDDED / model / "model.safetensors").is_file()


def test_unsupported_settings_are_listed() -> None:
    assert unsupported_settings(RunConfig(top_k=LIMITS["top_k"].whole_ends[1])) == ()
    assert 17 not in CONTROLS["gamma"]
    assert unsupported_settings(RunConfig(gamma=17, max_new_tokens=7)) == ("gamma", "length")
