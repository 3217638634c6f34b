"""The bench on a tiny pair with fewer prompts and settings: all figures and lanes."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from specviz.bench import bench, lanes
from specviz.bench.lanes import own_lanes, transformers_lanes
from specviz.bench.rivals import Assistance, RivalRun
from specviz.bench.timing import TimedLanes, time_lanes
from specviz.cli.report import to_json
from specviz.engine import decode_plainly
from specviz.engine.model.chat import encode_prompt
from specviz.engine.model.pair import Pair
from specviz.errors import ConfigError, PairError
from specviz.record.prompts import Preset, read_presets
from specviz.record.trace import RunConfig

OF_EVERY_BODY = (
    "speculative_vs_plain",
    "record_cost",
    "speculative_vs_llamacpp",
    "plain_vs_llamacpp",
    "speculative_vs_llamacpp_speculative",
)
RATIOS = {
    "vs_hf_assisted_same_gamma",
    "vs_hf_assisted_best",
    "vs_hf_assisted_defaults",
    "plain_vs_hf_generate",
    "record_cost_large_vocabulary",
    "accounting",
    "forecast_error",
    *OF_EVERY_BODY,
    *(f"body_{name}" for name in OF_EVERY_BODY),
}
BODY = "10M"
FIXED = Assistance(gamma=5, threshold=0.0)
SHORT = 16  # tokens of a text where no time matters
GRID = (Assistance(gamma=3, threshold=0.0), Assistance(gamma=5, threshold=0.4))


def few_presets() -> tuple[Preset, ...]:
    presets = read_presets()
    stories = [preset for preset in presets if preset.kind == "story"]
    lists = [preset for preset in presets if preset.kind == "list"]
    return (*stories[:2], *lists[:1])


@pytest.fixture(scope="module")
def small() -> Iterator[None]:
    """Use fewer prompts, a smaller grid and shorter timing in the real bench."""
    amount = bench._amount

    def half(repeats: int, *, quick: bool) -> Any:
        found = amount(repeats, quick=quick)
        assert (found.num_tokens, found.body_tokens) == (48, 32)
        return replace(found, num_tokens=32, body_tokens=24)

    with pytest.MonkeyPatch.context() as patch:
        for module in ("bench.bench", "bench.bench_figures", "measure.forecast"):
            patch.setattr(f"specviz.{module}.read_presets", few_presets)
        patch.setattr(bench, "_GRID", GRID)
        patch.setattr(bench, "_amount", half)
        patch.setattr("specviz.bench.bench_figures._FORECAST_GAMMAS", (2,))
        patch.setattr("specviz.bench.bench_figures._TIMING_SECONDS", 0.1)
        yield


@pytest.fixture(scope="module")
def messages() -> list[str]:
    return []


@pytest.fixture(scope="module")
def result(pair: Pair, small: None, messages: list[str]) -> dict[str, Any]:
    """The result without llama.cpp, even if it is installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench.llamacpp, "_PACKAGES", ("no_such_package",))
        return run(pair, messages)


def run(pair: Pair, messages: list[str]) -> dict[str, Any]:
    return bench.run_bench(lambda _: pair, body=BODY, repeats=1, quick=True, say=messages.append)


def test_every_ratio_is_a_number(result: dict[str, Any]) -> None:
    assert set(result["ratios"]) == RATIOS
    for name, value in result["ratios"].items():
        if "llamacpp" not in name:
            assert isinstance(value, float), name
            assert math.isfinite(value), name
            assert value > 0, name


def test_one_repeat_has_no_interval(result: dict[str, Any]) -> None:
    assert set(result["intervals"]) == RATIOS - {"accounting", "forecast_error"}
    assert set(result["intervals"].values()) == {None}


def test_llamacpp_ratios_are_null_without_it(result: dict[str, Any]) -> None:
    unknown = {name for name, value in result["ratios"].items() if value is None}
    assert unknown == {name for name in RATIOS if "llamacpp" in name}
    assert result["settings"]["llamacpp"] is None
    (notice,) = result["notices"]
    assert notice == "llama.cpp is not installed: make rivals"


def test_times_every_lane(result: dict[str, Any]) -> None:
    names = [(row["body"], row["lane"]) for row in result["rows"]]
    assert len(set(names)) == len(names) == 7 + 3
    for row in result["rows"]:
        assert row["seconds"] > 0
        tokens = 32 if row["body"] == "none" else 24
        assert row["tokens_per_second"] == pytest.approx(2 * tokens / row["seconds"])


def test_ratios_match_the_rows(result: dict[str, Any]) -> None:
    seconds = {(row["body"], row["lane"]): row["seconds"] for row in result["rows"]}
    ours, ratios = seconds["none", "speculative, full record"], result["ratios"]
    fixed = seconds["none", "transformers assisted, γ 5, threshold 0"]
    plain = seconds["none", "transformers generate"] / seconds["none", "plain"]
    cost = seconds[BODY, "speculative, no record"] / seconds[BODY, "speculative, full record"]
    assert ratios["vs_hf_assisted_same_gamma"] == pytest.approx(fixed / ours)
    assert ratios["plain_vs_hf_generate"] == pytest.approx(plain)
    assert ratios["record_cost"] == pytest.approx(seconds["none", "speculative, no record"] / ours)
    assert ratios["body_record_cost"] == pytest.approx(cost)


def test_reports_all_figures(result: dict[str, Any], messages: list[str]) -> None:
    figures = result["figures"]
    assert figures["best_assistance"] in {str(each) for each in GRID}
    assert set(figures["alpha_by_kind"]) == {"story", "list"}
    assert all(0 < alpha < 1 for alpha in figures["alpha_by_kind"].values())
    assert 1 <= figures["story_gamma"] <= 12
    assert min(figures["story_speedup"], figures["c"], figures["v"]) > 0
    assert result["settings"] == {
        "gamma": 5,
        "repeats": 1,
        "max_new_tokens": 32,
        "body": BODY,
        "max_new_tokens_with_body": 24,
        "llamacpp": None,
    }
    assert set(result["pairs"]) == {"none", BODY}
    assert result["environment"]["threads"] == 1
    assert result["divergences"] == []
    assert json.loads(to_json(result))["ratios"] == result["ratios"]
    assert "interleaved repeat 1 of 1" in messages


def test_notice_for_a_body_that_the_target_cannot_have(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(body: str) -> Pair:
        raise ConfigError("The target is larger.", remedy="Give a larger body.")

    amount = bench._amount(1, quick=True)
    assert bench._with_body(load, "none", amount, lambda _: None) == (None, ())
    part, notices = bench._with_body(load, BODY, amount, lambda _: None)
    assert part is None
    (notice,) = notices
    assert "10M" in notice
    assert "The target is larger." in notice


def interleave(pair: Pair) -> TimedLanes:
    """All lanes once on one prompt."""
    rivals = transformers_lanes(pair, fixed=FIXED, defaults=Assistance(), best=GRID[0])
    lanes = (*own_lanes(pair, bench._config(SHORT)), *rivals)
    texts = bench._texts(pair, few_presets()[:1], SHORT)
    return time_lanes(pair, lanes, texts, 1, lambda _: None)


def in_half(pair: Pair) -> Pair:
    """Return a pair that claims half precision but computes as before."""
    return replace(pair, environment=replace(pair.environment, dtype="bfloat16"))


def test_diverging_lane_fails_or_is_reported(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = lanes.generate

    def altered(pair: Pair, ids: list[int], num_tokens: int) -> RivalRun:
        run = honest(pair, ids, num_tokens)
        return replace(run, token_ids=(*run.token_ids[:-1], run.token_ids[-1] + 1))

    monkeypatch.setattr(lanes, "generate", altered)
    messages = f"'transformers generate' diverged from plain decoding at token {SHORT} of the story"
    with pytest.raises(PairError, match=messages):
        interleave(pair)
    timed = interleave(in_half(pair))
    (parted,) = timed.parted
    assert (parted.lane, parted.kind, parted.position) == (
        "transformers generate",
        "story",
        SHORT - 1,
    )
    assert parted.margin == pytest.approx(
        margin_at(pair, few_presets()[0].text, SHORT - 1), abs=1e-4
    )
    assert timed.texts[0].num_tokens == SHORT


def margin_at(pair: Pair, text: str, position: int) -> float:
    """Return the margin of the target's two best logits after some tokens of plain decoding."""
    ids = encode_prompt(pair, text, chat=False)
    settings = RunConfig(temperature=0.0, max_new_tokens=position, ignore_eos=True)
    with torch.inference_mode():
        known = torch.tensor([ids + list(decode_plainly(pair, ids, settings))])
        best = pair.target(known).logits[0, -1].topk(2).values
    return float(best[0] - best[1])


def test_fixed_gamma_with_other_passes_fails_in_float32(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "FIXED", Assistance(gamma=2, threshold=0.0))
    with pytest.raises(PairError, match=r"specviz made \d+ target passes"):
        interleave(pair)
    assert interleave(in_half(pair)).parted == ()
