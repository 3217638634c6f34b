"""What to measure: lanes, prompts and repeats, and the order of their runs.

A lane is a pair with settings. All lanes share a seed, and repeat r uses this seed plus r. With
``own_seeds``, every run has a different seed. A comparison has two to four lanes. The library
identifies a plan by its key. ``plan_runner`` runs a plan.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeVar, cast, get_args

from specviz.comparison.lane_labels import lane_labels
from specviz.errors import ConfigError
from specviz.record.forks import parse_forks
from specviz.record.limits import LIMITS
from specviz.record.pairs import SWITCHES, PairSpec, memory_margin
from specviz.record.prompts import MAX_ITEMS, SuiteItem, preset_suite, read_suite
from specviz.record.run_config import (
    RunConfig,
    refuse_without_effect,
    settings_without_effect,
)
from specviz.record.shapes import parse_dynamic_tree, parse_shape
from specviz.store.dataclass_json import fit_to_type, from_json
from specviz.values import Value

__all__ = [
    "Lane",
    "Order",
    "Plan",
    "PlannedRun",
    "SuiteItem",
    "check_compared",
    "escaped",
    "lane_labels",
    "order_that_fits",
    "parse_lane",
    "plan_from_json",
    "plan_to_json",
    "preset_suite",
    "read_suite",
]

Order = Literal["interleaved", "blocks"]
T = TypeVar("T")

MIN_LANES, MAX_LANES = 2, 4  # lanes of a comparison
MAX_PLANNED = 64
MAX_REPEATS = 100
MAX_RUNS = 20_000
MAX_NAME = 60
_ESCAPED = {"%2C": ",", "%2c": ",", "%25": "%"}
_ESCAPE = re.compile("|".join(_ESCAPED))
_MODELS = ("pair", "draft", "target")
_BODIES = ("target_body", "draft_body")
_WEIGHTS = ("target_weights", "draft_weights")
_KEPT = (*_BODIES, *_WEIGHTS, *SWITCHES)  # taken from the default lane even if the models change
SHARED = (  # settings that all lanes must share
    "seed",
    "max_new_tokens",
    "ignore_eos",
    "stop",
    "chat",
    "record",
)


class Lane(Value):
    """One side of a comparison: a pair with settings; ``name`` is the user's name for it."""

    spec: PairSpec
    config: RunConfig
    name: str = ""

    def __post_init__(self) -> None:
        if len(self.name) > MAX_NAME or not self.name.isprintable():
            raise ConfigError(
                "A lane's name is too long or has control characters.",
                remedy=f"Give at most {MAX_NAME} printable characters.",
            )


class PlannedRun(Value):
    """One run of a plan: the indices of its lane, prompt (``item``) and repeat."""

    lane: int
    item: int
    repeat: int

    @property
    def key(self) -> tuple[int, int, int]:
        return self.lane, self.item, self.repeat

    def config(self, plan: Plan) -> RunConfig:
        config = plan.lanes[self.lane].config
        first = self.lane * len(plan.items) + self.item if plan.own_seeds else 0
        seed = config.seed + first * plan.repeats + self.repeat
        return dataclasses.replace(config, seed=seed)


class Plan(Value):
    """Lanes, prompts and repeats; with ``baseline`` every run also measures the target alone.

    If ``order`` is "interleaved", all lanes run on a prompt before the next prompt, and the lane
    that starts changes from prompt to prompt. If ``order`` is "blocks", all runs of one pair are
    made before the next pair, because the pairs do not fit into memory together.

    With ``own_seeds``, no two runs use the same seed. Runs with the same seed draw the same random
    numbers, which correlates their texts, even texts of different prompts.
    """

    lanes: tuple[Lane, ...]
    items: tuple[SuiteItem, ...]
    repeats: int = 5
    baseline: bool = True
    order: Order = "interleaved"
    own_seeds: bool = False

    def __post_init__(self) -> None:
        _between("lanes", len(self.lanes), 1, MAX_PLANNED)
        _between("prompts", len(self.items), 1, MAX_ITEMS)
        _between("repeats", self.repeats, 1, MAX_REPEATS)
        _between("runs", len(self.lanes) * len(self.items) * self.repeats, 1, MAX_RUNS)
        if self.order not in get_args(Order):
            raise ConfigError(
                f"order is {self.order!r}.", remedy=f"Choose one of {', '.join(get_args(Order))}."
            )
        _check_shared([lane.config for lane in self.lanes])
        seeds = self.repeats * (len(self.lanes) * len(self.items) if self.own_seeds else 1)
        _check_seeds(self.lanes[0].config.seed, seeds)
        if self.repeats > 1 and any(lane.config.forks for lane in self.lanes):
            raise ConfigError(
                "A lane has a fork. Repeats use other seeds, so they cannot reproduce the fork.",
                remedy="Use 1 repeat, with the prompt and the seed of the forked run.",
            )

    @property
    def key(self) -> str:
        """Return a hash of settings, prompts and repeats, independent of names and run order.

        Values equal to their defaults are left out, so the hash does not change if a later version
        adds a setting.
        """
        content = _plan_values(self)
        del content["order"]
        for lane in content["lanes"]:
            del lane["name"]
        text = json.dumps(content, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @property
    def labels(self) -> tuple[str, ...]:
        return lane_labels(self.lanes)

    @property
    def kinds(self) -> tuple[str | None, ...]:
        """Return the kinds of the prompts, in order of first appearance."""
        return tuple(dict.fromkeys(item.kind for item in self.items))

    def runs(self) -> tuple[PlannedRun, ...]:
        """Return all runs in the order they are made."""
        runs = tuple(self._interleaved())
        if self.order == "interleaved":
            return runs
        specs = tuple(dict.fromkeys(lane.spec for lane in self.lanes))
        return tuple(run for spec in specs for run in runs if self.lanes[run.lane].spec == spec)

    def _interleaved(self) -> Iterator[PlannedRun]:
        count = len(self.lanes)
        for repeat in range(self.repeats):
            for item in range(len(self.items)):
                for place in range(count):
                    lane = (place + repeat + item) % count
                    yield PlannedRun(lane=lane, item=item, repeat=repeat)


def check_compared(lanes: Sequence[Lane]) -> None:
    """Raise ConfigError unless there are two to four lanes."""
    _between("lanes", len(lanes), MIN_LANES, MAX_LANES)


def order_that_fits(needed: Sequence[int], free: int | None) -> Order:
    """Return the order of runs: "interleaved" if all pairs fit into memory, else "blocks".

    ``needed`` has the bytes of each pair, ``free`` the available bytes.
    """
    fits = free is not None and memory_margin(sum(needed)) <= free
    return "interleaved" if len(needed) == 1 or fits else "blocks"


# Lanes as typed


def parse_lane(text: str, default: Lane) -> Lane:
    """Parse a lane from ``key=value,…``; missing keys are taken from ``default``.

    ``pair`` replaces both models; ``target`` or ``draft`` replaces only one model. A draft without
    a target is paired with the default's target, even if this is the embedded target.
    ``target_body``, ``draft_body``, ``target_weights``, ``draft_weights``, ``shared_vocabulary``
    and ``other_target`` are also taken from the default, even if the models change. ``epsilon``,
    ``residual`` and ``replacement`` are taken from the default only if the lane's method uses them.
    In values, write ``%2C`` for a comma and ``%25`` for a percent sign.
    """
    typed = _typed(text)
    spec = {key: typed.pop(key) for key in (*_MODELS, *_KEPT) if key in typed}
    name = typed.pop("name", default.name)
    settings = _settings(typed)
    config = dataclasses.replace(default.config, **settings)
    config = dataclasses.replace(config, **(settings_without_effect(config) | settings))
    lane = Lane(spec=_spec(spec, default.spec, config), config=config, name=name)
    refuse_without_effect(config, f"Lane {_short(text)}")
    return lane


def _typed(text: str) -> dict[str, str]:
    made: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key or not value.strip() or key in made:
            raise ConfigError(
                f"Lane {_short(text)} is not key=value,… with unique keys.",
                remedy="Example: gamma=8,temperature=0.7.",
            )
        made[key] = _ESCAPE.sub(lambda code: _ESCAPED[code[0]], value.strip())
    return made


def escaped(value: str) -> str:
    """Return a value with "," and "%" escaped, as ``parse_lane`` reads it."""
    return value.replace("%", "%25").replace(",", "%2C")


def _settings(typed: dict[str, str]) -> dict[str, Any]:
    known = {field.name: field.default for field in dataclasses.fields(RunConfig)}
    for key in typed:
        if key not in known:
            names = ", ".join([*_MODELS, *_KEPT, "name", *known])
            raise ConfigError(f"A lane has no setting {_short(key)}.", remedy=f"Use {names}.")
    return {key: _value(key, value, known[key]) for key, value in typed.items()}


def _value(key: str, text: str, like: object) -> object:
    if key == "forks":
        return parse_forks(text)
    if key == "branching":
        return parse_shape(text)
    if key == "dynamic_tree":
        return parse_dynamic_tree(text)
    try:
        if isinstance(like, bool):
            return {"yes": True, "true": True, "no": False, "false": False}[text.lower()]
        if isinstance(like, int | float):
            return type(like)(text)
    except (ValueError, KeyError):
        kinds = {bool: "yes or no", int: "a whole number", float: "a number"}
        raise ConfigError(
            f"A lane's {key} is {_short(text)}.", remedy=f"Give {kinds[type(like)]}."
        ) from None
    return (text,) if isinstance(like, tuple) else text


def _spec(typed: dict[str, str], default: PairSpec, config: RunConfig) -> PairSpec:
    pair, draft, target = (typed.get(key) for key in ("pair", "draft", "target"))
    if pair is not None and (draft is not None or target is not None):
        raise ConfigError(
            "A lane names a pair, and also a draft or a target.",
            remedy="Give pair alone, or target and draft.",
        )
    kept: dict[str, Any] = {key: typed[key] for key in _KEPT if key in typed}
    kept |= {key: _value(key, kept[key], False) for key in SWITCHES if key in kept}
    spec = default = dataclasses.replace(default, **kept)
    if pair is not None:
        spec = dataclasses.replace(default, name=pair, draft=None, target=None)
    elif draft is not None or target is not None:
        target = target or default.target_place
        head = default.head if draft is None else ""
        draft = draft or default.draft
        spec = dataclasses.replace(default, name=None, draft=draft, target=target, head=head)
    if config.draft_method.needs_draft and not spec.draft_kind:
        raise ConfigError(
            "A lane names a target but no draft.",
            remedy="Give target and draft, or drafter=prompt-lookup.",
        )
    return spec


def _short(text: str) -> str:
    return repr(text if len(text) <= MAX_NAME else text[:MAX_NAME] + "…")


# Plans as text


def plan_to_json(plan: Plan) -> str:
    return json.dumps(_plan_values(plan), ensure_ascii=True)


def plan_from_json(text: str) -> Plan:
    """Return the plan that ``plan_to_json`` wrote; raise ConfigError for other text."""
    try:
        return _plan_of(from_json(text, dict[str, Any]))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ConfigError("This is not a saved plan.", remedy="Compare again.") from None


def _plan_of(values: dict[str, Any]) -> Plan:
    return Plan(
        lanes=tuple(_lane_of(each) for each in values["lanes"]),
        items=tuple(_value_of(each, SuiteItem) for each in values["items"]),
        repeats=values["repeats"],
        baseline=fit_to_type(values["baseline"], bool),
        order=values["order"],
        own_seeds=fit_to_type(values.get("own_seeds", False), bool),
    )


def _lane_of(values: dict[str, Any]) -> Lane:
    spec, config = _value_of(values["pair"], PairSpec), _value_of(values["settings"], RunConfig)
    return Lane(spec=spec, config=config, name=fit_to_type(values.get("name", ""), str))


def _value_of(values: dict[str, Any], kind: type[T]) -> T:
    """Return ``values`` as a ``kind``.

    A number stays an int or a float, as it was saved, because 1 and 1.0 give different hashes.
    """
    made = fit_to_type(values, kind)
    written = {k: each for k, each in values.items() if isinstance(each, int | float)}
    return dataclasses.replace(cast("Any", made), **written)


def _plan_values(plan: Plan) -> dict[str, Any]:
    return {
        "lanes": [
            {"pair": _changed(lane.spec), "settings": _changed(lane.config), "name": lane.name}
            for lane in plan.lanes
        ],
        "items": [_changed(item) for item in plan.items],
        "repeats": plan.repeats,
        "baseline": plan.baseline,
        "order": plan.order,
        **({"own_seeds": True} if plan.own_seeds else {}),
    }


def _changed(value: PairSpec | RunConfig | SuiteItem) -> dict[str, Any]:
    """Return the fields that are not at their default."""
    plain = dataclasses.asdict(value)
    return {
        field.name: plain[field.name]
        for field in dataclasses.fields(value)
        if getattr(value, field.name) != field.default
    }


# Limits


def _between(name: str, count: object, low: int, high: int) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or not low <= count <= high:
        raise ConfigError(
            f"The number of {name} is {count}.", remedy=f"Give from {low} to {high:,}."
        )


def _check_shared(configs: Sequence[RunConfig]) -> None:
    for name in SHARED:
        if len({getattr(config, name) for config in configs}) > 1:
            raise ConfigError(
                f"The lanes differ in {name}.",
                remedy="Give all lanes the same value, or leave it out.",
            )


def _check_seeds(seed: int, seeds: int) -> None:
    _, most = LIMITS["seed"].whole_ends
    if seed + seeds - 1 > most:
        raise ConfigError(
            f"Seed {seed} is too large: {seeds} consecutive seeds are needed.",
            remedy=f"Give a seed of at most {most - seeds + 1}.",
        )
