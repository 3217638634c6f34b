"""Tables with few samples are fitted by a curve; others stay as they are."""

from __future__ import annotations

import math
import random
from dataclasses import replace

from specviz.figures.smooth_costs import smoothed
from specviz.record.step_costs import StepCosts
from tests.traces import make_costs

ROWS = range(2, 18)


def true_v(tokens: int) -> float:
    blocks = 0.1 * (tokens >= 7) + 0.15 * (tokens >= 13)
    return math.exp(0.05 + 0.02 * (tokens - 1) + blocks)


def noisy_table(chance: random.Random, noise: float) -> StepCosts:
    table = make_costs()
    step = table.target[0][0]

    def measured(tokens: int) -> tuple[float, ...]:
        logs = (chance.gauss(0, noise) + (chance.random() < 0.05) * 0.5 for _ in table.contexts)
        return tuple(step * true_v(tokens) * math.exp(each) for each in logs)

    return replace(
        table,
        target=(table.target[0], *map(measured, ROWS)),
        target_errors=(1.0, *(1.0 for _ in ROWS)),
        samples=1,
    )


def v_of(table: StepCosts, tokens: int) -> float:
    return table.verify(table.contexts[0], tokens) / table.target_step(table.contexts[0])


def test_a_table_with_enough_samples_stays_as_it_is() -> None:
    table = replace(noisy_table(random.Random(1), 0.1), samples=None)
    assert smoothed(table) is table


def test_the_curve_is_closer_than_the_samples_and_its_interval_covers() -> None:
    chance, inside, tries = random.Random(2), 0, 0
    raw_errors, errors = list[float](), list[float]()
    for _ in range(60):
        raw = noisy_table(chance, 0.1)
        made = smoothed(raw)
        for tokens in ROWS:
            error = abs(math.log(v_of(made, tokens) / true_v(tokens)))
            inside += error < made.target_errors[tokens - 1]
            tries += 1
            errors.append(error)
            raw_errors.append(abs(math.log(v_of(raw, tokens) / true_v(tokens))))
        vs = [v_of(made, tokens) for tokens in ROWS]
        assert vs == sorted(vs)
    assert sum(errors) < 0.6 * sum(raw_errors)
    assert inside / tries > 0.85


def test_interpolated_rows_lie_on_the_curve() -> None:
    raw = noisy_table(random.Random(3), 0.0)
    wrong = replace(raw, target=(*raw.target[:4], (9.0,) * 3, *raw.target[5:]), interpolated=(5,))
    made = smoothed(wrong)
    assert abs(math.log(v_of(made, 5) / true_v(5))) < 0.02
    assert (made.interpolated, made.samples) == ((), None)
