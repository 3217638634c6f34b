"""Impossible counters are left out with a notice."""

from __future__ import annotations

import pytest

from specviz.record.server_run import (
    Counters,
)
from specviz.servers import counters_of_dump, find_server, read_counters
from specviz.servers.counters import rates
from specviz.servers.vllm_log import counters_of_log
from tests.servers.hostile_engines import (
    info_of,
)
from tests.servers.replaying import Page, served

pytestmark = pytest.mark.usefixtures("bounded")


def test_bounds_positions() -> None:
    name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    lines = ["vllm:spec_decode_num_drafts_total 9"]
    places = ("1" * 5000, "1" * 300, "-1", "\u0663", "1024", "x", "", "0", "1")
    lines += [f'{name}{{position="{place}"}} 5' for place in places]
    page = "\n".join(lines)
    assert counters_of_dump(page).accepted_at == (5.0, 5.0)
    pages = {
        "/v1/models": Page(body=b'{"data": [{"id": "tiny", "owned_by": "vllm"}]}'),
        "/version": Page(body=b'{"version": "0.32.0"}'),
        "/metrics": Page(body=page.encode(), kind="text/plain"),
    }
    with served(pages) as server:
        assert find_server(server.address).gamma == 2


@pytest.mark.parametrize("value", ["1e308", "-5", "1e17", "-1e308"])
def test_notice_for_impossible_counters(value: str) -> None:
    lines = [
        f'vllm:spec_decode_num_draft_tokens_total{{engine="{each}"}} {value}' for each in "abc"
    ]
    found = counters_of_dump("\n".join(["vllm:spec_decode_num_drafts_total 3", *lines]))
    assert (found.drafts, found.drafted) == (3, None)
    assert len(found.notices) == 1


def test_notice_for_more_accepted_than_drafted() -> None:
    page = (
        "vllm:spec_decode_num_drafts_total 3\nvllm:spec_decode_num_draft_tokens_total 10\n"
        "vllm:spec_decode_num_accepted_tokens_total 20\n"
    )
    found = counters_of_dump(page)
    assert (found.drafted, found.accepted) == (10, None)
    assert "it exceeds the drafted counter" in found.notices[0]


def test_notice_for_more_candidates_than_rounds_can_draft() -> None:
    found = counters_of_dump(
        "vllm:spec_decode_num_drafts_total 1\nvllm:spec_decode_num_draft_tokens_total 4000\n"
        "vllm:spec_decode_num_accepted_tokens_total 4000\n"
    )
    assert (found.drafts, found.drafted, found.accepted) == (1, None, None)
    assert "exceed what the rounds can draft" in found.notices[0]


def test_rates_never_exceed_one() -> None:
    before = Counters(at=0.0, drafts=10.0, drafted=40.0, accepted=2.0, accepted_at=(2.0,))
    after = Counters(at=1.0, drafts=11.0, drafted=41.0, accepted=11.0, accepted_at=(9.0,))
    found = rates(before, after)
    assert found is not None
    assert (found.draft_acceptance_rate, found.accepted_length) == (None, None)
    assert found.alpha_by_position == ()
    assert found.drafted_per_second == 1.0


def test_counter_has_one_name_per_engine() -> None:
    """Only one of four names counts, and counters of another engine are ignored."""
    page = (
        "vllm:generation_tokens_total 7\nvllm:generation_tokens 1000\n"
        "llamacpp:tokens_predicted_total 50000\nsglang:generation_tokens_total 199010\n"
    )
    found = counters_of_dump(page)
    assert found.generated == 7
    assert len(found.notices) == 2
    with served({"/metrics": Page(body=page.encode(), kind="text/plain")}) as server:
        assert read_counters(info_of("sglang", server.address)).generated == 199010
        assert read_counters(info_of("vllm", server.address)).generated == 7


def test_repeated_series_counts_once() -> None:
    assert counters_of_dump('vllm:generation_tokens_total{e="0"} 7\n' * 4).generated == 7


LOG_LINE = (
    "SpecDecoding metrics: Mean acceptance length: {length}, Accepted throughput: 1.00 tokens/s, "
    "Drafted throughput: 1.00 tokens/s, Accepted: {accepted} tokens, Drafted: {drafted} tokens, "
    "Per-position acceptance rate: {shares}, Avg Draft acceptance rate: 1.0%"
)


@pytest.mark.parametrize(
    "wrong",
    [
        {"accepted": "9" * 4500},
        {"accepted": "50"},
        {"length": "1.2.3"},
        {"length": "9" * 4000},
        {"shares": "0.5,,0.5"},
        {"shares": "7.5"},
        {"length": "nan"},
    ],
)
def test_skips_impossible_log_lines(wrong: dict[str, str]) -> None:
    right = {"length": "2.00", "accepted": "5", "drafted": "10", "shares": "0.500"}
    log = "\n".join(LOG_LINE.format(**each) for each in (right, {**right, **wrong}))
    found = counters_of_log(log)
    assert found[-1].accepted in (5, 10)  # a length of nan is possible where nothing was drafted
