"""The plan of the bench on a GPU, and how its figures are compared with the goals."""

from __future__ import annotations

import pytest

from specviz.bench.gpu_goals import Goal, GpuFigure, judge_goals
from specviz.bench.gpu_plan import GpuPlan, gpu_plan
from specviz.errors import ConfigError


def plan(**asked: str | None) -> GpuPlan:
    usual: dict[str, str | None] = dict.fromkeys(("bodies", "contexts", "gammas"))
    return gpu_plan(**(usual | asked), repeats=7, quick=False)


def test_default_and_quick_plans() -> None:
    usual = plan()
    assert [str(each) for each in usual.bodies] == ["500M/7B", "1B/8B"]
    assert (usual.contexts, usual.gammas) == ((256, 4096), (3, 5, 8))
    assert usual.backend == "inductor"
    quick = gpu_plan(bodies=None, contexts="64", gammas=None, repeats=1, quick=True)
    assert ([str(each) for each in quick.bodies], quick.gammas) == (["1B/8B"], (5,))
    assert quick.contexts == (64,)


def test_reads_typed_lists() -> None:
    typed = plan(bodies="none/90m,1B/llama-3.1-8b", contexts="4096, 32", gammas="4,4,2")
    assert [str(each) for each in typed.bodies] == ["none/90M", "1B/llama-3.1-8b"]
    assert (typed.contexts, typed.gammas) == ((32, 4096), (4, 2))
    assert typed.middle(32) == 32 + typed.num_tokens / 2


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"bodies": "8B"}, "'8B' is not two sizes"),
        ({"bodies": "1B/huge"}, "'huge' is not a simulated size"),
        ({"contexts": "0"}, "--contexts is '0'"),
        ({"contexts": "256,"}, "--contexts is '256,'"),
        ({"gammas": "3,x"}, "--gammas is '3,x'"),
        ({"gammas": "17"}, "--gammas is '17'"),
        ({"gammas": "1,2,3,4,5"}, "--gammas lists 5 values"),
    ],
)
def test_rejects_invalid_plans(asked: dict[str, str], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        plan(**asked)


def figure(value: float | None, *, low: float | None = None, bodies: str = "1B/8B") -> GpuFigure:
    return GpuFigure(name="ratio", value=value, low=low, bodies=bodies, context=256, gamma=5)


@pytest.mark.parametrize(
    ("figures", "measured", "met"),
    [
        ([figure(4.5), figure(5.0)], 4.5, True),
        ([figure(4.5), figure(3.9)], 3.9, False),
        ([figure(4.5, low=3.9), figure(4.2)], 4.5, False),  # of an interval, the worse end counts
        ([figure(4.5), figure(1.0, bodies="0.5B/7B")], 4.5, True),
        ([figure(None)], None, None),
        ([], None, None),
    ],
)
def test_goal_uses_the_worst_place(
    figures: list[GpuFigure], measured: float | None, met: bool | None
) -> None:
    (row,) = judge_goals([Goal(name="ratio", least=4.0, bodies="1B/8B")], figures)
    assert (row["measured"], row["met"]) == (measured, met)
    assert row["bodies"] == (None if met is None else "1B/8B")


@pytest.mark.parametrize(
    ("value", "met"), [(0.84, False), (0.86, True), (1.14, True), (1.16, False)]
)
def test_goal_checks_both_limits(value: float, met: bool) -> None:
    (row,) = judge_goals([Goal(name="ratio", least=0.85, most=1.15)], [figure(value)])
    assert row["met"] is met
