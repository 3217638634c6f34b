"""The player's data for another engine's answer: what that engine reported, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specviz.player.any_run import payload_of_run
from specviz.player.payload import JsonObject, RunStatus
from specviz.player.racing import race_payload
from specviz.player.replay import comparison_replay_html, replay_html
from specviz.player.server_payload import round_item, server_payload
from specviz.player.server_summary import speedup_words
from specviz.record.server_run import (
    ServerBlock,
    ServerSettings,
    ServerTotals,
    ServerTrace,
    TimedAnswer,
)
from specviz.servers import ask, find_server
from specviz.store import Library, run_from_json, trace_to_json
from specviz.store.saving import save_run
from tests.player.races import thrifty
from tests.player.test_replay import data_in
from tests.record.server_traces import VLLM, server_trace, timed, undivided, without_rounds
from tests.servers.replaying import replayed

UNREPORTED = {"draft", "target", "uniform", "expected", "insight", "verify", "other"}


def sent(trace: ServerTrace) -> JsonObject:
    return payload_of_run(trace, run_id="s", state="done", label="s")


def names_in(value: object) -> set[str]:
    """Return all keys of a JSON value."""
    if isinstance(value, dict):
        return set(value) | {name for each in value.values() for name in names_in(each)}
    if isinstance(value, list):
        return {name for each in value for name in names_in(each)}
    return set()


@pytest.mark.parametrize("make", [lambda t: t, undivided, without_rounds, timed])
def test_rounds_have_no_value_that_engines_do_not_report(make: Any) -> None:
    items = sent(make(server_trace()))["rounds"]["items"]
    assert not names_in(items) & UNREPORTED


def test_only_accepted_candidates_have_texts() -> None:
    item = round_item(server_trace(), 1)
    assert [each["verdict"] for each in item["candidates"]] == [
        "accepted", "accepted", "accepted", "rejected", "discarded",
    ]  # fmt: skip
    assert [each["text"] for each in item["candidates"]] == [" w2", " w3", " w4", None, None]
    assert item["extra"] == {"text": " w5", "kind": "recovered", "logprob": -0.25}
    assert (item["times"], item["at"]) == ({"whole": 0.02}, 0.12)


def test_a_bonus_follows_when_all_candidates_are_accepted() -> None:
    assert round_item(server_trace(), 2)["extra"]["kind"] == "bonus"


def test_a_token_outside_rounds_has_no_fate() -> None:
    item = round_item(server_trace(), 0)
    assert item["candidates"] == []
    assert item["unreported"] == [{"text": " w1", "tokens": 1, "logprob": -0.25}]
    assert item["times"] == {"whole": 0.0}  # the clock starts here


def test_an_undivided_text_is_one_piece_beside_fates_without_texts() -> None:
    item = round_item(undivided(server_trace()), 1)
    assert {each["text"] for each in item["candidates"]} == {None}
    assert [each["verdict"] for each in item["candidates"]].count("accepted") == 3
    assert item["extra"] is None
    assert item["unreported"] == [{"text": " w2 w3 w4 w5", "tokens": 4, "logprob": None}]


def test_accepted_candidates_after_the_cut_have_no_texts() -> None:
    trace = server_trace([(5, 4)])
    last = trace.rounds[0]
    cut = replace(
        last, num_tokens=2, texts=last.texts[:2], token_ids=last.token_ids[:2], logprobs=()
    )
    item = round_item(replace(trace, rounds=(cut,)), 0)
    assert [each["text"] for each in item["candidates"]] == [" w1", " w2", None, None, None]
    assert (item["extra"], item["cut"]) == (None, "eos")


def test_no_fates_if_drafted_is_not_reported() -> None:
    """As in a running answer of vLLM, which reports its steps at the end."""
    trace = server_trace(grounds="chunks", totals=ServerTotals())
    rounds = tuple(replace(each, drafted=None) for each in trace.rounds)
    item = round_item(replace(trace, rounds=rounds), 1)
    assert item["candidates"] == []
    assert [each["text"] for each in item["unreported"]] == [" w2", " w3", " w4", " w5"]


def test_a_growing_answer_is_sent_by_rounds_and_a_finished_one_whole() -> None:
    status = RunStatus(id="s", state="running", label="live")
    growing = server_payload(server_trace(), status, start=3, growing=True)
    assert (growing["rounds"]["from"], len(growing["rounds"]["items"])) == (3, 2)
    over = server_payload(server_trace(), status, start=3)
    assert (over["rounds"]["from"], over["rounds"]["total"]) == (0, 5)
    assert over["rounds"]["edition"] != growing["rounds"]["edition"]


def shown(data: JsonObject) -> dict[str, str]:
    cards = [*data["summary"]["figures"], *data["summary"]["finer"]]
    return {each["id"]: each["shown"] for each in cards}


def test_the_summary_names_engine_and_model_and_has_no_speedup() -> None:
    text = sent(server_trace())["summary"]
    assert text["headline"] == "vLLM 0.32.0 · tiny: 15 tokens in 4 rounds"
    assert "No speedup" in text["because"]
    assert "The first step is the pass over the prompt" in text["because"]
    assert "no number" not in sent(server_trace([(5, 3)]))["summary"]["because"]
    assert "no number" not in sent(without_rounds(server_trace()))["summary"]["because"]
    assert "speedup" not in " ".join(shown(sent(server_trace())))


def blocks(*paces: float) -> tuple[ServerBlock, ...]:
    """Return blocks with speculation at these seconds per token and the target alone at 0.02."""
    alone = (TimedAnswer(tokens=20, seconds=0.4),) * 2
    return tuple(
        ServerBlock(alone=alone, speculative=(TimedAnswer(tokens=20, seconds=20 * pace),) * 2)
        for pace in paces
    )


def test_a_close_result_refers_to_the_address_not_this_machine() -> None:
    close = replace(server_trace(), baseline=blocks(0.015, 0.03, 0.02, 0.025))
    for alone, words in (
        (close.info.address, "too close to call at this address now"),
        ("http://127.0.0.1:8766", "too close to call at these addresses now"),
    ):
        text = speedup_words(replace(close, baseline_address=alone)) or ""
        assert f"{words} (on this prompt, in 4 blocks)." in text
        assert "machine" not in text


def test_shows_reported_figures_and_dashes() -> None:
    figures = shown(sent(server_trace()))
    assert (figures["draft-acceptance-rate"], figures["tau"]) == ("0.500", "3.50")
    assert (figures["alpha-1"], figures["alpha-3"]) == ("0.750", "0.667")
    assert figures["ttft-ms"] == "100.0 ms"
    bare = shown(sent(without_rounds(server_trace())))
    assert (bare["draft-acceptance-rate"], bare["tau"], bare["gamma"]) == ("–", "–", "–")


def test_a_timed_target_has_a_speedup_and_a_lane_at_its_mean_pace() -> None:
    data = sent(timed(server_trace()))
    assert data["summary"]["because"].startswith("2.00 times the target alone (1 block, no")
    assert data["lanes"]["target"] == [0.0, *[0.02] * 14]
    assert "mean pace of 2 other answers, 50.0 tokens/s" in data["lanes"]["pace"]
    assert sent(server_trace())["lanes"] is None


def test_leaves_out_charts_that_need_probabilities_with_one_reason() -> None:
    left_out = sent(server_trace())["charts"]["left_out"]
    assert left_out["charts"] == ["throughput", "agreement", "acceptance", "roofline"]
    assert left_out["why"].count(".") == 1 + "vLLM 0.32.0".count(".")
    assert set(sent(without_rounds(server_trace()))["charts"]["left_out"]["charts"]) == {
        "throughput", "agreement", "acceptance", "roofline", "places", "tokens",
    }  # fmt: skip


def test_counts_pieces_without_token_counts_as_pieces() -> None:
    trace = without_rounds(server_trace())
    rounds = tuple(replace(each, num_tokens=0, texts=("a",)) for each in trace.rounds)
    data = sent(replace(trace, rounds=rounds))
    assert data["run"]["engine"]["counts"] == data["run"]["engine"]["unit"] == "piece"
    assert data["summary"]["headline"].endswith("5 pieces")


def test_a_replay_contains_no_address() -> None:
    html = replay_html(server_trace(), moment={"round": "2"})
    data = data_in(html)
    assert data["player"]["moment"] == {"round": "2"}
    assert data["about"]["title"] == "tiny"
    assert data["about"]["facts"] == ["γ 5", "greedy", "vLLM 0.32.0", "2026-11-24 09:30 UTC"]
    assert "8765" not in html


def test_a_race_with_our_runs_has_no_winner() -> None:
    race = race_payload(["ours", "theirs"], [thrifty(), server_trace()])["race"]
    assert race["open"] is False
    assert race["unlike"].startswith("No winner")
    assert [len(each["parts"]) for each in race["lanes"]] == [len(thrifty().rounds), 5]
    assert len(race["targets"]) == 1
    assert "unlike" not in race_payload(["ours"], [thrifty()])["race"]
    saved = data_in(comparison_replay_html(["a", "b"], [thrifty(), server_trace()], verdict="So."))
    assert "vLLM 0.32.0" in saved["about"]["facts"]


def test_everything_is_json() -> None:
    for make in (lambda t: t, undivided, without_rounds, timed):
        json.dumps(sent(make(server_trace())), allow_nan=False)


RECORDED = [
    ("vllm", "short"), ("vllm", "ended"), ("vllm", "drawn"), ("vllm", "merged"),
    ("llamacpp", "short"), ("llamacpp", "ended"), ("llamacpp-plain", "short"),
    ("vllm-plain", "short"),
]  # fmt: skip


@pytest.mark.parametrize(("engine", "answer"), RECORDED)
def test_answers_of_real_engines_are_saved_and_shown_completely(
    engine: str, answer: str, tmp_path: Path
) -> None:
    with replayed(engine, answer) as server:
        answer_run = ask(find_server(server.address), "Once", ServerSettings(max_new_tokens=80))
        list(answer_run)
        trace = answer_run.trace()
    assert run_from_json(trace_to_json(trace)) == trace
    library = Library(tmp_path / "runs.db")
    assert library.open_any(save_run(library, trace)) == trace
    items = sent(trace)["rounds"]["items"]
    assert "".join(text_of(item) for item in items) == trace.text
    known = [each for each in trace.rounds if each.drafted is not None]
    drawn = [each for item in items for each in item["candidates"]]
    assert len(drawn) == sum(each.drafted or 0 for each in known)
    accepted = sum(each["verdict"] == "accepted" for each in drawn)
    assert accepted == sum(each.accepted or 0 for each in known)


def text_of(item: JsonObject) -> str:
    """Return what a round adds to the text in the player."""
    accepted = [each["text"] or "" for each in item["candidates"] if each["verdict"] == "accepted"]
    extra = [item["extra"]["text"]] if item["extra"] else []
    return "".join([*accepted, *extra, *(each["text"] for each in item.get("unreported", []))])


def test_an_engine_without_speculation_mentions_no_draft() -> None:
    info = replace(VLLM, capabilities=replace(VLLM.capabilities, speculates=False))
    engine = sent(replace(without_rounds(server_trace()), info=info))["run"]["engine"]
    assert engine["speculates"] is False
    assert engine["silent"].endswith("does not speculate here: every token comes from the target.")
