"""The bench on a GPU, run on a CPU with small bodies: figures match the measurements."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from specviz.bench import compiled_target, gpu_bench, lanes
from specviz.bench.gpu_bench import run_gpu_bench
from specviz.bench.gpu_lanes import PLAIN_COMPARISONS, SHARES, SPECULATIVE_COMPARISONS
from specviz.bench.gpu_plan import Bodies, GpuPlan
from specviz.bench.gpu_texts import texts_of
from specviz.bench.rivals import RivalRun
from specviz.bench.timing import TimedLanes
from specviz.cli.gpu_bench import render_gpu_bench
from specviz.cli.report import to_json
from specviz.cli.terminal_text import Painter
from specviz.engine import load_pair
from specviz.engine.model.pair import Pair
from specviz.errors import DeviceError
from specviz.record.pairs import PairSpec

pytestmark = pytest.mark.thorough

SMALL, HUGE = Bodies(draft="none", target="10M"), Bodies(draft="none", target="100B")
CONTEXTS, GAMMA, TOKENS = (32, 64), 2, 24
PLAIN = {each.name for each in PLAIN_COMPARISONS}
SPECULATIVE = {each.name for each in SPECULATIVE_COMPARISONS}
OF_A_RUN = {
    "speedup_observed", "speedup_accounted", "accounting", "alpha", "tau", "c", "v", "bytes_ratio",
    "c_over_bytes", "share_draft_step", "share_verification", "free_gamma",
}  # fmt: skip
PLAN = GpuPlan(
    bodies=(HUGE, SMALL),
    contexts=CONTEXTS,
    gammas=(GAMMA,),
    repeats=1,
    num_tokens=TOKENS,
    prompts=1,
    thresholds=(0.0,),
    accounting_seconds=0.1,
    costs_seconds=2.0,
    backend="eager",
)


def load(bodies: Bodies) -> Pair:
    if bodies == HUGE:
        raise DeviceError("It does not fit.", remedy="Choose a smaller one.")
    return load_pair(
        PairSpec(
            device="cpu", step="graphed", threads=1,
            target_body=bodies.target, draft_body=bodies.draft,
        )
    )  # fmt: skip


@pytest.fixture(scope="module")
def messages() -> list[str]:
    return []


@pytest.fixture(scope="module")
def small() -> Pair:
    return load(SMALL)


@pytest.fixture(scope="module")
def result(small: Pair, messages: list[str]) -> dict[str, Any]:
    return run_gpu_bench(lambda each: small if each == SMALL else load(each), PLAN, messages.append)


def value(result: dict[str, Any], name: str, context: int) -> float:
    (found,) = (
        each["value"]
        for each in result["figures"]
        if each["name"] == name and each["context"] == context
    )
    return found


def test_every_figure_has_its_place(result: dict[str, Any]) -> None:
    places = {(each["name"], each["context"], each["gamma"]) for each in result["figures"]}
    alone = PLAIN | set(SHARES.values()) | {"compile_seconds"}
    assert places == {
        ("bandwidth", None, None),
        *((name, context, None) for context in CONTEXTS for name in alone),
        *((name, context, GAMMA) for context in CONTEXTS for name in SPECULATIVE | OF_A_RUN),
    }
    for each in result["figures"]:
        assert each["bodies"] == "none/10M"
        assert math.isfinite(each["value"]), each
        assert each["value"] > 0 or each["name"] == "free_gamma", each


def test_all_lanes_write_the_same_text(result: dict[str, Any]) -> None:
    assert result["divergences"] == []
    lanes_of_one = [row["lane"] for row in result["rows"] if row["context"] == CONTEXTS[0]]
    assert lanes_of_one == [
        "target alone, graphed",
        "speculative, full record, graphed, γ 2",
        "speculative, no record, graphed, γ 2",
        "target alone, eager",
        "speculative, full record, eager, γ 2",
        "target alone, compiled",
        "transformers generate",
        "transformers assisted, γ 2, threshold 0",
        "transformers assisted, best: γ 2, threshold 0",
    ]


def test_ratios_and_shares_match_the_rows(result: dict[str, Any]) -> None:
    bandwidth = result["figures"][0]["value"]
    for context in CONTEXTS:
        rows = {row["lane"]: row for row in result["rows"] if row["context"] == context}
        seconds = {name: row["seconds"] for name, row in rows.items()}
        plain, record = "target alone, graphed", "speculative, full record, graphed, γ 2"
        for name, over, under in (
            ("plain_vs_compiled", "target alone, compiled", plain),
            ("plain_vs_hf_generate", "transformers generate", plain),
            ("plain_graphed_vs_eager", "target alone, eager", plain),
            ("speculative_vs_plain", plain, record),
            ("record_cost", "speculative, no record, graphed, γ 2", record),
            ("speculative_graphed_vs_eager", "speculative, full record, eager, γ 2", record),
            (
                "speculative_vs_hf_assisted_same_gamma",
                "transformers assisted, γ 2, threshold 0",
                record,
            ),
        ):
            ratio = value(result, name, context)
            assert ratio == pytest.approx(seconds[over] / seconds[under]), name
        body = result["pairs"]["none/10M"]["target"]["body"]
        cache = 2 * body["shape"]["layers"] * body["shape"]["width"] * 4  # of a token, in bytes
        read = body["step_bytes"] + cache * (context + TOKENS / 2)
        share = read * TOKENS / seconds[plain] / bandwidth
        assert rows[plain]["share_of_bandwidth"] == pytest.approx(share, rel=1e-3)
        assert value(result, "share_plain", context) == rows[plain]["share_of_bandwidth"]
        assert rows[record]["share_of_bandwidth"] is None


def test_accounting_is_observed_over_accounted(result: dict[str, Any]) -> None:
    for context in CONTEXTS:
        observed, accounted, tau, c, v, ratio = (
            value(result, name, context)
            for name in ("speedup_observed", "speedup_accounted", "tau", "c", "v", "bytes_ratio")
        )
        assert accounted == pytest.approx(tau / (GAMMA * c + v))
        assert value(result, "accounting", context) == pytest.approx(observed / accounted)
        assert value(result, "c_over_bytes", context) == pytest.approx(c / ratio)


def test_skips_bodies_that_do_not_fit(result: dict[str, Any], messages: list[str]) -> None:
    assert result["notices"] == [
        "Left out: simulated sizes none/100B. It does not fit. Choose a smaller one."
    ]
    assert "simulated sizes none/100B" in messages


def test_no_goals_on_a_cpu(result: dict[str, Any]) -> None:
    assert {each["met"] for each in result["asked"]} == {None}
    measured = {each["name"] for each in result["figures"]}
    assert {each["asked"] for each in result["asked"]} - measured == {"first_visit_seconds"}
    assert result["settings"]["bodies"] == ["none/100B", "none/10M"]
    assert result["environment"]["device"] == "cpu"
    assert json.loads(to_json(result))["figures"] == result["figures"]


def test_terminal_shows_a_table_per_context(result: dict[str, Any]) -> None:
    text = render_gpu_bench(Painter(colour=False, width=80), result)
    assert text.count("not measured") == len(result["asked"])
    for context in CONTEXTS:
        assert (
            f"  none/10M, {context} tokens; memory bandwidth, measured by summing an array: "
            in text
        )
        assert f"{value(result, 'record_cost', context):.3f}" in text
    assert "first visit" not in text


def test_slow_lane_changes_its_ratio(small: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = lanes.generate

    def slowed(pair: Pair, ids: list[int], num_tokens: int) -> RivalRun:
        run = honest(pair, ids, num_tokens)
        return replace(run, seconds=run.seconds + 100.0)

    monkeypatch.setattr(lanes, "generate", slowed)
    once = replace(PLAN, bodies=(SMALL,), contexts=CONTEXTS[:1], costs_seconds=0.01)
    slow = run_gpu_bench(lambda _: small, once, lambda _: None)
    assert value(slow, "plain_vs_hf_generate", CONTEXTS[0]) > 20
    assert value(slow, "share_hf_generate", CONTEXTS[0]) < 0.01
    assert value(slow, "plain_vs_compiled", CONTEXTS[0]) < 20


def test_ratios_use_lanes_of_the_same_gamma() -> None:
    seconds = {
        "plain": 8.0, "hf": 4.0, "compiled": 2.0, "eager_plain": 16.0, "hf_best": 3.0,
        "record 3": 1.0, "bare 3": 0.5, "hf_fixed 3": 6.0, "eager_record 3": 7.0,
        "record 13": 2.0, "bare 13": 1.8, "hf_fixed 13": 10.0, "eager_record 13": 4.0,
    }  # fmt: skip
    timed = TimedLanes(
        names={}, texts=(), seconds={k: [v] for k, v in seconds.items()}, parted=(), notices=()
    )
    found = {(each.name, each.gamma): each.value for each in gpu_bench._ratios(timed, (3, 13))}
    assert found == {
        ("plain_vs_compiled", None): 0.25,
        ("plain_vs_hf_generate", None): 0.5,
        ("plain_graphed_vs_eager", None): 2.0,
        ("speculative_vs_plain", 3): 8.0,
        ("speculative_vs_hf_assisted_same_gamma", 3): 6.0,
        ("speculative_vs_hf_assisted_best", 3): 3.0,
        ("speculative_graphed_vs_eager", 3): 7.0,
        ("record_cost", 3): 0.5,
        ("speculative_vs_plain", 13): 4.0,
        ("speculative_vs_hf_assisted_same_gamma", 13): 5.0,
        ("speculative_vs_hf_assisted_best", 13): 1.5,
        ("speculative_graphed_vs_eager", 13): 2.0,
        ("record_cost", 13): 0.9,
    }


def test_measures_the_rest_without_a_compiled_target(
    small: Pair, library_pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = gpu_bench._Found()
    assert gpu_bench._compiled(library_pair, 8, PLAN, found, lambda _: None) is None

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no compiler")

    monkeypatch.setattr(compiled_target.CompiledTarget, "write", broken)
    assert gpu_bench._compiled(small, 8, PLAN, found, lambda _: None) is None
    assert found.notices == [
        "No compiled target for comparison: its model family is not supported by specviz's own "
        "(lean) step.",
        "No compiled target for comparison: compiling failed (RuntimeError).",
    ]


@pytest.mark.parametrize("context", [1, 5, 300, 4096])
def test_prompts_have_the_requested_length(small: Pair, context: int) -> None:
    texts = texts_of(small, context, 2, TOKENS)
    whole = texts_of(small, 5000, 2, TOKENS)
    assert [text.kind for text in texts] == [text.kind for text in whole]
    for text, longest in zip(texts, whole, strict=True):
        assert len(text.ids) == context
        assert text.num_tokens == TOKENS
        assert text.ids[-5:] == longest.ids[-min(5, context) :]
