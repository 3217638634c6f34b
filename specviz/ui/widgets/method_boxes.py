"""Controls for the speculation method: drafter, stopping rule, draft tree, verification rule.

Watch has one set of controls, whose values are in the link. Compare has one set for each lane (a
pair with its settings).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import field
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from specviz.errors import ConfigError
from specviz.record.drafters import drafters_list
from specviz.record.limits import Range
from specviz.record.rules import RULES, RULES_IN_WORDS
from specviz.record.run_config import RunConfig, refuse_own_drafter
from specviz.record.shapes import num_nodes, parse_dynamic_tree, parse_shape, shape_text
from specviz.record.stopping import STOPPINGS_IN_WORDS
from specviz.ui.widgets.plain_text import as_text
from specviz.values import Value

_FIRST_EXITS = (1, 2)  # layers to offer if the target's depth is unknown
_EXIT_SHARES = (0.25, 0.5, 0.75)  # else these shares of the target's layers
_UNTIL = ["count", "confidence:0.4", "cost", "oracle"]
_RESIDUALS = ["leftover", "target", "draft"]
METHOD_SETTINGS = (
    "drafter", "draft_until", "num_drafts", "replacement", "branching", "dynamic_tree", "rule",
    "epsilon", "residual",
)  # fmt: skip


class MethodBoxes(Value):
    """Controls for the settings that define the speculation method (``METHOD_SETTINGS``).

    Attributes:
        drafters: The drafters to offer besides early exit; users can type others.
        layers: The target's number of layers, if known.
        ends: The ranges of the numeric settings, by name.
        options: Keyword arguments for the Streamlit widget of every control.
        key: A function that returns the widget key for a setting's name.
        first: Initial values by setting, where they differ from the defaults.
    """

    drafters: Sequence[str]
    ends: Mapping[str, Range]
    options: Mapping[str, Any]
    key: Callable[[str], str] = str
    first: Mapping[str, Any] = field(default_factory=dict[str, Any])
    layers: int | None = None

    def choose(self, *, drafter: DeltaGenerator | None = None) -> dict[str, Any]:
        """Draw the controls, and return their values by the field names of ``RunConfig``.

        Args:
            drafter: The container for the drafter's control. If None, this control is drawn first.
        """
        with drafter or nullcontext():
            drafted_by = self._typed(
                "Drafter", "drafter", [*self.drafters, *early_exits(self.layers)],
                drafters_list(),
            )  # fmt: skip
        until = self._typed(
            "Drafting ends", "draft_until", _UNTIL, f"When drafting ends: {STOPPINGS_IN_WORDS}."
        )
        return {"drafter": drafted_by, "draft_until": until, **self._shape(), **self._rule()}

    def _typed(self, label: str, name: str, offered: Sequence[str], hint: str) -> str:
        first = self.first.get(name, offered[0])
        options = list(dict.fromkeys([*offered, first]))
        chosen = st.selectbox(
            label, options, options.index(first), key=self.key(name), help=hint,
            accept_new_options=True, **self.options,
        )  # fmt: skip
        return chosen or offered[0]

    def _shape(self) -> dict[str, Any]:
        low, high = self.ends["num_drafts"].whole_ends
        typed = st.number_input(
            "Parallel drafts", low, high, **self._first("num_drafts", low),
            help="Each round drafts this many sequences of γ candidates from the same position, "
            "and verifies them in one pass. After a rejection, the next sequence is tested against "
            "the target's residual distribution.",
        )  # fmt: skip
        count = int(typed)
        replacement = count > 1 and st.toggle(
            "Allow equal first tokens", **self._first("replacement", True),
            help="Draws the first tokens of the sequences with replacement. If this is off, all "
            "first tokens differ.",
        )  # fmt: skip
        typed_tree = st.text_input(
            "Tree", max_chars=60, placeholder="none, or 3x2x1x1", **self._first("branching", ""),
            help="The number of children per token at each depth. Verification continues one level "
            "deeper as long as a child is accepted. The tree's depth replaces γ.",
        )  # fmt: skip
        tree = (typed_tree or "").strip()
        if tree:
            _show_tree_size(tree)
        typed_dynamic = st.text_input(
            "Dynamic tree", max_chars=12, placeholder="none, or 8x24",
            **self._first("dynamic_tree", ""),
            help="A tree that grows as in EAGLE-2: at each depth up to γ, the likeliest nodes get "
            "children. 8x24 is a tree of width 8 with 24 candidates.",
        )  # fmt: skip
        return {
            "num_drafts": count,
            "replacement": replacement or count == 1,
            "branching": tree,
            "dynamic_tree": (typed_dynamic or "").strip(),
        }

    def _rule(self) -> dict[str, Any]:
        rule = self._one_of(
            "Verification rule", "rule", list(RULES),
            help=f"How candidates are verified: {RULES_IN_WORDS}.",
        )  # fmt: skip
        found: dict[str, Any] = {"rule": rule}
        if "epsilon" in RULES[rule].takes:
            epsilon = st.slider(
                "ε", *self.ends["epsilon"].ends, step=0.01, **self._first("epsilon", 0.1),
                help="With over-accept, ε is added to the target's probability of a candidate. "
                "With typical, this probability must exceed a threshold that depends on ε. With "
                "either rule, the text no longer follows the target's distribution.",
            )  # fmt: skip
            found["epsilon"] = round(epsilon, 6)
        if "residual" in RULES[rule].takes:
            found["residual"] = self._one_of("Recovered token drawn from", "residual", _RESIDUALS)
        return found

    def _one_of(self, label: str, name: str, offered: list[str], **more: Any) -> str:
        first = offered.index(self.first.get(name, offered[0]))
        return st.selectbox(label, offered, first, key=self.key(name), **more, **self.options)

    def _first(self, name: str, default: object) -> dict[str, Any]:
        return {"value": self.first.get(name, default), "key": self.key(name), **self.options}


def early_exits(layers: int | None) -> list[str]:
    """Return early-exit drafters. ``early-exit:4`` stops after four of the target's layers."""
    numbers = _FIRST_EXITS if layers is None else [round(each * layers) for each in _EXIT_SHARES]
    usable = [each for each in numbers if 1 <= each < (layers or each + 1)]
    return [f"early-exit:{each}" for each in dict.fromkeys(usable)]


def _show_tree_size(text: str) -> None:
    try:
        shape = parse_shape(text)
    except ConfigError:
        return  # ``with_method`` shows the error
    st.caption(f"{num_nodes(shape):,} candidates per round, depth {len(shape)}.")


def with_method(settings: Mapping[str, Any], method: Mapping[str, Any]) -> RunConfig:
    """Return the settings with the method; if they conflict, warn and use the default method."""
    try:
        trees = {
            "branching": parse_shape(method["branching"]),
            "dynamic_tree": parse_dynamic_tree(method["dynamic_tree"]),
        }
        config = RunConfig(**{**settings, **method, **trees})
        refuse_own_drafter(config)
    except ConfigError as error:
        st.warning(f"{as_text(str(error))} Runs use the default method until this is fixed.")
        return RunConfig(**settings)
    return config


def method_of(config: RunConfig) -> dict[str, Any]:
    """Return a run's method as values of the controls, without settings that the method ignores."""
    names = ["drafter", "draft_until", "num_drafts", "rule", *config.judging.takes]
    names += ["replacement"] if config.num_drafts > 1 else []
    return {name: getattr(config, name) for name in names} | {
        "branching": shape_text(config.branching),
        "dynamic_tree": shape_text(config.dynamic_tree),
    }
