"""The power of the audit on the embedded pair, with and without bugs.

Also checks each bug's distance from the target's distribution in ``record/breaks.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice

import pytest
import torch

from specviz.engine import Pair, load_pair
from specviz.engine.decoding.sampling import Sampler
from specviz.record.breaks import BREAKS
from specviz.record.pairs import PairSpec
from specviz.record.trace import Round, RunConfig
from specviz.tune.audit import ROUNDS, Audit
from specviz.tune.short_runs import audit_settings, contexts, fresh_logits, speculation

SETTINGS = RunConfig(temperature=1.0)
BIASED = [each.name for each in BREAKS.values() if each.biased]
# Each measurement takes seconds. ``engine/test_bugs.py`` also injects the others in `make test`.
OFTEN = ("bonus-from-draft",)
Distributions = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


@cache
def embedded_pair() -> Pair:
    return load_pair(PairSpec(threads=1))


def alarm_at(broken: str | None, seed: int, runs: int) -> int | None:
    """Return the run of the alarm; the audit stops there."""
    audit = Audit(config=SETTINGS, runs=runs, broken=broken, seed=seed)
    reports = audit.tested(embedded_pair())
    return next((report.alarm_at for report in reports if report.alarm), None)


@pytest.mark.thorough
@pytest.mark.timeout(3600)
def test_few_alarms_without_a_bug() -> None:
    alarms = [alarm_at(None, seed, 100) for seed in range(200)]
    print_alarms("the unmodified loop", alarms)
    assert sum(each is not None for each in alarms) <= 6


@pytest.mark.thorough
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", BIASED)
def test_almost_every_audit_detects_a_bug(name: str) -> None:
    alarms = [alarm_at(name, seed, 20_000) for seed in range(20)]
    print_alarms(name, alarms)
    assert sum(each is not None for each in alarms) >= 19


def print_alarms(name: str, alarms: Sequence[int | None]) -> None:
    known = sorted(each for each in alarms if each is not None)
    when = f", at runs {known[0]:,} to {known[-1]:,}" if known else ""
    print(f"{name}: {len(known)} of {len(alarms)} audits alarmed{when}")


# -- stated distances: mean total variation from the target's distribution at affected tokens


def runs(name: str, count: int) -> Iterator[tuple[tuple[int, ...], list[Round]]]:
    settings = audit_settings(SETTINGS, ROUNDS * (SETTINGS.gamma + 1))
    prompts = contexts(embedded_pair(), settings)
    for number in range(count):
        context = prompts[number % len(prompts)]
        run = speculation(embedded_pair(), context, replace(settings, seed=number), name)
        yield context, list(islice(run, ROUNDS))


def distributions(context: tuple[int, ...], rounds: list[Round]) -> Distributions:
    """Return the distributions of draft, colder draft and target, from fresh passes."""
    pair, text = embedded_pair(), [token for each in rounds for token in each.emitted]
    steps = (pair.draft_step, pair.target_step)
    draft, target = (fresh_logits(pair, make, context, text).double() for make in steps)
    own, colder = (Sampler(replace(SETTINGS, temperature=each)) for each in (1.0, 0.5))
    return own.probs(draft), colder.probs(draft), own.probs(target)


def at_bonus(rounds: list[Round]) -> torch.Tensor:
    """Return which tokens are bonus tokens."""
    return torch.tensor(
        [place == each.num_drafted for each in rounds for place in range(len(each.emitted))]
    )


def accepted(
    name: str, draft: torch.Tensor, colder: torch.Tensor, target: torch.Tensor
) -> torch.Tensor:
    """Return the probability that each token is drawn and accepted."""
    if name == "draft-temperature":
        return colder * (target / draft).clamp(max=1.0)
    if name == "reused-uniform":  # uniform between the cumulative sums
        before = draft.cumsum(-1) - draft
        return (target / draft - before).clamp(min=0.0).minimum(draft)
    return draft.minimum(target)


def distances_at_candidates(name: str, count: int) -> list[float]:
    found: list[float] = []
    for context, rounds in runs(name, count):
        draft, colder, target = distributions(context, rounds)
        accepted_probs = accepted(name, draft, colder, target)
        residual = target if name == "recovered-from-target" else (target - draft).clamp(min=0.0)
        residual = residual / residual.sum(-1, keepdim=True)
        emitted = accepted_probs + (1.0 - accepted_probs.sum(-1, keepdim=True)) * residual
        away = (emitted - target).abs().sum(-1) / 2
        found += away[~at_bonus(rounds)].tolist()
    return found


def distances_at_bonus(count: int) -> list[float]:
    found: list[float] = []
    for context, rounds in runs("bonus-from-draft", count):
        draft, _, target = distributions(context, rounds)
        away = (draft - target).abs().sum(-1) / 2
        found += away[at_bonus(rounds)].tolist()
    return found


def distances_after_a_rejection(count: int) -> list[float]:
    pair, sampler, found = embedded_pair(), Sampler(SETTINGS), list[float]()
    for context, rounds in runs("untrimmed-target-cache", count):
        written, read = list(context), list(context)
        for entry in rounds:
            ids = [each.token_id for each in entry.candidates]
            text = list(entry.emitted)
            wrong = sampler.probs(fresh_logits(pair, pair.target_step, read, [*ids, 0]))
            right = sampler.probs(fresh_logits(pair, pair.target_step, written, text))
            if len(read) > len(written):
                found += ((wrong[: len(text)] - right).abs().sum(-1) / 2).tolist()
            written += text
            read += [*ids, text[-1]]
    return found


def distances(name: str, count: int) -> list[float]:
    if name == "bonus-from-draft":
        return distances_at_bonus(count)
    if name == "untrimmed-target-cache":
        return distances_after_a_rejection(count)
    return distances_at_candidates(name, count)


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=() if each in OFTEN else pytest.mark.thorough) for each in BIASED],
)
def test_stated_distances_match_recorded_distributions(name: str) -> None:
    found = torch.tensor(distances(name, 45))
    spread = float(found.std()) / len(found) ** 0.5
    assert BREAKS[name].distance == pytest.approx(float(found.mean()), abs=5 * spread + 0.002)
