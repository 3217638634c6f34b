"""Stored sweeps that were changed by hand: refused with one line, or shown without an error."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from specviz.errors import TraceError
from specviz.figures.load_figures import load_figures
from specviz.figures.load_words import load_words
from specviz.load.export import sweep_csv, sweep_html
from specviz.load.stored import sweep_from_json, sweep_to_json
from tests.load.sweeps import sweep_of

SWEEP = sweep_to_json(sweep_of((1, 4), units=1))
WRONG: dict[str, Callable[[dict[str, Any]], object]] = {
    "no lanes": lambda sweep: sweep.update(lanes=[]),
    "no levels": lambda sweep: sweep["settings"].update(levels=[]),
    "a level of 0": lambda sweep: sweep["settings"].update(levels=[0, 1]),
    "a lane that is missing": lambda sweep: sweep["blocks"][0].update(lane=7),
    "a lane before the first": lambda sweep: sweep["blocks"][0].update(lane=-1),
    "a level that is missing": lambda sweep: sweep["blocks"][0].update(level=3),
    "an empty window": lambda sweep: sweep["blocks"][0].update(end=sweep["blocks"][0]["begin"]),
    "chunks without arrivals": lambda sweep: request_of(sweep)["arrivals"].pop(),
    "arrivals out of order": lambda sweep: request_of(sweep)["arrivals"].reverse(),
    "an answer before its request": lambda sweep: request_of(sweep).update(sent=1e6),
    "tokens below 0": lambda sweep: request_of(sweep).update(tokens=-5),
    "counters below 0": lambda sweep: sweep["blocks"][0]["after"].update(generated=-1.0),
    "an endless number": lambda sweep: sweep["blocks"][0].update(end=1e300),
    "an unknown field": lambda sweep: sweep.update(speedup=3.0),
}


def request_of(sweep: dict[str, Any]) -> dict[str, Any]:
    return sweep["blocks"][0]["requests"][0]


@pytest.mark.parametrize("name", WRONG)
def test_a_sweep_that_cannot_be_is_refused_with_one_line(name: str) -> None:
    record = json.loads(SWEEP)
    WRONG[name](record["sweep"])
    with pytest.raises(TraceError) as refused:
        sweep_from_json(json.dumps(record), "changed.json")
    assert "changed.json" in str(refused.value)
    assert "\n" not in refused.value.culprit


def numbers_in(value: object) -> Iterator[tuple[Any, Any]]:
    """Yield the container and the key of every number."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)  # pyright: ignore
    for key, each in list(pairs):  # pyright: ignore
        if isinstance(each, (dict, list)):
            yield from numbers_in(each)
        elif isinstance(each, (int, float)) and not isinstance(each, bool):
            yield value, key


@pytest.mark.parametrize("seed", range(3))
def test_changed_numbers_are_refused_or_shown(seed: int) -> None:
    random = Random(seed)
    shown = 0
    for _ in range(8):
        record = json.loads(SWEEP)
        for container, key in random.sample(list(numbers_in(record["sweep"])), 2):
            container[key] = random.choice([0, 1, 0.5, 7, 1e9, -1, 1e15])
        try:
            sweep = sweep_from_json(json.dumps(record), "it")
        except TraceError:
            continue
        shown += 1
        figures = load_figures(sweep)
        assert load_words(sweep, figures).verdict
        assert sweep_csv(sweep)
        assert "nan" not in sweep_html(sweep)
    assert shown
