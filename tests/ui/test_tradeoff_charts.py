"""The charts of the Bias or speed page match the library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from specviz.theory import blocks, multidraft, tradeoff
from specviz.theory.examples import REF5
from specviz.ui.theory.bias.charts import (
    Dots,
    ExactPoint,
    SimulatedPoint,
    areas_chart,
    blocks_chart,
    distribution_chart,
    drafts_chart,
    pareto_plane,
)

PAIR = REF5.draft, REF5.target


def traces(figure: Any) -> dict[str, Any]:
    return {each.name: each for each in figure.data}


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.4])
def test_areas_split_the_distance(epsilon: float) -> None:
    accept = tradeoff.over_accept(*PAIR, epsilon)
    drawn = traces(areas_chart(REF5.labels, tradeoff.areas(*PAIR, accept)))
    reject, bias = tradeoff.rejection_and_bias(*PAIR, accept)
    assert sum(drawn["rejected"].y) == pytest.approx(reject)
    assert sum(drawn["accepted in excess"].y) == pytest.approx(bias)
    assert sum(drawn["residual of the target"].y) == pytest.approx(0.3)
    assert list(np.sum([each.y for each in drawn.values()], axis=0)) == pytest.approx(
        np.maximum(*PAIR)
    )


def test_plane_has_its_front_and_points() -> None:
    marks = [
        ExactPoint(name="one", reject=0.1, bias=0.2),
        ExactPoint(name="two", reject=0.3, bias=0.25),
    ]
    landing = SimulatedPoint(name="one", reject=0.11, reject_width=0.02, bias=0.19, bias_width=0.01)
    plane: Any = pareto_plane(0.3, marks, [landing])
    drawn = traces(plane)
    assert (drawn["Pareto front"].x, drawn["Pareto front"].y) == ((0.3, 0.0), (0.0, 0.3))
    assert drawn["impossible for any rule"].fill == "toself"
    assert (drawn["exact"].x, drawn["exact"].y) == ((0.1, 0.3), (0.2, 0.25))
    assert drawn["exact"].textposition == ("middle right", "middle left")  # room at the edge
    assert drawn["simulated, 95 %"].error_y.array == (0.01,)
    assert plane.layout.xaxis.range[1] > 0.3


def test_overlapping_points_share_a_label_and_hide_corner_labels() -> None:
    ends = (("ε 1, OPT", 0.0), ("ε 1, UNO", 0.003), ("lenience 0.8", 0.0), ("threshold 1", 0.2))
    marks = [ExactPoint(name=name, reject=reject, bias=0.3 - reject) for name, reject in ends]
    plane: Any = pareto_plane(0.3, marks)
    drawn = traces(plane)["exact"]
    assert drawn.text == ("\u2003ε 1: OPT, UNO<br>\u2003lenience 0.8", "", "", "\u2003threshold 1")
    assert drawn.customdata == tuple(name for name, _ in ends)
    assert {each.text for each in plane.layout.annotations} == {"lossless"}
    plane = pareto_plane(0.3, [ExactPoint(name="ε 0, OPT", reject=0.3, bias=0.0)])
    assert traces(plane)["exact"].text == ("ε 0, OPT\u2003",)
    assert "the draft alone" in {each.text for each in plane.layout.annotations}
    assert "lossless" not in {each.text for each in plane.layout.annotations}


def test_identical_models_have_no_triangle() -> None:
    plane: Any = pareto_plane(0.0, [ExactPoint(name="all", reject=0.0, bias=0.0)])
    assert plane.layout.annotations == ()
    assert not traces(plane)["impossible for any rule"].showlegend
    assert plane.layout.xaxis.range[1] > 0.01


def test_draws_real_tokens_as_dots() -> None:
    dots = Dots(reject=[0.5, 1.0], bias=[0.5, 0.1], tooltips=["a", "b"])
    drawn = traces(pareto_plane(1.0, dots=dots, unit=", relative"))
    assert drawn["tokens of the run"].x == (0.5, 1.0)
    assert drawn["tokens of the run"].text == ("a", "b")


def test_draws_emitted_distributions_beside_the_target() -> None:
    drawn = traces(distribution_chart(REF5.labels, REF5.target, {"UNO": (0.2,) * 5}))
    assert drawn["target"].y == REF5.target
    assert drawn["UNO"].y == (0.2,) * 5


def test_block_and_drafts_charts_draw_their_curves() -> None:
    counts = blocks.accepted_curves(*PAIR, 4)
    drawn = traces(blocks_chart(counts))
    assert drawn["block verification"].y == counts.block
    assert drawn["token by token"].y == counts.token
    assert drawn["no verifier exceeds this"].y == counts.bound
    curves = multidraft.acceptance_curves(*PAIR, 5)
    lines = traces(drafts_chart(curves))
    assert lines["K-SEQ"].y == curves.k_sequential
    assert lines["upper bound"].y == curves.optimal
    assert lines["recursive rejection"].y == curves.recursive
    assert lines["without replacement"].y == curves.without_replacement
    assert lines["draft's top k"].y == curves.top
    assert lines["draw and compare"].y == curves.naive
    assert len({(each.line.dash, each.marker.symbol) for each in lines.values()}) == 6
