"""Counters of pages and logs, and rates between two readings."""

from __future__ import annotations

import pytest

from specviz.errors import ServerError
from specviz.record.server_run import Counters
from specviz.servers import counters_of_dump, counters_of_log, rates
from specviz.servers.counters import went_back

PAGE = """\
# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="a \\"b\\" }{"} 10.0
vllm:spec_decode_num_drafts_total{engine="1",model_name="tiny"} 4.0
vllm:spec_decode_num_draft_tokens_total{engine="0"} 50.0
vllm:spec_decode_num_draft_tokens_total{engine="1"} 2e1 1700000000000
vllm:spec_decode_num_accepted_tokens_total{engine="0"} 30
vllm:spec_decode_num_accepted_tokens_total{engine="1"} 5
vllm:spec_decode_num_accepted_tokens_created{engine="1"} 1.7e9
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 9
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",position="0"} 3
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 8
vllm:generation_tokens_total{engine="0"} 100
vllm:other_total NaN
no sample at all {
"""


def test_sums_replicas() -> None:
    found = counters_of_dump(PAGE)
    assert (found.drafts, found.drafted, found.accepted) == (14, 70, 35)
    assert found.accepted_at == (12, 8)
    assert found.generated == 100


def test_accepts_names_without_total() -> None:
    assert counters_of_dump("vllm:spec_decode_num_drafts 3\n").drafts == 3


def test_sglang_counts_verifications_and_tokens() -> None:
    page = "sglang:spec_verify_calls_total 7\nsglang:generation_tokens_total 21\n"
    found = counters_of_dump(page + "sglang:spec_accept_length 3.0\n")
    assert (found.drafts, found.accepted, found.generated) == (7, None, 21)


@pytest.mark.parametrize("page", ["", "python_gc_objects_collected_total 3\n", "<html>", "\x00"])
def test_rejects_a_page_without_counters(page: str) -> None:
    with pytest.raises(ServerError, match="no counters of"):
        counters_of_dump(page)


def test_rates_between_two_readings() -> None:
    before = Counters(
        at=10.0, drafts=10, drafted=50, accepted=20, accepted_at=(9, 8), generated=100
    )
    after = Counters(
        at=20.0, drafts=30, drafted=150, accepted=60, accepted_at=(25, 16), generated=180
    )
    found = rates(before, after)
    assert found is not None
    assert found.seconds == 10
    assert found.alpha_by_position == (16 / 20, 8 / 16)
    assert found.accepted_length == 3
    assert found.draft_acceptance_rate == 0.4
    assert (found.drafted_per_second, found.accepted_per_second) == (10, 4)
    assert found.generated_per_second == 8


def test_no_acceptance_rates_without_requests() -> None:
    now = Counters(at=1.0, drafts=3, drafted=15, accepted=4, accepted_at=(3, 1))
    later = Counters(at=2.0, drafts=3, drafted=15, accepted=4, accepted_at=(3, 1))
    found = rates(now, later)
    assert found is not None
    assert found.alpha_by_position == ()
    assert found.accepted_length is None
    assert found.draft_acceptance_rate is None
    assert found.drafted_per_second == 0


@pytest.mark.parametrize(
    "after",
    [
        Counters(at=2.0, drafts=1, drafted=5, accepted=1, accepted_at=(1, 0)),
        Counters(at=2.0, drafts=9, drafted=45, accepted=None, accepted_at=(9, 9)),
        Counters(at=2.0, drafts=9, drafted=45, accepted=30, accepted_at=(2, 9)),
        Counters(at=2.0, drafts=9, drafted=45, accepted=30, accepted_at=()),
    ],
)
def test_no_rates_if_a_counter_went_back(after: Counters) -> None:
    before = Counters(at=1.0, drafts=3, drafted=15, accepted=4, accepted_at=(3, 1))
    assert went_back(before, after)
    assert rates(before, after) is None


def line(clock: str, drafts: int, drafted: int, at_positions: tuple[int, ...]) -> str:
    """Return a log line as vLLM 0.32.0 writes it (v1/spec_decode/metrics.py)."""
    accepted = sum(at_positions)
    shares = ", ".join(f"{each / drafts:.3f}" for each in at_positions)
    return (
        f"(APIServer pid=7) INFO {clock} [metrics.py:120] SpecDecoding metrics: "
        f"Mean acceptance length: {1 + accepted / drafts:.2f}, "
        f"Accepted throughput: {accepted / 10:.2f} tokens/s, "
        f"Drafted throughput: {drafted / 10:.2f} tokens/s, Accepted: {accepted} tokens, "
        f"Drafted: {drafted} tokens, Per-position acceptance rate: {shares}, "
        f"Avg Draft acceptance rate: {accepted / drafted * 100:.1f}%"
    )


def test_sums_log_lines() -> None:
    log = "\n".join(
        [
            "(APIServer pid=7) INFO 11-24 10:00:00 [loggers.py:1] Engine 000: nothing",
            line("11-24 10:00:10", 249, 1245, (190, 141, 99, 70, 48)),
            "SpecDecoding metrics: Mean acceptance length: broken",
            line("11-24 10:00:20", 100, 500, (50, 20, 10, 5, 1)),
        ]
    )
    begun, first, second = counters_of_log(log)
    assert (begun.drafts, begun.drafted, begun.accepted_at) == (0, 0, ())
    assert (first.drafts, first.drafted, first.accepted) == (249, 1245, 548)
    assert first.accepted_at == (190, 141, 99, 70, 48)
    assert (second.drafts, second.drafted, second.accepted) == (349, 1745, 634)
    assert second.accepted_at == (240, 161, 109, 75, 49)
    assert second.at - first.at == 10
    assert first.at - begun.at == pytest.approx(10, abs=0.01)
    found = rates(first, second)
    assert found is not None
    assert found.alpha_by_position[0] == 0.5


def test_log_without_accepted_tokens() -> None:
    _, found = counters_of_log(line("11-24 10:00:10", 12, 60, (0, 0, 0, 0, 0)))
    assert (found.drafts, found.accepted, found.accepted_at) == (12, 0, (0, 0, 0, 0, 0))


def test_log_without_metrics_gives_nothing() -> None:
    assert counters_of_log("INFO started\n" * 3) == ()
