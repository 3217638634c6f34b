"""A run that continues a read text copies its cache rows, and gives the same rounds as without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from specviz.engine import decode_plainly, speculate
from specviz.engine.model.pair import Pair
from specviz.engine.model.read_text import ReadText
from specviz.record.trace import Prefill, Round, RunConfig
from tests.engine.models import noisy_copy, pair_of, tiny_model

PROMPT, MESSAGE = (5, 17, 101, 42, 9, 30), (7, 8, 77)
MODEL = RunConfig(gamma=3, max_new_tokens=24, temperature=0.8, seed=3, ignore_eos=True)
SETTINGS = {
    "chain": MODEL,
    "tree": replace(MODEL, branching=(2, 2, 1)),
    "prompt-lookup": replace(MODEL, drafter="prompt-lookup"),
    "early-exit": replace(MODEL, drafter="early-exit:1"),
}


@pytest.fixture(scope="module", params=["lean", "library"])
def pair(request: pytest.FixtureRequest) -> Pair:
    target = tiny_model("llama", sigma=0.3)
    return pair_of(target, noisy_copy(target), step=request.param)


def played(
    pair: Pair, prompt: Sequence[int], config: RunConfig
) -> tuple[list[Round], Prefill, ReadText | None]:
    run = speculate(pair, prompt, config)
    return list(run), run.prefill, run.read_text()


def decided(entry: Round) -> object:
    return entry.emitted, [(each.token_id, each.verdict) for each in entry.candidates]


def probs_of(rounds: Sequence[Round]) -> list[float]:
    return [each.target_prob for entry in rounds for each in entry.candidates]


def after_an_answer(pair: Pair, config: RunConfig) -> tuple[Pair, list[int]]:
    """Return the pair that has written an answer, and the text with the next message."""
    rounds, _, read = played(pair, PROMPT, config)
    answer = [token for each in rounds for token in each.emitted]
    return replace(pair, last_read=read), [*PROMPT, *answer, *MESSAGE]


@pytest.mark.parametrize("name", SETTINGS)
def test_the_rounds_equal_those_of_a_run_that_reads_everything(pair: Pair, name: str) -> None:
    config = SETTINGS[name]
    keeping, text = after_an_answer(pair, config)
    expected, whole, _ = played(pair, text, config)
    continued, prefill, _ = played(keeping, text, config)
    assert list(map(decided, continued)) == list(map(decided, expected))
    assert probs_of(continued) == pytest.approx(probs_of(expected), rel=1e-3)  # rounding
    assert whole.copied == 0
    assert len(text) - prefill.copied - len(MESSAGE) in {0, 1}  # the last token may be unread
    assert list(decode_plainly(keeping, text, config)) == list(decode_plainly(pair, text, config))


def test_a_repeated_message_reads_what_its_first_run_read(pair: Pair) -> None:
    keeping, text = after_an_answer(pair, MODEL)
    _, first, read = played(keeping, text, MODEL)
    repeating = replace(pair, last_read=read)
    assert played(repeating, text, replace(MODEL, gamma=5))[1].copied == first.copied > 0
    _, _, opening = played(pair, PROMPT, MODEL)
    assert played(replace(pair, last_read=opening), PROMPT, MODEL)[1].copied == 0


def test_another_text_and_other_weights_are_read(pair: Pair) -> None:
    keeping, text = after_an_answer(pair, MODEL)
    assert played(keeping, [6, *text[1:]], MODEL)[1].copied == 0
    edited = [*text[:-5], 1, *text[-4:]]
    assert played(keeping, edited, MODEL)[1].copied == len(text) - 5
    target = tiny_model("llama", sigma=0.3)
    for step in ("lean", "library"):
        other = replace(pair_of(target, target, step=step), last_read=keeping.last_read)
        assert played(other, text, MODEL)[1].copied == 0
