"""The labels of the throughput chart, which have a short form for a narrow chart."""

from __future__ import annotations

import json

from tests.node import ROOT, run_node

WHOLE = "target alone: calculated 150, measured 170"
SHORT = "target alone 150, measured 170"


def names_of_lines(*, target: int, measured: int, letters: int) -> list[str]:
    """Return the label of each line in a chart in which ``letters`` fit side by side.

    The lines are: ideal, target alone by step costs, target alone as measured, forecast.
    """
    shown = {
        "gammas": [1, 2], "ideal": [200, 300], "forecast": [180, 250], "extrapolated": False,
        "target": target, "measured_target": measured,
    }  # fmt: skip
    script = f"""
        import {{ namedLines }} from "{(ROOT / "assets/player/chart_throughput.js").as_uri()}";
        const lines = namedLines({json.dumps(shown)}, true, {letters});
        console.log(JSON.stringify(lines.map((each) => each.name)));
    """
    return json.loads(run_node("--input-type=module", "--eval", script))


def test_a_label_that_does_not_fit_has_its_short_form() -> None:
    for letters, name in ((len(WHOLE), WHOLE), (len(WHOLE) - 1, SHORT)):
        names = names_of_lines(target=150, measured=170, letters=letters)
        assert names == ["ideal", name, "", "forecast"]


def test_the_lower_of_two_close_lines_has_their_label() -> None:
    names = names_of_lines(target=170, measured=150, letters=len(WHOLE))
    assert names == ["ideal", "", "target alone: calculated 170, measured 150", "forecast"]
