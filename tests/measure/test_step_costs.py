"""Step costs: a full table, measured once and stored by all that a step's cost depends on.

Two measurements never agree to the last bit, so an equal table is the stored one.
"""

from __future__ import annotations

import math
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from specviz.engine.decoding.cost_columns import MAX_TOKENS
from specviz.engine.decoding.costs import measure_step_costs
from specviz.engine.model.pair import Pair
from specviz.engine.model.pass_bytes import pass_bytes
from specviz.measure.forecast import profile_key
from specviz.measure.measured_run import finish, measured_run
from specviz.measure.step_costs import costs_key, mend_step_costs, step_costs, stored_costs
from specviz.record.trace import RunConfig, StepCosts
from specviz.store import load_value, save_value
from tests.engine.models import noisy_copy, pair_of, tiny_model
from tests.traces import BODY, make_costs

GREEDY = RunConfig(temperature=0.0)
WARM = RunConfig(temperature=0.7)
LOOKUP = RunConfig(temperature=0.0, drafter="prompt-lookup")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the real measurement time each step only once."""
    once = partial(measure_step_costs, repeats=1)
    monkeypatch.setattr("specviz.engine.decoding.costs.measure_step_costs", once)


def assert_full(costs: StepCosts | None, *, draft_rows: int) -> None:
    assert costs is not None
    assert len(costs.contexts) == 3
    assert all(shorter < longer for shorter, longer in pairwise(costs.contexts))
    assert (len(costs.draft), len(costs.target)) == (draft_rows, MAX_TOKENS)
    for row in (*costs.draft, *costs.target):
        assert len(row) == 3
        assert all(math.isfinite(seconds) and seconds > 0 for seconds in row)


def test_the_table_is_full_and_reused(pair: Pair, empty_home: Path, quick: None) -> None:
    first = step_costs(pair, GREEDY)
    assert_full(first, draft_rows=2)
    assert step_costs(pair, replace(GREEDY, gamma=9, seed=4, max_new_tokens=7)) == first
    assert step_costs(pair, WARM) != first
    fresh = step_costs(pair, GREEDY, fresh=True)
    assert fresh != first
    assert step_costs(pair, GREEDY) == fresh


def test_drafters_without_steps_share_a_table(pair: Pair, empty_home: Path, quick: None) -> None:
    lookup = step_costs(pair, replace(GREEDY, drafter="prompt-lookup"))
    assert lookup is not None
    assert not lookup.draft
    own = RunConfig(temperature=0.0, drafter="a:B", draft_until="confidence:0.4")
    for config in (replace(GREEDY, drafter="suffix"), own):
        assert step_costs(pair, config) == lookup


@pytest.mark.thorough
def test_costs_come_from_earlier_runs_of_other_processes_if_there_are_any(
    pair: Pair, empty_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(WARM, max_new_tokens=48)

    def costs(seed: int) -> StepCosts:
        run = measured_run(pair, (1, 2, 3), replace(config, seed=seed), budget=0.5)
        found = finish(run).step_costs
        assert found is not None
        return found

    first = costs(0)
    assert (first.of_this_run, first.runs, first.table) == (True, 1, False)
    assert first.bandwidth is not None
    assert first.target_reads == pass_bytes(pair.target)
    assert [(each.of_this_run, each.runs) for each in (costs(1), costs(2))] == [
        (False, 1),
        (False, 2),
    ]
    monkeypatch.setattr("specviz.measure.step_costs._process", lambda _: "another")
    assert [costs(seed).runs for seed in (3, 4)] == [3, 3]  # not those of the own process
    table = step_costs(pair, config, fresh=True)  # forgets the runs
    assert table is not None
    assert (table.runs, table.table) == (0, True)
    assert costs(5).runs == 0
    assert costs(6).runs == 1


def test_without_a_draft_model_there_are_no_draft_steps(
    pair: Pair, empty_home: Path, quick: None
) -> None:
    alone = replace(pair, draft=None, info=replace(pair.info, draft=None))
    first = step_costs(alone, LOOKUP)
    assert_full(first, draft_rows=0)
    assert step_costs(alone, LOOKUP) == first


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param("truncated", marks=pytest.mark.thorough),
        "a cost of nothing",
        "another key",
        "no JSON",
    ],
)
def test_a_damaged_table_is_measured_again(
    pair: Pair, empty_home: Path, quick: None, damage: str
) -> None:
    first = step_costs(pair, GREEDY)
    assert first is not None
    (file,) = (empty_home / "step-costs").iterdir()
    text = file.read_text()
    damaged = {
        "truncated": text[: len(text) // 2],
        "a cost of nothing": text.replace(repr(first.target[0][0]), "0.0"),
        "another key": text.replace("greedy", "temperature"),
        "no JSON": "\0",
    }[damage]
    assert damaged != text
    file.write_text(damaged)
    again = step_costs(pair, GREEDY)
    assert again != first
    assert_full(again, draft_rows=2)
    assert step_costs(pair, GREEDY) == again


def test_a_long_context_window_uses_the_standard_contexts(pair: Pair) -> None:
    config = replace(GREEDY, drafter="prompt-lookup")  # half the time
    long = replace(pair, max_context=4096, info=replace(pair.info, draft=None))
    costs = step_costs(long, config)
    assert costs is not None
    assert costs.contexts == (32, 256, 1024)


@pytest.mark.parametrize(
    "context", [20, *(pytest.param(each, marks=pytest.mark.thorough) for each in (24, 40)), 96]
)
def test_a_short_context_window_is_never_exceeded(
    context: int, empty_home: Path, quick: None
) -> None:
    # Learned positions: one token beyond the last is an error.
    target = tiny_model("gpt2", n_positions=context, n_layer=1)
    short = pair_of(target, noisy_copy(target), max_context=context)
    costs = step_costs(short, GREEDY)
    assert_full(costs, draft_rows=2)
    assert costs is not None
    assert costs.contexts[-1] < context


def variants(pair: Pair, library_pair: Pair) -> dict[str, str]:
    """Return the keys of cases that must all differ."""
    place, models = pair.environment, pair.info
    assert models.draft is not None
    environments = {
        "threads": replace(place, threads=2),
        "dtype": replace(place, dtype="bfloat16"),
        "device": replace(place, device="cuda"),
        "device name": replace(place, device_name="Another"),
        "torch": replace(place, versions=place.versions | {"torch": "1.0"}),
        "numba": replace(place, versions=place.versions | {"numba": "1.0"}),
    }
    infos = {
        "target": replace(models, target=replace(models.target, weights_sha256="other")),
        "draft": replace(models, draft=replace(models.draft, weights_sha256="other")),
        "no draft": replace(models, draft=None),
    }
    configs = {
        "greedy": GREEDY,
        "temperature": WARM,
        "top-k": replace(WARM, top_k=5),
        "top-p": replace(WARM, top_p=0.9),
        "top-k and top-p": replace(WARM, top_k=5, top_p=0.9),
        "prompt lookup": LOOKUP,
        "a tree": replace(GREEDY, branching=(3, 2)),
        "another tree": replace(GREEDY, branching=(2, 3)),
        "the likeliest tree": replace(GREEDY, branching=(3, 2), rule="match"),
        "a dynamic tree": replace(GREEDY, dynamic_tree=(4, 8)),
        "another dynamic tree": replace(GREEDY, dynamic_tree=(4, 9)),
        "a deeper dynamic tree": replace(GREEDY, dynamic_tree=(4, 8), gamma=GREEDY.gamma + 1),
        "the likeliest dynamic tree": replace(GREEDY, dynamic_tree=(4, 8), rule="match"),
        "drafts": replace(GREEDY, num_drafts=4),
        "drafts, none twice": replace(GREEDY, num_drafts=4, replacement=False),
        "early exit": replace(GREEDY, drafter="early-exit:2"),
        "a later exit": replace(GREEDY, drafter="early-exit:3"),
    }
    keys = {
        name: costs_key(replace(pair, environment=e), GREEDY) for name, e in environments.items()
    }
    keys |= {name: costs_key(replace(pair, info=info), GREEDY) for name, info in infos.items()}
    keys |= {name: costs_key(pair, config) for name, config in configs.items()}
    return keys | {"library": costs_key(library_pair, GREEDY)}


def test_the_key_depends_on_all_that_changes_costs(pair: Pair, library_pair: Pair) -> None:
    keys = variants(pair, library_pair)
    assert len(set(keys.values())) == len(keys)


def test_the_key_depends_on_bodies_and_is_unchanged_without(pair: Pair) -> None:
    models = pair.info
    assert models.draft is not None
    deeper = replace(BODY, shape=replace(BODY.shape, layers=13))
    infos = (
        models,
        replace(models, target=replace(models.target, body=BODY)),
        replace(models, target=replace(models.target, body=deeper)),
        replace(models, draft=replace(models.draft, body=BODY)),
    )
    pairs = [replace(pair, info=info) for info in infos]
    assert len({costs_key(each, GREEDY) for each in pairs}) == 4
    assert "wide" not in costs_key(pair, GREEDY)
    assert len({profile_key(each, GREEDY, "story") for each in pairs}) == 1


def test_bandwidth_and_bytes_per_pass_are_stored_with_the_table(
    pair: Pair, empty_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "specviz.engine.decoding.costs.measure_step_costs", lambda *_, **__: make_costs()
    )
    made, lookup = step_costs(pair, GREEDY), step_costs(pair, LOOKUP)
    assert made is not None
    assert lookup is not None
    assert made.bandwidth is not None
    assert 1e8 < made.bandwidth < 1e13
    assert pair.draft is not None
    assert made.target_reads == lookup.target_reads == pass_bytes(pair.target)
    assert (made.draft_reads, lookup.draft_reads) == (pass_bytes(pair.draft), None)
    assert replace(made, bandwidth=None, target_reads=None, draft_reads=None) == make_costs()
    assert step_costs(pair, GREEDY) == made  # as it was stored


def test_the_key_ignores_settings_without_effect_on_costs(pair: Pair) -> None:
    same = replace(WARM, temperature=1.3, gamma=2, seed=8, max_new_tokens=9, ignore_eos=True)
    assert costs_key(pair, same) == costs_key(pair, WARM)
    assert costs_key(pair, replace(WARM, top_k=5)) == costs_key(pair, replace(WARM, top_k=50))


def test_a_noisy_table_is_stored_as_noisy() -> None:
    quiet, noisy = make_costs(), replace(make_costs(), drift=0.2)
    assert (quiet.noisy, noisy.noisy) == (False, True)
    assert save_value("step-costs", "some key", noisy)
    assert load_value("step-costs", "some key", StepCosts) == noisy


def test_noisy_costs_are_measured_again_and_the_better_table_kept(
    pair: Pair, empty_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most three times; an aborted measurement does not count."""
    config, key = RunConfig(), costs_key(pair, RunConfig())
    made: list[float] = []
    drifts = [0.4, 0.2, 0.3]

    def measured(*_: object, **__: object) -> StepCosts:
        if len(made) == 1 and not broken:
            broken.append(True)
            raise KeyboardInterrupt
        made.append(drifts[len(made)])
        return replace(make_costs(), drift=made[-1])

    broken: list[bool] = []
    monkeypatch.setattr("specviz.engine.decoding.costs.measure_step_costs", measured)
    tries = Counter[str]()
    kept: list[float] = []
    for _ in range(6):
        with suppress(KeyboardInterrupt):
            mend_step_costs(pair, config, tries)
        found = stored_costs(pair, config)
        assert found is not None
        kept.append(found.drift)
    assert made == drifts
    assert kept == [0.4, 0.4, 0.2, 0.2, 0.2, 0.2]
    assert save_value("step-costs", key, make_costs())
    mend_step_costs(pair, config, Counter())
    assert made == drifts  # nothing to mend
