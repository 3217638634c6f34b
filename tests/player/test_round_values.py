"""The values of a trace that the player gets."""

from __future__ import annotations

import dataclasses
import json

import pytest

from specviz.figures.metrics import metrics
from specviz.figures.step_times import StepTimes
from specviz.player.round_values import (
    fork_items,
    forked_text,
    head_item,
    lanes,
    round_items,
    step_seconds,
)
from specviz.record.forks import Fork
from specviz.record.heads import HeadInfo
from specviz.record.run_config import RunConfig
from specviz.record.trace import Trace
from specviz.store import load_trace
from tests.traces import Passes, full_trace, make_candidate, make_round, make_trace


@pytest.fixture(scope="module")
def recorded() -> Trace:
    return load_trace("assets/first_trace.json")


def test_deciding_probabilities_keep_every_digit() -> None:
    draft, target, uniform = 0.1 + 0.2, 1 / 3, 0.7558994293212891
    candidate = make_candidate("r", draft_prob=draft, target_prob=target, uniform=uniform)
    entry = dataclasses.replace(make_round("r"), candidates=(candidate,))
    sent = json.loads(json.dumps(round_items(make_trace([entry]))))[0]["candidates"][0]
    assert (sent["draft"], sent["target"], sent["uniform"]) == (draft, target, uniform)


def test_verdicts_replay_from_the_values(recorded: Trace) -> None:
    tested = 0
    for item in json.loads(json.dumps(round_items(recorded))):
        for each in item["candidates"]:
            if each["verdict"] == "discarded":
                continue
            tested += 1
            accepted = each["uniform"] * each["draft"] < each["target"]
            assert accepted == (each["verdict"] == "accepted")
    assert tested > 100


def test_values_include_the_alternatives(recorded: Trace) -> None:
    first = recorded.rounds[0].candidates[0]
    sent = round_items(recorded)[0]["candidates"][0]["insight"]
    assert first.insight is not None
    assert [text for text, _ in sent["target_top"]] == list(first.insight.target_top.texts)
    probs = [prob for _, prob in sent["target_top"]]
    assert probs == pytest.approx(first.insight.target_top.probs, rel=1e-3)


def test_no_insight_without_a_record() -> None:
    assert round_items(make_trace(["ar"]))[0]["candidates"][0]["insight"] is None


def test_extra_tokens() -> None:
    bonus, cut = round_items(make_trace([make_round("aa"), make_round("a", cut="eos")]))
    assert (bonus["extra"]["kind"], bonus["extra"]["draft"]) == ("bonus", None)
    assert (cut["extra"], cut["cut"]) == (None, "eos")


def test_the_text_of_the_original_run_begins_at_the_place_of_the_fork() -> None:
    """Not at the beginning of the fork's round."""
    spelt = zip(("aar", "aaa", "ar"), (10, 20, 30), strict=True)
    original = make_trace([make_round(each, first_token=first) for each, first in spelt])
    fork = Fork(round=1, place=2, token_id=22, uniform=0.75, of="other")
    trace = make_trace(config=RunConfig(gamma=3, forks=(fork,)))
    assert forked_text(trace, original) == {
        "id": "other", "before": 5, "texts": [" w22", " w23", " w30", " w31"], "total": 9,
    }  # fmt: skip


def test_a_fork_has_the_draw_of_its_own_place() -> None:
    entry = make_round("aar")
    *others, rejected = entry.candidates
    overruled = dataclasses.replace(rejected, overruled=0.125)
    entry = dataclasses.replace(entry, candidates=(*others, overruled))
    fork = Fork(round=0, place=2, token_id=rejected.token_id, uniform=0.75)
    trace = make_trace([entry], config=RunConfig(gamma=3, forks=(fork,)))
    assert fork_items(trace) == [{"round": 0, "place": 2, "draw": 0.125, "likeliest": None}]


def test_no_lanes_without_the_target_alone() -> None:
    assert lanes(make_trace(["ar"]), is_open=False) is None


def test_lanes_have_the_timed_lengths() -> None:
    passes = Passes(target=([0.01, 0.03, 0.02], [0.03, 0.03, 0.02]), speculative=([0.014], [0.028]))
    trace = make_trace([make_round("aa", times=(0.002, 0.004, 0.001))], baseline=passes)
    both = lanes(trace, is_open=False)
    assert both is not None
    assert both["target"] == pytest.approx([0.07 / 3] * 3, rel=1e-3)
    # 7 ms in the first run became 21 ms, the mean of the passes; the parts keep their shares.
    assert both["speculative"] == [pytest.approx({"draft": 0.006, "verify": 0.012, "other": 0.003})]


def test_a_lane_has_one_entry_per_round_or_token() -> None:
    trace = full_trace()
    both = lanes(trace, is_open=False)
    assert both is not None
    assert len(both["speculative"]) == len(trace.rounds)
    assert len(both["target"]) == len(trace.token_ids)


def headed(trace: Trace, places: tuple[int, ...], drafter: str = "eagle") -> Trace:
    draft = trace.pair.draft
    assert draft is not None
    head = dataclasses.replace(draft, head=HeadInfo(places=places, proposable=3))
    return dataclasses.replace(
        trace,
        pair=dataclasses.replace(trace.pair, draft=head),
        config=dataclasses.replace(trace.config, drafter=drafter),
    )


@pytest.mark.parametrize(
    ("places", "drafter", "reads", "recycles"),
    [
        ((2, 6, 9), "eagle", "the inputs of layers 2, 6 and 9", True),
        ((3,), "dflash", "the input of layer 3", False),
        ((-1,), "medusa", "the final hidden state", False),
    ],
)
def test_what_a_head_reads(
    places: tuple[int, ...], drafter: str, reads: str, recycles: bool
) -> None:
    trace = headed(make_trace(["ar"]), places, drafter)
    assert head_item(trace) == {"reads": reads, "recycles": recycles}
    assert head_item(make_trace(["ar"])) is None


def test_a_head_reads_at_the_token_before_the_newest(recorded: Trace) -> None:
    trace = headed(recorded, (2,))
    texts = [*trace.prompt.token_texts]
    for entry, item in zip(trace.rounds, round_items(trace), strict=True):
        assert item["read_at"].strip() == texts[entry.context_length - 2].strip()
        texts += [each.text for each in entry.candidates if each.verdict == "accepted"]
        texts += [entry.extra.text] if entry.extra else []
    assert "read_at" not in round_items(recorded)[0]


def test_a_token_that_the_head_cannot_propose_is_marked() -> None:
    entry = make_round("r")
    assert entry.extra is not None
    outside = dataclasses.replace(entry, extra=dataclasses.replace(entry.extra, outside=True))
    first, second = round_items(make_trace([outside, entry]))
    assert first["extra"]["outside"]
    assert "outside" not in second["extra"]


def test_seconds_from_step_costs_give_the_accounted_speedup(recorded: Trace) -> None:
    figures = metrics(recorded)
    assert figures.tau is not None
    sent = step_seconds(figures.steps)
    assert sent is not None
    accounted = figures.tau * sent["target"] / sum(sent["round"].values())
    assert accounted == pytest.approx(figures.speedup_accounted, rel=1e-3)


def test_unknown_step_costs_are_not_sent() -> None:
    assert step_seconds(StepTimes()) is None
    sent = step_seconds(StepTimes(gamma=3, draft=0.1, target=0.5))
    assert sent == {"target": 0.5, "round": None}
