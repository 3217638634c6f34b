"""Curves of a training: thinned out, repeated steps, and read again from its log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specviz.training.drafts.curves import Curves, logged_curves
from specviz.training.drafts.progress import Trained


def step(number: int, loss: float = 1.0, accepted: tuple[float, ...] = ()) -> Trained:
    return Trained(
        step=number, planned=10_000, loss=loss, seconds=0.1, accepted=accepted,
        expected=sum(accepted),
    )  # fmt: skip


def test_a_long_curve_stays_small_and_keeps_its_mean() -> None:
    curves, losses = Curves(), [number % 7 for number in range(5000)]
    for number, loss in enumerate(losses, 1):
        curves.add(step(number, float(loss), (number / 5000,)))
    assert len(curves.losses) <= 400
    assert len(curves.checks) <= 400
    total = sum(each.loss * each.steps for each in curves.losses)
    assert total == pytest.approx(sum(losses))
    assert (curves.step, curves.checks[0].step, curves.checks[-1].step) == (5000, 1, 5000)


def test_repeated_steps_replace_the_earlier_ones() -> None:
    curves = Curves()
    for number in range(1, 11):
        curves.add(step(number, 9.0, (0.9 if number == 10 else 0.1,)))
    curves.add(step(6, 2.0, (0.2,)))
    assert [each.step for each in curves.losses] == [1, 2, 3, 4, 5, 6]
    assert curves.best is not None
    assert (curves.best.step, curves.step) == (6, 6)


def test_a_log_gives_the_curves_also_if_a_line_is_cut(tmp_path: Path) -> None:
    rows = [
        {"step": 1, "loss": 2.0, "seconds": 0.1},
        {"step": 2, "loss": 1.0, "seconds": 0.1, "accepted": [0.5], "agreeing": [0.6],
         "expected": 0.5},
    ]  # fmt: skip
    text = "\n".join(map(json.dumps, rows))
    (tmp_path / "log.jsonl").write_text(f'{text}\n[1]\n{{"step": 3, "lo', encoding="utf-8")
    curves = logged_curves(tmp_path, 2)
    assert [each.loss for each in curves.losses] == [2.0, 1.0]
    assert curves.best is not None
    assert curves.best.accepted == (0.5,)
    assert logged_curves(tmp_path / "none", 2).step == 0
