"""The bench on a tiny pair, with fewer prompts and settings: every figure, all lanes checked."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from specviz.bench import bench
from specviz.bench.divergence import Divergence
from specviz.bench.rivals import Assistance, RivalRun
from specviz.cli.report import to_json
from specviz.engine import decode_plainly
from specviz.engine.model.chat import encode_prompt
from specviz.engine.model.pair import Pair
from specviz.errors import PairError
from specviz.record.prompts import Preset, read_presets
from specviz.record.trace import RunConfig

RATIOS = {
    "vs_hf_assisted_same_gamma",
    "vs_hf_assisted_best",
    "vs_hf_assisted_defaults",
    "plain_vs_hf_generate",
    "record_cost",
    "record_cost_large_vocabulary",
    "accounting",
    "forecast_error",
}
GRID = (Assistance(gamma=3, threshold=0.0), Assistance(gamma=5, threshold=0.4))


def few_presets() -> tuple[Preset, ...]:
    presets = read_presets()
    stories = [preset for preset in presets if preset.kind == "story"]
    lists = [preset for preset in presets if preset.kind == "list"]
    return (*stories[:3], *lists[:2])


@pytest.fixture(scope="module")
def small() -> Iterator[None]:
    """Fewer prompts and a smaller grid; everything else is the real bench."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("bench.bench", "bench.bench_figures", "measure.forecast"):
            patch.setattr(f"specviz.{module}.read_presets", few_presets)
        patch.setattr(bench, "_GRID", GRID)
        yield


@pytest.fixture(scope="module")
def said() -> list[str]:
    return []


@pytest.fixture(scope="module")
def result(pair: Pair, small: None, said: list[str]) -> dict[str, Any]:
    return bench.run_bench(pair, repeats=1, quick=True, say=said.append)


def test_every_ratio_is_there_and_is_a_number(result: dict[str, Any]) -> None:
    assert set(result["ratios"]) == RATIOS
    for name, value in result["ratios"].items():
        assert isinstance(value, float), name
        assert math.isfinite(value), name
        assert value > 0, name


def test_every_lane_was_timed(result: dict[str, Any]) -> None:
    names = [row["lane"] for row in result["rows"]]
    assert len(set(names)) == len(names) == 7
    for row in result["rows"]:
        assert row["seconds"] > 0
        assert row["tokens_per_second"] == pytest.approx(2 * 48 / row["seconds"])


def test_ratios_are_those_of_the_rows(result: dict[str, Any]) -> None:
    seconds = {row["lane"]: row["seconds"] for row in result["rows"]}
    ours, ratios = seconds["speculative, full record"], result["ratios"]
    fixed = seconds["transformers assisted, γ 5, threshold 0"]
    plain = seconds["transformers generate"] / seconds["plain"]
    assert ratios["vs_hf_assisted_same_gamma"] == pytest.approx(fixed / ours)
    assert ratios["plain_vs_hf_generate"] == pytest.approx(plain)
    assert ratios["record_cost"] == pytest.approx(seconds["speculative, no record"] / ours)


def test_the_figures_say_what_was_measured(result: dict[str, Any], said: list[str]) -> None:
    figures = result["figures"]
    assert figures["best_assistance"] in {str(each) for each in GRID}
    assert set(figures["alpha_by_kind"]) == {"story", "list"}
    assert all(0 < alpha < 1 for alpha in figures["alpha_by_kind"].values())
    assert 1 <= figures["story_gamma"] <= 12
    assert min(figures["story_speedup"], figures["c"], figures["v"]) > 0
    assert result["settings"] == {"gamma": 5, "max_new_tokens": 48, "repeats": 1}
    assert result["environment"]["threads"] == 1
    assert result["divergences"] == []
    assert json.loads(to_json(result))["ratios"] == result["ratios"]
    assert "interleaved repeat 1 of 1" in said


def interleave(pair: Pair) -> list[Divergence]:
    """All lanes once on one prompt."""
    config = RunConfig(gamma=5, temperature=0.0, max_new_tokens=48, ignore_eos=True)
    lanes = bench._lanes(pair, config, GRID[0])
    return bench._interleave(pair, lanes, few_presets()[:1], 1, lambda _line: None)


def in_half(pair: Pair) -> Pair:
    """A pair that claims half precision but works as before."""
    return replace(pair, environment=replace(pair.environment, dtype="bfloat16"))


def test_a_lane_that_writes_other_tokens_is_refused_or_told(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = bench.generate

    def altered(pair: Pair, ids: list[int], num_tokens: int) -> RivalRun:
        run = honest(pair, ids, num_tokens)
        return replace(run, token_ids=(*run.token_ids[:-1], run.token_ids[-1] + 1))

    monkeypatch.setattr(bench, "generate", altered)
    said = "'transformers generate' diverged from plain decoding at token 48 of the story"
    with pytest.raises(PairError, match=said):
        interleave(pair)
    (parted,) = interleave(in_half(pair))
    assert (parted.lane, parted.kind, parted.position) == ("transformers generate", "story", 47)
    assert parted.margin == pytest.approx(margin_at(pair, few_presets()[0].text, 47), abs=1e-4)


def margin_at(pair: Pair, text: str, position: int) -> float:
    """Between the target's two best logits after so many tokens of plain decoding."""
    ids = encode_prompt(pair, text, chat=False)
    settings = RunConfig(temperature=0.0, max_new_tokens=position, ignore_eos=True)
    with torch.inference_mode():
        known = torch.tensor([ids + list(decode_plainly(pair, ids, settings))])
        best = pair.target(known).logits[0, -1].topk(2).values
    return float(best[0] - best[1])


def test_a_fixed_gamma_with_other_passes_is_refused_where_words_are_exact(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "_FIXED", Assistance(gamma=2, threshold=0.0))
    with pytest.raises(PairError, match=r"this engine made \d+ target passes"):
        interleave(pair)
    assert interleave(in_half(pair)) == []
