"""Forecasts: hand-computed examples, missing profiles, and measured profiles against the logits of
transformers."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from specviz.engine import decode_plainly, load_pair
from specviz.engine.model.pair import Pair
from specviz.figures.timing import AIM
from specviz.measure.forecast import (
    SHIPPED,
    Profile,
    Shipped,
    TextOdds,
    forecast,
    make_outlook,
    measure_profile,
    profile_key,
    stored_profile,
)
from specviz.record.pairs import PairSpec
from specviz.record.prompts import read_presets
from specviz.record.trace import Forecast, RunConfig, StepCosts
from specviz.store import save_value
from specviz.store.dataclass_json import from_json
from tests.traces import make_costs, make_prompt, make_trace

GAMMA_2 = RunConfig(gamma=2, max_new_tokens=64)
# Draft 1 ms for a token and 2 ms for two; target 10 ms, and 1 ms for each token more.
FLAT = make_costs()


def profile(*texts: tuple[str, list[float]]) -> Profile:
    return Profile(
        kind="story",
        texts=tuple(TextOdds(prompt=prompt, odds=tuple(odds)) for prompt, odds in texts),
    )


def test_everything_accepted() -> None:
    # Three tokens per round; each round but the first follows a bonus: 2 + 1 + 12 ms.
    made = forecast(profile(("a", [1.0] * 9)), FLAT, GAMMA_2, "mine", 4)
    assert made is not None
    assert (made.tau, made.kind, made.num_texts) == (3.0, "story", 1)
    assert made.speedup == pytest.approx(3 * 10 / (2 + 1 + 12))


def test_nothing_accepted() -> None:
    # One token per round and never a bonus: 1 + 1 + 12 ms.
    made = forecast(profile(("a", [0.0] * 9)), FLAT, GAMMA_2, "mine", 4)
    assert made is not None
    assert (made.tau, made.speedup) == (1.0, pytest.approx(10 / 14))


def test_texts_are_weighted_by_their_rounds() -> None:
    # Nine tokens; a round needs three more tokens. All accepted: 3 rounds, all with a bonus, 9
    # tokens; none accepted: 7 rounds, 7 tokens.
    made = forecast(profile(("a", [1.0] * 9), ("b", [0.0] * 9)), FLAT, GAMMA_2, "mine", 4)
    assert made is not None
    assert made.tau == pytest.approx(16 / 10)
    assert made.speedup == pytest.approx(1.6 * 10 / ((0.3 * 2 + 0.7 * 1) + 1 + 12))
    assert made.num_texts == 2


def test_costs_are_those_at_mid_text() -> None:
    # At context 100 + 64 / 2 = 132, midway in 100 .. 164, a draft step takes 1.5 ms.
    costs = StepCosts(
        contexts=(100, 164),
        draft=((0.001, 0.002), (0.001, 0.002)),
        target=((0.01, 0.01),) * 17,
    )
    made = forecast(profile(("a", [0.0] * 9)), costs, GAMMA_2, "mine", 100)
    assert made is not None
    assert made.speedup == pytest.approx(10 / (2 * 1.5 + 10))


def test_the_prompts_own_text_is_left_out() -> None:
    both = profile(("mine", [1.0] * 9), ("other", [0.0] * 9))
    other_only = profile(("other", [0.0] * 9))
    made = forecast(both, FLAT, GAMMA_2, "mine", 4)
    assert made is not None
    assert made == forecast(other_only, FLAT, GAMMA_2, "mine", 4)
    assert made.num_texts == 1
    assert forecast(both, FLAT, GAMMA_2, "new", 4) != made


def test_texts_too_short_for_a_round_are_left_out() -> None:
    mixed = profile(("short", [1.0] * 2), ("long", [0.0] * 3))
    made = forecast(mixed, FLAT, GAMMA_2, "mine", 4)
    assert made is not None
    assert (made.num_texts, made.tau) == (1, 1.0)


@pytest.mark.parametrize(
    ("known", "config"),
    [
        (None, GAMMA_2),
        (profile(), GAMMA_2),
        (profile(("mine", [1.0] * 9)), GAMMA_2),
        (profile(("a", [1.0] * 2)), GAMMA_2),
        (profile(("a", [1.0] * 9)), replace(GAMMA_2, drafter="prompt-lookup")),
        (profile(("a", [1.0] * 9)), replace(GAMMA_2, rule="over-accept", epsilon=0.1)),
    ],
    ids=["no profile", "no text", "its own text", "short text", "prompt lookup", "lossy rule"],
)
def test_no_forecast_without_a_usable_profile(known: Profile | None, config: RunConfig) -> None:
    assert forecast(known, FLAT, config, "mine", 4) is None


# Measured profiles


def library_logits(model: torch.nn.Module, ids: list[int], first: int) -> torch.Tensor:
    """Return transformers' logits before each token from position ``first`` on."""
    with torch.inference_mode():
        return model(torch.tensor([ids])).logits[0, first - 1 : -1].double()


def odds_by_library(pair: Pair, prompt: str, config: RunConfig) -> tuple[list[int], list[float]]:
    """Return the target's text, and min(1, draft / target) at each of its tokens."""
    prompt_ids: list[int] = pair.tokenizer(prompt)["input_ids"]
    emitted = list(decode_plainly(pair, prompt_ids, replace(config, max_new_tokens=128)))
    ids, first = prompt_ids + emitted, len(prompt_ids)
    assert pair.draft is not None
    own = []
    for model in (pair.draft, pair.target):
        logits = library_logits(model, ids, first)
        if config.greedy:
            probs = torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).double()
        else:
            probs = (logits / config.temperature).softmax(-1)
        own.append(probs[torch.arange(len(emitted)), torch.tensor(emitted)])
    return emitted, (own[0] / own[1]).clamp(max=1.0).tolist()


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_a_profile_has_the_odds_along_the_targets_texts(pair: Pair, temperature: float) -> None:
    config = RunConfig(temperature=temperature, max_new_tokens=3, gamma=2, seed=5)
    measured = measure_profile(pair, config, "list")
    prompts = [preset.text for preset in read_presets() if preset.kind == "list"]
    assert [text.prompt for text in measured.texts] == prompts
    for text in measured.texts:
        emitted, expected = odds_by_library(pair, text.prompt, config)
        assert len(text.odds) == len(emitted) <= 128
        assert text.odds == pytest.approx(expected, abs=1e-4)
    seen = {odds for text in measured.texts for odds in text.odds}
    assert (seen == {0.0, 1.0}) == config.greedy
    assert min(seen) < 0.5 < max(seen)


def test_a_profile_is_stored_by_pair_sampling_and_kind(pair: Pair, empty_home: Path) -> None:
    config = RunConfig(temperature=0.0)
    assert stored_profile(pair, config, "copying") is None
    measured = measure_profile(pair, config, "copying")
    assert stored_profile(pair, replace(config, gamma=2, max_new_tokens=9), "copying") == measured
    assert stored_profile(pair, config, "story") is None
    assert stored_profile(pair, replace(config, temperature=1.0), "copying") is None


def test_the_key_depends_on_all_that_changes_acceptance(pair: Pair) -> None:
    config, models = RunConfig(), pair.info
    assert models.draft is not None
    others = (
        replace(models, target=replace(models.target, weights_sha256="other")),
        replace(models, draft=replace(models.draft, weights_sha256="other")),
    )
    keys = [
        profile_key(pair, config, "story"),
        profile_key(pair, config, "list"),
        profile_key(pair, replace(config, temperature=0.71), "story"),
        profile_key(pair, replace(config, top_k=3), "story"),
        profile_key(pair, replace(config, top_p=0.5), "story"),
        profile_key(pair, replace(config, chat=True), "story"),
        *(profile_key(replace(pair, info=info), config, "story") for info in others),
    ]
    assert len(set(keys)) == len(keys)


def test_the_embedded_pair_ships_with_acceptance_on_the_presets(empty_home: Path) -> None:
    """With an empty data folder; one profile, measured again, is the same."""
    embedded = load_pair(PairSpec(threads=1))
    for kind in {preset.kind for preset in read_presets()}:
        for temperature in (0.0, RunConfig().temperature):
            config = RunConfig(temperature=temperature)
            shipped = stored_profile(embedded, config, kind)
            assert shipped is not None, (kind, temperature)
            assert shipped.kind == kind
            assert all(0 <= odds <= 1 + 1e-6 for text in shipped.texts for odds in text.odds)
    greedy = RunConfig(temperature=0.0)
    shipped = stored_profile(embedded, greedy, "dialogue")
    measured = measure_profile(embedded, greedy, "dialogue")
    assert shipped is not None
    for one, other in zip(shipped.texts, measured.texts, strict=True):
        assert one.prompt == other.prompt
        assert one.odds == pytest.approx(other.odds, abs=1e-3)


def test_without_step_costs_an_outlook_has_no_speedups(pair: Pair, empty_home: Path) -> None:
    record = make_trace(prompt=replace(make_prompt(), text="mine"), config=GAMMA_2)
    made = profile(("a", [0.5] * 40))
    assert save_value("acceptance", profile_key(pair, GAMMA_2, "story"), made)
    bare, whole = make_outlook(pair, record), make_outlook(pair, replace(record, step_costs=FLAT))
    assert bare is not None
    assert whole is not None
    assert (bare.speedups, len(whole.speedups)) == ((), 16)
    assert bare.taus == whole.taus
    assert bare.alpha == pytest.approx(0.5, abs=0.02)
    assert bare.tau(2) == bare.taus[1]
    assert bare.tau(99) is None


# The interval


def test_the_interval_covers_runs_on_a_text_that_was_left_out() -> None:
    """Runs are drawn along each text of the shipped profiles, with known costs."""
    costs = replace(FLAT, draft_errors=(0.0,) * 3, target_errors=(0.0,) * 17)
    chance, inside, tries = random.Random(1), 0, 0
    for each in from_json(SHIPPED.read_text(encoding="utf-8"), Shipped).profiles:
        temperature = 0.0 if "temperature 0 " in each.key else 0.7
        for gamma in (2, 4, 8):
            for text in each.profile.texts:
                length = len(text.odds)
                if length < 40:
                    continue
                config = RunConfig(gamma=gamma, temperature=temperature, max_new_tokens=length)
                made = forecast(each.profile, costs, config, text.prompt, 20)
                assert made is not None
                assert made.low is not None
                assert made.high is not None
                for _ in range(6):
                    timing = math.exp(chance.gauss(0, AIM / 1.96))
                    seen = timing * drawn_speedup(text.odds, config, costs, chance)
                    inside += made.low <= seen <= made.high
                    tries += 1
    assert tries > 1000
    assert 0.93 < inside / tries < 0.97


def drawn_speedup(
    odds: Sequence[float], config: RunConfig, costs: StepCosts, chance: random.Random
) -> float:
    place = rounds = bonuses = 0
    while place + config.gamma + 1 <= len(odds):
        ahead = odds[place : place + config.gamma]
        refused = (i for i, each in enumerate(ahead) if chance.random() >= each)
        accepted = next(refused, config.gamma)
        place, rounds, bonuses = (
            place + accepted + 1,
            rounds + 1,
            bonuses + (accepted == config.gamma),
        )
    context = 20 + len(odds) / 2
    seconds = costs.draft_phase(context, config.gamma, bonuses / rounds)
    seconds += costs.verify(context, config.gamma + 1)
    return place / rounds * costs.target_step(context) / seconds


def test_the_width_of_the_interval_names_its_source() -> None:
    alike, unlike = [("a", [0.6] * 60), ("b", [0.6] * 60)], [("a", [0.2] * 60), ("b", [0.9] * 60)]
    exact = replace(FLAT, draft_errors=(0.0,) * 3, target_errors=(0.0,) * 17)
    rough = replace(FLAT, draft_errors=(0.9,) * 3, target_errors=(0.9,) * 17)
    shares = [
        forecast(profile(*texts), costs, GAMMA_2, "mine", 4)
        for texts, costs in ((unlike, exact), (alike, rough))
    ]
    found = [each.from_text for each in shares if each]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0] > 0.95
    assert found[1] < 0.5
    alone = forecast(profile(alike[0]), exact, GAMMA_2, "mine", 4)
    assert alone is not None
    assert (alone.low, alone.from_text) == (None, None)  # one text has no spread


def test_another_load_than_that_of_the_costs_widens_the_interval() -> None:
    texts = profile(*((str(place), [0.6 + place / 1000] * 60) for place in range(9)))
    errors = {"draft_errors": (0.01,) * 3, "target_errors": (0.01,) * 17}
    quiet = replace(FLAT, **errors, others=0.0)
    found: list[Forecast] = []
    for costs, load in (
        (quiet, None),
        (quiet, 0.0),
        (quiet, 0.5),
        (replace(quiet, others=0.5), 0.5),
    ):
        made = forecast(texts, costs, GAMMA_2, "mine", 4, load=load)
        assert made is not None
        found.append(made)
    unknown, same, busier, used_to_it = found
    assert unknown == same == used_to_it
    assert busier.speedup == same.speedup
    assert busier.low is not None
    assert same.low is not None
    assert busier.low < 0.95 * same.low
    assert busier.from_text is not None
    assert same.from_text is not None
    assert busier.from_text < same.from_text
