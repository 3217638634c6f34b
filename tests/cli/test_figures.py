"""The table of figures: known figures in their column, unknown ones with a reason."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from specviz.cli.figures import render_figures
from specviz.cli.show import print_report
from specviz.cli.terminal_text import Painter, display_width
from specviz.figures.metrics import metrics
from specviz.figures.speedup_words import speedup_sentence
from specviz.record.trace import Forecast, RunConfig, Trace
from tests.traces import Passes, make_costs, make_prompt, make_trace, timed

SPELT = ["aaa", "aar", "rdd", "aaa"]  # 12 drafted, 10 tested, 8 accepted; 12 emitted


def measured_trace() -> Trace:
    """Time both lanes twice with equal results: the target in 0.12 s, the run in 0.04 s."""
    trace = make_trace(SPELT, step_costs=make_costs())
    passes = Passes(
        target=[[0.01] * len(trace.token_ids)] * 2, speculative=[[0.01] * len(SPELT)] * 2
    )
    return timed(trace, passes)


def test_json_has_the_waterfall(capsys: pytest.CaptureFixture[str]) -> None:
    """The changes add up to the observed speedup; without step costs there is no waterfall."""
    print_report(measured_trace())
    steps = json.loads(capsys.readouterr().out)["waterfall"]["steps"]
    assert (steps[0]["name"], steps[-1]["name"]) == ("textbook", "observed")
    total = steps[0]["speedup"] + sum(each["change"] for each in steps)
    assert total == pytest.approx(steps[-1]["speedup"], abs=1e-9)
    assert total == pytest.approx(3.0)
    print_report(replace(measured_trace(), step_costs=None))
    assert json.loads(capsys.readouterr().out)["waterfall"] is None


def drawn(trace: Trace, *, width: int = 80, colour: bool = False) -> str:
    figures = metrics(trace)
    sentence = speedup_sentence(figures, trace)
    return render_figures(Painter(colour=colour, width=width), trace, figures, sentence)


def row(text: str, label: str) -> str:
    found = [line for line in text.split("\n") if line.startswith(f"    {label}  ")]
    assert len(found) == 1, (label, found)
    return " ".join(found[0].split())


def test_the_verdict_comes_first_and_bold() -> None:
    trace = measured_trace()
    sentence = speedup_sentence(metrics(trace), trace)
    first, _, _ = drawn(trace, colour=True).partition("\n\n")
    assert first.startswith("  \x1b[1m")
    bare = first.replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert " ".join(bare.split()) == sentence


@pytest.mark.parametrize(
    "expected",
    [
        "speedup, observed 3.00 × 3.00–3.00, 1 timed slice",
        "tokens/s 300.0",
        "tokens/s, target alone 100.0",
        "τ, tokens per round 3.00 of 4 possible",
        "α observed 0.800 too few rounds for an interval",
        "draft acceptance rate 0.667 8 of 12 drafted candidates were accepted",
        "c, a draft step 0.100 in target steps",
        "v, a verification 1.30 for 4 tokens, in target steps",
        "speedup, accounted 1.88 × explained by step costs",
        "speedup, limit 2.50 × with every candidate accepted",
        "time to first token 32.0 ms target alone 30.0 ms",
        "α at position 1 0.750 ━━━━━━━━━━━━━━━",
    ],
)
def test_prints_a_known_figure(expected: str) -> None:
    lines = [" ".join(line.split()) for line in drawn(measured_trace()).split("\n")]
    assert expected in lines


@pytest.mark.parametrize(
    ("label", "reason"),
    [
        ("speedup, observed", "the target alone was not measured"),
        ("speedup, end to end", "the target alone was not measured"),
        ("tokens/s, target alone", "the target alone was not measured"),
        ("speedup, accounted", "no step costs in this trace"),
        ("speedup, ideal", "no step costs in this trace"),
        ("c, a draft step", "no step costs in this trace"),
        ("v, a verification", "no step costs in this trace"),
    ],
)
def test_names_what_was_not_measured(label: str, reason: str) -> None:
    assert row(drawn(make_trace(SPELT)), label) == f"{label} – {reason}"


@pytest.mark.parametrize(
    ("label", "reason"),
    [
        ("tokens/s", "no whole round"),
        ("α observed", "no candidate was tested"),
        ("α expected", "no candidate was tested"),
        ("draft acceptance rate", "nothing was drafted"),
        ("τ, tokens per round", "no whole round"),
        ("α at position 1", "never tested"),
        ("time to first token", "no round"),
        ("drafting wasted", "no whole round"),
    ],
)
def test_renders_a_run_without_rounds(label: str, reason: str) -> None:
    assert row(drawn(make_trace([])), label) == f"{label} – {reason}"


@pytest.mark.parametrize(
    ("config", "kind", "reason"),
    [
        (RunConfig(), "story", "step costs or acceptance were unknown"),
        (RunConfig(temperature=0.0), None, "needs a preset prompt"),
        (RunConfig(rule="over-accept"), "story", "no formula for this method"),
        (RunConfig(drafter="prompt-lookup"), "story", "needs a draft model"),
    ],
)
def test_gives_the_reason_for_a_missing_forecast(
    config: RunConfig, kind: str | None, reason: str
) -> None:
    trace = make_trace(SPELT, config=config, prompt=replace(make_prompt(), kind=kind))
    assert row(drawn(trace), "speedup, forecast") == f"speedup, forecast – {reason}"


def test_a_forecast_names_its_source() -> None:
    made = Forecast(speedup=1.234, tau=2.0, kind="story", num_texts=4)
    trace = make_trace(SPELT, forecast=made)
    expected = "speedup, forecast 1.23 × before the run, from 4 story texts"
    assert row(drawn(trace), "speedup, forecast") == expected


def test_intervals_are_labelled() -> None:
    text = drawn(make_trace(["aar", "aaa"] * 10))
    assert row(text, "α observed").endswith(", this prompt")
    assert row(text, "α expected").endswith(", sampling noise")
    greedy = drawn(make_trace(SPELT, config=RunConfig(gamma=3, temperature=0.0)))
    assert row(greedy, "α expected").endswith("no sampling noise at temperature 0")


def test_many_positions_are_cut_short_and_counted() -> None:
    text = drawn(make_trace(["a" * 20], config=RunConfig(gamma=20)))
    assert row(text, "α at position 8")
    assert "α at position 9" not in text
    assert "and 12 more with --json" in text


def test_a_lossy_run_is_marked_below_its_verdict() -> None:
    lossy = make_trace(SPELT, config=RunConfig(gamma=3, rule="over-accept", epsilon=0.25))
    assert drawn(lossy).split("\n")[1] == "  LOSSY: over-acceptance, ε = 0.25"
    assert "LOSSY" not in drawn(make_trace(SPELT))


def test_machine_end_and_notices_come_last() -> None:
    trace = make_trace(["aa", "a"], notices=("Beware\x1b[2J of this.",), finish="stopped")
    assert drawn(trace).split("\n")[-4:] == [
        "  pair toy · cpu · float32 · 1 thread · step lean",
        "  5 tokens in 2 rounds, stopped by hand",
        "",
        "  note: Beware\\x1b[2J of this.",
    ]


def test_warns_about_noisy_step_costs_with_a_remedy() -> None:
    costs = make_costs()
    steady, noisy = (
        make_trace(SPELT, step_costs=replace(costs, drift=drift)) for drift in (0.04, 0.23)
    )
    message = " ".join(drawn(noisy).split())
    warning = "Step costs were measured on a busy machine: the time of the same steps drifted by"
    assert f"{warning} 23.0 %." in message
    assert "every timed run on an idle machine makes them more precise" in message
    assert "busy machine" not in drawn(steady)


def test_warns_about_incomplete_step_costs_with_a_remedy() -> None:
    short = replace(make_costs(), samples=2, interpolated=(3, 4))
    message = " ".join(drawn(make_trace(SPELT, step_costs=short)).split())
    assert "Some step costs come from 2 samples only." in message
    assert "Verifying 3, 4 tokens was not timed" in message
    enough = replace(make_costs(), samples=6)
    assert "samples only" not in drawn(make_trace(SPELT, step_costs=enough))


@pytest.mark.parametrize("width", [64, 80, 110])
def test_the_table_keeps_its_width_and_columns(width: int) -> None:
    notice = "word " * 60
    lines = drawn(replace(measured_trace(), notices=(notice,)), width=width).split("\n")
    assert all(display_width(line) <= width for line in lines)
    points = {line.index(".") for line in lines if line.startswith("    α")}
    assert points == {len("    ") + 23 + 7 - 4}


def test_prints_no_escape_code_without_colour() -> None:
    assert "\x1b" not in drawn(measured_trace())
