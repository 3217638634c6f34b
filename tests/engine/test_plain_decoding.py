"""Plain decoding by the target alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from specviz.engine import Pair, decode_plainly
from specviz.engine.model.library_step import LibraryStep
from specviz.record.trace import RunConfig
from tests.engine.models import pair_of, tiny_model

PROMPT = (5, 17, 101, 42, 9)


@pytest.fixture(params=["library", "lean"])
def pair(request: pytest.FixtureRequest) -> Pair:
    return pair_of(tiny_model("llama"), None, step=request.param)


def config(**changes: Any) -> RunConfig:
    settings: dict[str, Any] = {"temperature": 0.0, "max_new_tokens": 40, "ignore_eos": True}
    return RunConfig(**(settings | changes))


def test_plain_ends_at_the_end_token(pair: Pair) -> None:
    free = list(decode_plainly(pair, PROMPT, config()))
    assert len(free) == 40
    ending = replace(pair, eos_ids=frozenset({free[7]}))
    length = free.index(free[7]) + 1
    assert list(decode_plainly(ending, PROMPT, config(ignore_eos=False))) == free[:length]
    assert list(decode_plainly(ending, PROMPT, config())) == free


def test_plain_ends_with_a_stop_string(pair: Pair) -> None:
    pieces = [bytes([97 + i % 26]) for i in range(320)]
    pair = replace(pair, token_table=pair_of(pair.target, None, pieces=pieces).token_table)
    free = list(decode_plainly(pair, PROMPT, config()))
    text = pair.token_table.join(free)
    length = text.find(text[10:13]) + 3
    assert list(decode_plainly(pair, PROMPT, config(stop=(text[10:13],)))) == free[:length]


def test_plain_decoding_stops_at_the_limits() -> None:
    short = pair_of(tiny_model("gpt2", n_positions=16), None, max_context=16)
    assert len(list(decode_plainly(short, PROMPT, config()))) == 11
    assert len(list(decode_plainly(short, PROMPT, config(max_new_tokens=1)))) == 1
    assert len(list(decode_plainly(short, (3,) * 15, config()))) == 1


def test_the_same_seed_gives_the_same_text(pair: Pair) -> None:
    one, same, other = (
        list(decode_plainly(pair, PROMPT, config(temperature=1.0, seed=seed))) for seed in (1, 1, 2)
    )
    assert one == same != other


def test_plain_sampling_has_the_targets_distribution() -> None:
    pair = pair_of(tiny_model("llama", vocabulary=7, sigma=0.3), None, step="lean")
    settings = [config(temperature=1.0, max_new_tokens=1, seed=seed) for seed in range(2_000)]
    first = [next(iter(decode_plainly(pair, (3, 1, 4), one))) for one in settings]
    with torch.inference_mode():
        distribution = (
            pair.target(torch.tensor([[3, 1, 4]])).logits[0, -1].double().softmax(-1).numpy()
        )
    counts = np.bincount(first, minlength=7)
    assert stats.chisquare(counts, distribution * 2_000).pvalue > 1e-3


def test_a_failed_step_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = pair_of(tiny_model("llama"), None)
    run = decode_plainly(pair, PROMPT, config())
    next(run)

    def failing(*_: object) -> torch.Tensor:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(LibraryStep, "feed", failing)
        with pytest.raises(KeyboardInterrupt):
            next(run)
    assert next(run, None) is None
