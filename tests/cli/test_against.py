"""``--against``: what it compares, what it refuses, and the exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from specviz.cli import main
from specviz.cli.compare import INTERNAL_ERROR, plan_from
from specviz.cli.options import build_parser
from specviz.comparison import compare, comparison_to_json
from specviz.comparison.regression import RegressionLimit, check_regression
from specviz.errors import ConfigError
from tests.cli.fakes import FakeEngine
from tests.comparison.synthetic import runs_of

LANES = ["--lane", "gamma=2", "--lane", "gamma=8"]
Record = dict[str, Any]
Change = Callable[[Record], object]


def requested(*more: str, lanes: list[str] = LANES) -> Any:
    return build_parser().parse_args(["compare", *lanes, "--prompt", "x", "--repeats", "2", *more])


@pytest.fixture
def record() -> Record:
    """The JSON object of a saved comparison."""
    plan = plan_from(requested())
    return json.loads(json.dumps(comparison_to_json(compare(plan, runs_of(plan, lambda _: {})))))


@pytest.fixture
def save(tmp_path: Path) -> Callable[[object], str]:
    def save(content: object) -> str:
        path = tmp_path / "saved.json"
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text, encoding="utf-8")
        return str(path)

    return save


def allowed(*more: str, lanes: list[str] = LANES) -> RegressionLimit:
    options = requested(*more, lanes=lanes)
    made = RegressionLimit.of(options, plan_from(options))
    assert made is not None
    return made


@pytest.mark.parametrize("figure", ["speedup", "tokens_per_second"])
@pytest.mark.parametrize(("factor", "failed"), [(1.0, False), (1.04, False), (1.1, True)])
def test_a_lane_below_the_allowed_ratio_fails(
    record: Record, save: Callable[[object], str], figure: str, factor: float, failed: bool
) -> None:
    before = deepcopy(record)
    before["lanes"][0]["medians"][figure] *= factor
    more = ["--against-rate"] if figure == "tokens_per_second" else []
    file = save(before)
    checked = check_regression(record, allowed("--against", file, *more))
    assert checked.failed is failed
    row = checked.record["lanes"][0]
    assert (row["ratio"], row["below"]) == (pytest.approx(1 / factor), failed)
    assert checked.record["same_machine"] is True
    passing = check_regression(record, allowed("--against", file, *more, "--fail-below", "0.9"))
    assert (passing.failed, passing.record["fail_below"]) == (False, 0.9)


@pytest.mark.parametrize(
    ("high", "failed", "words"),
    [
        (1.0, True, "ratio 0.909 (0.909 to 0.909): below 0.95"),
        (1.2, False, "ratio 0.909 (0.758 to 1.091): too close to call at 0.95"),
    ],
)
def test_a_lane_fails_only_if_its_whole_interval_is_below(
    record: Record, save: Callable[[object], str], high: float, failed: bool, words: str
) -> None:
    """The saved comparison is exact; the new ratio has an interval of this factor."""
    before, now = deepcopy(record), deepcopy(record)
    before["lanes"][0]["medians"]["speedup"] *= 1.1
    now["lanes"][0]["intervals"]["speedup"] |= {"low": 1 / high, "high": high}
    checked = check_regression(now, allowed("--against", save(before)))
    assert checked.failed is failed
    assert words in checked.lines[0]


def test_reports_another_machine(record: Record, save: Callable[[object], str]) -> None:
    before = deepcopy(record)
    before["lanes"][1]["environment"]["cpu"] = "another"
    checked = check_regression(record, allowed("--against", save(before)))
    assert checked.record["same_machine"] is False
    assert "another machine" in checked.lines[-1]


def other_prompt(record: Record) -> None:
    record["prompts"][0]["prompt"] = "y"


def other_setting(name: str, value: object) -> Change:
    return lambda record: record["lanes"][0]["settings"].update({name: value})


def other_model(name: str, value: object) -> Change:
    return lambda record: record["lanes"][1]["pair"].update({name: value})


@pytest.mark.parametrize(
    ("change", "culprit"),
    [
        (other_prompt, "different prompts"),
        (other_setting("temperature", 0), "a different temperature"),
        (other_setting("max_new_tokens", 12), "a different max_new_tokens"),
        (other_setting("stop", ["END"]), "a different stop"),
        (other_model("draft", "d"), "a different draft"),
        (other_model("dtype", "bfloat16"), "a different dtype"),
        (lambda record: record["lanes"][0].update(settings=3), "a different kind of record"),
        (lambda record: record.update(prompts=7), "different prompts"),
    ],
)
def test_refuses_a_comparison_of_other_prompts_settings_or_models(
    engine: FakeEngine,
    record: Record,
    save: Callable[[object], str],
    change: Change,
    culprit: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    change(record)
    words = ["compare", *LANES, "--prompt", "x", "--repeats", "2", "--against", save(record)]
    assert main(words) == 2
    assert culprit in capsys.readouterr().err
    assert engine.requested == {}


def test_accepts_missing_newer_settings_and_fewer_repeats(
    record: Record, save: Callable[[object], str]
) -> None:
    for lane in record["lanes"]:
        del lane["settings"]["epsilon"]
    assert allowed("--against", save(record), "--repeats", "1").figure == "speedup"


HUGE = "9" * 400


@pytest.mark.parametrize(
    ("content", "culprit"),
    [
        ("", "is not a saved comparison"),
        ("[]", "is not a saved comparison"),
        ("[" * 100_000, "is not a saved comparison"),
        ('{"lanes": [1]}', "is not a saved comparison"),
        ('{"lanes": []}', "has no lane 'γ 2'"),
        ('{"lanes": [{"label": "γ 2", "medians": {"speedup": null}}]}', "has no speedup"),
        ('{"lanes": [{"label": "γ 2", "medians": {"speedup": -1}}]}', "has no speedup"),
        ('{"lanes": [{"label": "γ 2", "medians": {"speedup": NaN}}]}', "has no speedup"),
        (f'{{"lanes": [{{"label": "γ 2", "medians": {{"speedup": {HUGE}}}}}]}}', "has no speedup"),
        (f'{{"lanes": [{{"label": "γ 2", "medians": {{"speedup": {HUGE * 20}}}}}]}}', "a saved"),
    ],
)
def test_refuses_an_invalid_saved_comparison(
    save: Callable[[object], str], content: str, culprit: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        allowed("--against", save(content))
    assert culprit in str(caught.value)


@pytest.mark.parametrize("share", ["0", "-1", "nan", "inf", "11"])
def test_refuses_fail_below_out_of_range(save: Callable[[object], str], share: str) -> None:
    with pytest.raises(ConfigError, match="--fail-below is"):
        allowed("--against", save("{}"), "--fail-below", share)


def test_an_internal_error_exits_with_70_not_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def bug(*_arguments: object) -> None:
        raise ZeroDivisionError("an internal bug")

    monkeypatch.setattr("specviz.cli.compare.plan_from", bug)
    assert main(["compare", *LANES, "--prompt", "x"]) == INTERNAL_ERROR
    assert "an internal bug" in capsys.readouterr().err
