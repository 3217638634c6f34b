"""The sentences about bodies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.figures.body_words import (
    LOW_SHARE,
    WEAK_BASELINE,
    SpeedupWithoutBody,
    body_sentences,
    is_weak_baseline,
    not_offered_words,
    shown_bodies_title,
    spec_words,
    step_words,
)
from specviz.figures.catalogue import CATALOGUE
from specviz.figures.metrics import Metrics, metrics
from specviz.record.body_costs import BodyCost, BodyRoom
from specviz.record.pairs import PairSpec
from specviz.record.trace import Conditions, Trace
from tests.changed_metrics import with_costs, with_tau, with_timing
from tests.traces import BODY, full_trace, with_bodies


def judged(*, v: float | None = 1.1, share: float | None = 0.8) -> tuple[Trace, Metrics]:
    bandwidth = share and BODY.step_bytes / (share * 0.01)  # a target step takes 10 ms
    trace = with_bodies(full_trace(), target=BODY, bandwidth=bandwidth)
    return trace, with_costs(with_timing(metrics(trace), 3.1, 3.0, 3.2), gamma=3, c=0.1, v=v)


def test_a_run_without_a_body_has_no_sentences() -> None:
    trace = full_trace()
    assert body_sentences(trace, metrics(trace), 1.6) == ()
    assert not is_weak_baseline(metrics(trace))


def test_reports_costs_and_both_speedups() -> None:
    costs, speedups = body_sentences(*judged(), 1.6)
    assert costs == (
        "The 6.1 M target chooses the tokens; each step costs as much as in a model of 88 M."
    )
    assert speedups.startswith("At the pair's own size: 1.60 times. The simulated size ")


def test_the_speedup_without_a_body_has_its_interval() -> None:
    def sentence(low: float, high: float) -> str:
        return body_sentences(*judged(), SpeedupWithoutBody(value=1.6, low=low, high=high))[1]

    assert sentence(1.5, 1.7).startswith("At the pair's own size: 1.60 times (1.50 to 1.70). ")
    assert sentence(1.2, 2.4).startswith("At the pair's own size: 1.20 to 2.40 times. ")
    assert sentence(0.1, 9.0).startswith("At the pair's own size: timing too noisy. ")


def test_leaves_out_what_was_not_measured() -> None:
    assert "own size" not in " ".join(body_sentences(*judged()))
    trace, figures = judged()
    assert len(body_sentences(trace, replace(figures, timing=None), 1.6)) == 1


def test_a_draft_in_a_body_is_named() -> None:
    trace = with_bodies(full_trace(), draft=BODY)
    figures = metrics(trace)
    sentences = body_sentences(trace, figures, 1.6)
    assert sentences[0].startswith("The 6.1 M draft proposes the tokens; ")
    assert sentences[1].startswith("At the pair's own size: 1.60 times. ")
    quick = with_costs(figures, gamma=3, c=0.1, v=0.5)
    assert not is_weak_baseline(quick)  # the target has no body


@pytest.mark.parametrize(
    ("v", "share", "weak"),
    [
        (1.1, 0.8, False),
        (1.0, LOW_SHARE, False),
        (0.996, 0.8, False),  # shown as 1.00
        (0.95, 0.8, True),
        (1.1, 0.49, True),
        (None, None, False),
        (None, 0.3, True),
    ],
)
def test_warns_about_a_weak_baseline(v: float | None, share: float | None, weak: bool) -> None:
    trace, figures = judged(v=v, share=share)
    assert is_weak_baseline(figures) == weak
    assert (WEAK_BASELINE in " ".join(body_sentences(trace, figures, 1.6))) == weak


def test_a_busy_machine_or_imprecise_costs_show_no_weak_baseline() -> None:
    trace, figures = judged(v=0.95)
    assert is_weak_baseline(figures)
    assert trace.baseline is not None
    busy = replace(trace.baseline, conditions=Conditions(others=0.8))
    assert not is_weak_baseline(replace(figures, trace=replace(trace, baseline=busy)))
    assert is_weak_baseline(with_tau(with_costs(figures, 3, 0.1, 0.95, error=0.1), 3.0))
    assert not is_weak_baseline(with_tau(with_costs(figures, 3, 0.1, 0.95, error=0.7), 3.0))


def test_the_share_of_the_bandwidth() -> None:
    trace = with_bodies(full_trace(), target=BODY, bandwidth=20e9)
    figures = metrics(trace)
    step = figures.steps.target
    assert step is not None
    assert figures.bandwidth_share == pytest.approx(BODY.step_bytes / (20e9 * step))
    assert (figures.parameters, figures.step_bytes) == (88_099_584, 352_398_336)
    assert "352 MB / (" in CATALOGUE["bandwidth_share"].help(figures)
    assert "20 GB/s" in CATALOGUE["bandwidth_share"].help(figures)
    unknown = metrics(with_bodies(full_trace(), target=BODY))
    assert unknown.bandwidth_share is None


ROOM = BodyRoom(target=None, draft=None, bandwidth=28e9, memory_free=2 * 10**9, itemsize=4)


def cost(gigabytes: float, seconds: float) -> BodyCost:
    size = round(gigabytes * 1e9)
    return BodyCost(parameters=size // 4, memory_bytes=size, step_bytes=size, step_seconds=seconds)


def test_the_cost_of_a_body_is_marked_as_expected_or_measured() -> None:
    small = step_words("90M", cost(0.352, 0.021), ROOM)
    assert small == "88 M parameters, 352 MB read per step, 21.0 ms expected."
    assert step_words("90M", cost(0.352, 0.021), ROOM, 0.025).endswith(" 25.0 ms measured.")
    large = step_words("llama-3.2-1b", cost(4, 1.25), ROOM)
    assert large.startswith("About as costly as Llama-3.2-1B: 1.0 B parameters, 4 GB read per ")
    assert large.endswith("does not fit: needs 6.27 GB to run, 2 GB is free.")


def test_names_bodies_that_do_not_fit_and_why() -> None:
    assert not_offered_words([], ROOM) == ""
    bodies = [("llama-3.2-1b", cost(4, 1)), ("500M", cost(2, 1))]
    text = not_offered_words(bodies, ROOM)
    assert "1.0 B, 500 M; the smallest needs 3.67 GB to run, 2 GB is free" in text


@pytest.mark.parametrize(
    ("size", "article"),
    [("8 M", "an"), ("11 M", "an"), ("18 B", "an"), ("88 M", "an"), ("1.1 B", "a"), ("110 M", "a")],
)
def test_a_size_has_its_article(size: str, article: str) -> None:
    words = f"target at the cost of {article} {size} model"
    assert shown_bodies_title(f"target body {size}") == words


def test_a_pair_is_named_with_its_bodies() -> None:
    assert spec_words(PairSpec()) == "embedded pair"
    spec = PairSpec(target_body="llama-3.2-1b", draft_body="10M")
    words = "target at the cost of Llama-3.2-1B, draft at the cost of a 10 M model"
    assert spec_words(spec) == f"embedded pair, {words}"
    trace, _ = judged()
    assert trace.pair.body_sizes == "target simulates the cost of an 88 M model"
    assert full_trace().pair.body_sizes == ""
    assert full_trace().pair.chosen_weights == ""
