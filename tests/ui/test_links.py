"""Invalid links: every page opens with any value in place of a number."""

from __future__ import annotations

import ast
import itertools

import pytest
from streamlit.testing.v1 import AppTest

from specviz.record.pairs import PairSpec, known_pairs
from specviz.ui.session.link_values import TEXT_PARAMETERS
from specviz.ui.shell import PAGES
from tests.ui.paging import ROOT, sound
from tests.ui.syntax import Module, calls, read_modules

pytestmark = pytest.mark.usefixtures("loads_nothing")

SENSELESS = ("inf", "-inf", "nan", "1e400", "-1e400", "1e308", "99999999999999999999")
WRONG = ("-1", "words", "", "1e9", "0x10", "1_0", "0.1")
INVALID: tuple[str | list[str], ...] = (*SENSELESS, *WRONG, ["1", "inf"], ["2", "3"])
FEW = ("nan", "words", ["1", "inf"])
# Further views of a page, by parameters of its link that are not numbers.
PLACES: dict[str, tuple[dict[str, str], ...]] = {
    "watch": ({"rule": "over-accept"},),
    "compare": ({}, {"compare_tab": "By kind"}),
    "servers": ({}, {"servers_tab": "Under load"}),
    "speed": tuple({"speed_tab": each} for each in ("", "Over α and c", "Tokens a round")),
    "rejections": tuple(
        {"rejections_tab": each} for each in ("", "Several drafts", "At one place", "The bound")
    ),
    "bias": tuple({"bias_section": each} for each in ("", "Whole blocks", "Several drafts")),
    "misleading": tuple(
        {"misleading_tab": each}
        for each in ("", "Mean and tail", "Batch and context", "Temperature")
    ),
}  # fmt: skip


def keys_of(boxes: set[str]) -> set[str]:
    """Return the keys of linked widgets of these kinds, from the pages' code."""
    found: set[str] = set()
    for module in drawing():
        for call, _ in calls(module):
            function = call.func
            name = (
                function.attr
                if isinstance(function, ast.Attribute)
                else getattr(function, "id", "")
            )
            given = {each.arg: each.value for each in call.keywords}
            linked = "bind" in given or None in given  # None: from **options
            if name in boxes and (linked or name.endswith("slider")):
                found |= {
                    each.value
                    for each in ast.walk(given.get("key", ast.Constant(None)))
                    if isinstance(each, ast.Constant) and isinstance(each.value, str)
                }
    return found


def drawing() -> list[Module]:
    return [m for name, m in read_modules().items() if name.startswith(("specviz.ui.", "pages."))]


NUMBERS = keys_of({"slider", "whole_slider", "number_input"})


def read_by_name() -> set[str]:
    """Return the parameters that the pages' code reads from the link."""
    return {
        str(part.value)
        for module in drawing()
        for call, _ in calls(module)
        if isinstance(call.func, ast.Attribute)
        and call.func.attr in {"get", "get_all", "pop"}
        and ast.unparse(call.func.value) == "st.query_params"
        for part in call.args[:1]
        if isinstance(part, ast.Constant)
    }


def opened_at(place: str, link: dict[str, str | list[str]]) -> AppTest:
    app = AppTest.from_file(ROOT / "app.py", default_timeout=120)
    if place != "watch":
        app.switch_page(f"pages/{place}.py")
    for name, value in link.items():
        app.query_params[name] = value
    return sound(app.run())


def test_every_linked_parameter_is_known() -> None:
    assert {"gamma", "seed", "top_k", "compare_seed", "speed_alpha", "bias_epsilon"} <= NUMBERS
    assert not NUMBERS & TEXT_PARAMETERS
    assert keys_of({"text_input", "text_area"}) <= TEXT_PARAMETERS
    assert read_by_name() - {"tour"} <= TEXT_PARAMETERS


@pytest.mark.parametrize(
    ("place", "beside"),
    [(page.name, each) for page in PAGES for each in PLACES.get(page.name, ({},))],
)
def test_impossible_numbers_are_dropped(place: str, beside: dict[str, str]) -> None:
    values = itertools.cycle(SENSELESS)
    app = opened_at(place, {**dict(zip(sorted(NUMBERS), values, strict=False)), **beside})
    assert not NUMBERS & set(app.query_params)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        *(("watch", each) for each in INVALID),
        *(
            pytest.param("compare", each, marks=[] if each in FEW else pytest.mark.thorough)
            for each in INVALID
        ),
    ],
)
def test_each_invalid_value_on_every_page(place: str, value: str | list[str]) -> None:
    opened_at(place, dict.fromkeys(NUMBERS, value))


def test_navigating_back_to_an_invalid_link() -> None:
    """The page's widgets exist already."""
    app = opened_at("watch", {"gamma": "7"})
    app.query_params["seed"] = "1e400"
    sound(app.run())
    assert "seed" not in app.query_params
    assert app.slider(key="gamma").value == 7


def test_text_that_looks_like_a_number_is_kept() -> None:
    app = opened_at("watch", {"prompt": "inf"})
    assert app.text_area(key="prompt").value == "inf"


def _page_that_shows_the_pair() -> None:
    import streamlit as st

    from specviz.ui.widgets.pair_boxes import shown_pair

    st.text(repr(shown_pair()))


def test_the_link_has_the_weights_by_their_names() -> None:
    app = opened_at("watch", {"target_weights": "q8_0", "draft_weights": "int3"})
    assert app.selectbox(key="target_weights").value == "q8_0"
    assert app.selectbox(key="draft_weights").value == "auto"
    sound(app.selectbox(key="draft_weights").set_value("float").run())
    assert app.query_params["target_weights"] == "q8_0"
    assert app.query_params["draft_weights"] == "float"
    sound(app.selectbox(key="target_weights").set_value("auto").run())
    assert "target_weights" not in app.query_params


OWN_PAIR = {"pair": "Local", "target_folder": "one", "draft_folder": "two"}
KNOWN = known_pairs()[0]


@pytest.mark.parametrize(
    ("link", "pair"),
    [
        ({**OWN_PAIR, "device": "cpu", "dtype": "bfloat16"},
         PairSpec(target="one", draft="two", device="cpu", dtype="bfloat16")),
        ({"target_weights": "q8_0", "draft_weights": "int3"},
         PairSpec(device="cpu", target_weights="q8_0")),
        ({**OWN_PAIR, "device": "toaster", "dtype": "int3"}, PairSpec(target="one", draft="two")),
        ({**OWN_PAIR, "pair": "Elsewhere"}, PairSpec()),
        ({"pair": "Hub", "known_pair": "nobody · 1B"},
         PairSpec(target=KNOWN.target, draft=KNOWN.draft)),
    ],
)  # fmt: skip
def test_unknown_values_in_the_link_name_no_other_pair(
    link: dict[str, str], pair: PairSpec
) -> None:
    """A page uses the pair before it draws the controls, which would reject such values."""
    app = AppTest.from_function(_page_that_shows_the_pair)
    for name, value in link.items():
        app.query_params[name] = value
    assert sound(app.run()).text[0].value == repr(pair)
