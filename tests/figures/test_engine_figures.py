"""A run in the figures of serving engines, against values computed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings

from specviz.figures.engine_figures import EngineFigure, engine_figures
from specviz.figures.metrics import metrics
from specviz.record.trace import RunConfig, Trace
from tests.paper_trace import LOOKUP, close, paper_trace
from tests.trace_strategies import traces
from tests.traces import make_round, make_trace


def values(trace: Trace, engine: str) -> dict[str, Any]:
    return {each.name: each.value for each in engine_figures(trace) if each.engine == engine}


# Rounds "aar", "aaa", "rdd" and "ad", the last one cut: 11 drafted, 2 + 3 + 0 + 1 accepted,
# 3 + 4 + 1 + 1 tokens.
COUNTERS = {
    "spec_decode_num_drafts_total": 4,
    "spec_decode_num_draft_tokens_total": 11,
    "spec_decode_num_accepted_tokens_total": 6,
    "spec_decode_num_accepted_tokens_per_pos_total": (3, 2, 1),
}


def test_vllm() -> None:
    assert values(paper_trace(), "vLLM") == {
        "mean_acceptance_length": close(1 + 6 / 4),
        "draft_acceptance_rate": close(6 / 11),
        "acceptance_histogram": (1, 1, 1, 1),
        "num_spec_steps": 4,
        "num_accepted_draft_tokens": 6,
        "num_draft_tokens": 11,
        "Per-position acceptance rate": (0.75, 0.5, 0.25),
        **{f"vllm:{name}": value for name, value in COUNTERS.items()},
    }


def test_sglang() -> None:
    assert values(paper_trace(), "SGLang") == {
        "spec_accept_rate": close(6 / 12),  # as if the cut round had drafted three
        "spec_accept_length": close(9 / 4),
        "spec_num_correct_drafts": 6,
        "spec_num_proposed_drafts": 12,
        "spec_verify_ct": 4,
        "spec_correct_drafts_histogram": (1, 1, 1, 1),
        "sglang:spec_accept_rate": close(6 / 12),
        "sglang:spec_accept_length": close(10 / 4),  # the cut round gave no extra token
        "sglang:spec_verify_calls_total": 4,
    }


def test_llamacpp() -> None:
    assert values(paper_trace(), "llama.cpp") == {
        "timings.draft_n": 11,
        "timings.draft_n_accepted": 6,
        "draft acceptance": close(6 / 11),
        "mean len": close(2.5),
        "acc per pos": (0.75, 0.5, 0.25),
        **{f"llamacpp:{name}": value for name, value in COUNTERS.items()},
    }


def test_lm_studio_and_tensorrt() -> None:
    assert values(paper_trace(), "LM Studio") == {
        "stats.total_draft_tokens_count": 11,
        "stats.accepted_draft_tokens_count": 6,
        "accepted_draft_tokens_count / total_draft_tokens_count": close(6 / 11),
    }
    assert values(paper_trace(), "TensorRT-LLM") == {"avg_decoded_tokens_per_iter": close(9 / 4)}


def test_rounds_without_a_draft_count_for_some_figures() -> None:
    rounds = [make_round(""), make_round("aaar"), make_round("a")]
    trace = make_trace(rounds, config=LOOKUP)
    found = values(trace, "vLLM")
    assert found["mean_acceptance_length"] == close(1 + 4 / 2)
    assert found["num_spec_steps"] == 2
    assert found["Per-position acceptance rate"] == (1.0, 0.5, 0.5, 0.0)
    assert found["acceptance_histogram"] == (0, 1, 0, 1, 0)
    assert values(trace, "TensorRT-LLM")["avg_decoded_tokens_per_iter"] == close((1 + 4 + 2) / 3)
    assert values(trace, "SGLang") == {}


def test_sglangs_histogram_ends_at_the_most_accepted() -> None:
    trace = make_trace(["ard", "rdd"], config=RunConfig(gamma=3))
    assert values(trace, "SGLang")["spec_correct_drafts_histogram"] == (1, 1)


def test_a_run_without_rounds_has_no_rates() -> None:
    found = engine_figures(make_trace([]))
    assert by_name(found, "draft_acceptance_rate").value is None
    assert by_name(found, "mean_acceptance_length").value is None
    assert by_name(found, "spec_accept_length").value is None
    assert by_name(found, "acc per pos").value is None
    assert by_name(found, "spec_correct_drafts_histogram").value == ()
    assert by_name(found, "timings.draft_n").value == 0


def by_name(found: Sequence[EngineFigure], name: str) -> EngineFigure:
    return next(each for each in found if each.name == name)


def test_the_engines_rate_is_the_draft_acceptance_rate() -> None:
    trace = make_trace(["aar", "aaa", "rdd"])
    figures, found = metrics(trace), engine_figures(trace)
    rate = by_name(found, "draft_acceptance_rate").value
    assert rate == figures.draft_acceptance_rate
    assert rate != figures.alpha_observed
    assert figures.tau is not None
    assert by_name(found, "mean_acceptance_length").value == close(figures.tau)


def test_names_are_unique_and_definitions_are_one_line() -> None:
    found = engine_figures(paper_trace())
    assert len({(each.engine, each.name) for each in found}) == len(found)
    assert all(each.definition and "\n" not in each.definition for each in found)


@settings(deadline=None)
@given(trace=traces())
def test_any_trace_has_figures(trace: Trace) -> None:
    for each in engine_figures(trace):
        parts = each.value if isinstance(each.value, tuple) else (each.value or 0,)
        assert all(part >= 0 for part in parts)
