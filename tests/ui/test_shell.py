"""The dashboard opens without models, runs the embedded pair, and says in a line what failed."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from specviz.analysis import metrics, verdict_sentence
from specviz.cli.options import build_parser, config_from
from specviz.trace import RunConfig, Trace
from specviz.ui.runs import RunError, run_command, run_pair
from tests.test_houses import MODELS, loaded_by
from tests.traces import make_baseline, make_costs, make_trace

ROOT = Path(__file__).parent.parent.parent
EMBEDDED = ROOT / "assets" / "pairs" / "tinystories"
OPENINGS = ("app.py", "pages/watch.py")  # a cold server may run a page without the app
SPELT = ("aaa", "aar", "rdd", "aaa")  # 8 accepted of 10 tested; 12 tokens in 4 rounds


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECVIZ_HOME", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def opened(file: str = "app.py", trace: Trace | None = None) -> AppTest:
    app = AppTest.from_file(ROOT / file, default_timeout=120)
    if trace is not None:
        app.session_state["trace"] = trace
    return sound(app.run())


def sound(app: AppTest) -> AppTest:
    assert [each.message for each in app.exception] == []
    return app


def measured_trace() -> Trace:
    """Each lane twice: the target in 0.12 s, the run in 0.04 s."""
    blocks = make_baseline(target=[[0.01] * 12] * 2, speculative=[[0.01] * 4] * 2)
    return make_trace(SPELT, step_costs=make_costs(), baseline=blocks)


def figures_on(app: AppTest) -> dict[str, str]:
    return {each.label: str(each.value) for each in app.metric}


@pytest.mark.parametrize("file", OPENINGS)
def test_the_page_opens_and_waits_for_a_run(file: str) -> None:
    app = opened(file)
    assert [each.value for each in app.title] == ["Watch a pair think ahead"]
    assert len(app.info) == 1
    assert app.button(key="run").label == "Run"
    assert (len(app.error), len(app.metric)) == (0, 0)


def test_opening_the_page_loads_no_models() -> None:
    page = f"streamlit.testing.v1.AppTest.from_file({str(ROOT / 'app.py')!r}, default_timeout=60)"
    loaded = loaded_by(f"streamlit.testing.v1; assert {page}.run().title")
    assert not loaded & MODELS
    assert loaded >= {"streamlit", "specviz"}


@pytest.mark.parametrize("file", OPENINGS)
def test_a_run_that_is_refused_is_one_line(file: str) -> None:
    app = opened(file)
    app.text_area[0].set_value("")
    sound(app.button(key="run").click().run())
    assert [each.value for each in app.error] == [
        "The prompt is empty. Give at least one character."
    ]
    assert len(app.metric) == 0


def test_a_refused_run_takes_the_old_figures_away() -> None:
    app = opened(trace=measured_trace())
    app.text_area[0].set_value("")
    sound(app.button(key="run").click().run())
    assert len(app.error) == 1
    assert (len(app.metric), len(app.subheader)) == (0, 0)


@pytest.mark.parametrize("file", OPENINGS)
def test_a_trace_shows_its_verdict_figures_text_and_rounds(file: str) -> None:
    trace = measured_trace()
    app = opened(file, trace)
    assert [each.value for each in app.subheader] == [verdict_sentence(metrics(trace), trace)]
    assert figures_on(app) == {
        "Accepted, α": "0.80",
        "Tokens a round, τ": "3.00",
        "Speedup": "3.00 ×",
        "Tokens a second": "300",
    }
    assert app.text[0].value == (trace.prompt.text + trace.text).strip()
    assert app.dataframe[0].value["accepted"].tolist() == [3, 2, 0, 3]
    assert len(app.info) == 0


def test_what_was_not_measured_is_a_dash() -> None:
    assert figures_on(opened(trace=make_trace(SPELT)))["Speedup"] == "–"


def test_choosing_a_preset_fills_the_prompt() -> None:
    app = opened()
    first = app.text_area[0].value
    sound(app.selectbox(key="preset").select_index(7).run())
    assert app.text_area[0].value != first
    assert str(app.selectbox(key="preset").value).startswith("dialogue: ")


# The command line behind the page


@pytest.mark.parametrize(
    "config",
    [
        RunConfig(),
        RunConfig(
            gamma=3, temperature=0.1 + 0.2, top_k=7, top_p=0.9, max_new_tokens=9, seed=2**62,
            drafter="prompt-lookup", rule="over-accept", epsilon=0.125, residual="target",
            ignore_eos=True, chat=True, stop=("-x", "a b\n", "="),
        ),
    ],
    ids=["defaults", "everything else"],
)  # fmt: skip
def test_every_setting_reaches_the_command_line(config: RunConfig) -> None:
    arguments = run_command(config)
    options = build_parser().parse_args(arguments[arguments.index("run") :])
    assert config_from(options) == config


def test_a_run_that_fails_is_told_in_its_own_words() -> None:
    with pytest.raises(RunError) as caught:
        run_pair("", RunConfig())
    assert str(caught.value).strip() == "The prompt is empty. Give at least one character."


# The embedded pair itself


def test_the_embedded_pair_is_here() -> None:
    for model in ("draft", "target"):
        assert (EMBEDDED / model / "model.safetensors").is_file()


def test_a_real_run_of_the_embedded_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the dashboard may be started from anywhere
    config = RunConfig(gamma=4, max_new_tokens=24, top_k=50, seed=3, ignore_eos=True)
    prompt = "Zoë and Tom were sad.\n\nOne day\n"
    trace = run_pair(prompt, config)
    assert trace.config == config
    assert trace.prompt.text == prompt
    assert trace.pair.name == "tinystories"
    assert len(trace.token_ids) == 24
    assert trace.baseline is not None
    assert all(entry.insight for each in trace.rounds for entry in each.candidates)


def test_the_page_runs_the_embedded_pair() -> None:
    app = opened()
    app.slider(key="gamma").set_value(3)
    app.slider(key="temperature").set_value(0.0)
    sound(app.button(key="run").click().run())
    assert [each.value for each in app.error] == []
    trace: Trace = app.session_state["trace"]
    assert (trace.config.gamma, trace.config.temperature) == (3, 0.0)
    assert trace.prompt.kind == "story"
    figures = metrics(trace)
    assert figures.tau is not None
    assert figures_on(app)["Tokens a round, τ"] == f"{figures.tau:.2f}"
    assert [each.value for each in app.subheader] == [verdict_sentence(figures, trace)]
