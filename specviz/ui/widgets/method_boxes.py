"""How a run speculates: who drafts, how much and in which shape, and how it is judged.

Watch asks for it under its own keys, which are in the link; Compare under those of a lane's card.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from specviz.errors import ConfigError
from specviz.record.drafters import DRAFTERS_IN_WORDS
from specviz.record.limits import Range
from specviz.record.rules import RULES, RULES_IN_WORDS
from specviz.record.run_config import RunConfig, refuse_own_drafter
from specviz.record.shapes import num_nodes, parse_shape, shape_text
from specviz.record.stopping import STOPPINGS_IN_WORDS
from specviz.ui.widgets.plain_text import as_text

_EXITS = ["early-exit:1", "early-exit:2"]  # any other number can be typed
_UNTIL = ["count", "confidence:0.4", "cost", "oracle"]
_RESIDUALS = ["leftover", "target", "draft"]
WAY = (
    "drafter", "draft_until", "num_drafts", "replacement", "branching", "rule", "epsilon",
    "residual",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class WayBoxes:
    """The boxes of the settings ``WAY``.

    ``options``: of every box. ``key``: of the box of a setting. ``first``: what boxes begin with,
    by the names of settings, where that is not the usual.
    """

    drafters: Sequence[str]
    ends: Mapping[str, Range]
    options: Mapping[str, Any]
    key: Callable[[str], str] = str
    first: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def choose(self) -> dict[str, Any]:
        """Draw the boxes and read them: the settings by the names of ``RunConfig``."""
        drafter = self._typed(
            "Drafter", "drafter", [*self.drafters, *_EXITS], f"Who drafts: {DRAFTERS_IN_WORDS}."
        )
        until = self._typed(
            "Drafting ends", "draft_until", _UNTIL, f"When drafting ends: {STOPPINGS_IN_WORDS}."
        )
        return {"drafter": drafter, "draft_until": until, **self._shape(), **self._rule()}

    def _typed(self, label: str, name: str, offered: Sequence[str], told: str) -> str:
        first = self.first.get(name, offered[0])
        options = list(dict.fromkeys([*offered, first]))
        chosen = st.selectbox(
            label, options, options.index(first), key=self.key(name), help=told,
            accept_new_options=True, **self.options,
        )  # fmt: skip
        return chosen or offered[0]

    def _shape(self) -> dict[str, Any]:
        low, high = self.ends["num_drafts"].whole_ends
        typed = st.number_input(
            "Drafts side by side", low, high, **self._first("num_drafts", low),
            help="Several sequences of γ candidates from one place, verified together: where one "
            "is rejected, the next is tried against what is left of the target's odds.",
        )  # fmt: skip
        count = int(typed)
        again = count > 1 and st.toggle(
            "The same first token may come twice", **self._first("replacement", True),
            help="Drawn with replacement. Without, the drafts begin with different tokens.",
        )  # fmt: skip
        said = st.text_input(
            "Tree", max_chars=60, placeholder="none, or 3x2x1x1", **self._first("branching", ""),
            help="How many children each token has, depth by depth. Checking goes on to the "
            "next depth as long as a child is accepted. The tree's depth takes the place of γ.",
        )  # fmt: skip
        tree = (said or "").strip()
        if tree:
            _tell_tree(tree)
        return {"num_drafts": count, "replacement": again or count == 1, "branching": tree}

    def _rule(self) -> dict[str, Any]:
        rule = self._one_of(
            "Verification rule", "rule", list(RULES),
            help=f"How candidates are judged: {RULES_IN_WORDS}.",
        )  # fmt: skip
        found: dict[str, Any] = {"rule": rule}
        if "epsilon" in RULES[rule].takes:
            epsilon = st.slider(
                "ε", *self.ends["epsilon"].ends, step=0.01, **self._first("epsilon", 0.1),
                help="What the rule adds to the target's probability, or asks of it. The text no "
                "longer follows the target.",
            )  # fmt: skip
            found["epsilon"] = round(epsilon, 6)
        if "residual" in RULES[rule].takes:
            found["residual"] = self._one_of("Recovered token drawn from", "residual", _RESIDUALS)
        return found

    def _one_of(self, label: str, name: str, offered: list[str], **more: Any) -> str:
        first = offered.index(self.first.get(name, offered[0]))
        return st.selectbox(label, offered, first, key=self.key(name), **more, **self.options)

    def _first(self, name: str, usual: object) -> dict[str, Any]:
        return {"value": self.first.get(name, usual), "key": self.key(name), **self.options}


def _tell_tree(text: str) -> None:
    try:
        shape = parse_shape(text)
    except ConfigError:
        return  # ``with_method`` says so
    st.caption(f"{num_nodes(shape):,} candidates a round, {len(shape)} deep.")


def with_method(settings: Mapping[str, Any], way: Mapping[str, Any]) -> RunConfig:
    """The run of both; where they do not go together it says so, and goes on the usual way."""
    try:
        config = RunConfig(**{**settings, **way, "branching": parse_shape(way["branching"])})
        refuse_own_drafter(config)
    except ConfigError as error:
        st.warning(f"{as_text(str(error))} Until then a run goes the usual way.")
        return RunConfig(**settings)
    return config


def method_of(config: RunConfig) -> dict[str, Any]:
    """What the boxes say for a run; of those that are not always there, what it looks at."""
    names = ["drafter", "draft_until", "num_drafts", "rule", *config.judging.takes]
    names += ["replacement"] if config.num_drafts > 1 else []
    return {name: getattr(config, name) for name in names} | {
        "branching": shape_text(config.branching)
    }
