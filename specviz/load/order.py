"""The order of a load test: which server is measured at which level of load, and when.

A lane is a server with its settings, with or without speculation. A level is a number of users, or
of requests per second. A block measures one lane at one level. A unit is A B B A at one level: all
lanes, then all lanes in reverse order, so that a slow drift of the machine affects all lanes alike.
A pass has one unit at every level. A stage is the part of the test between two restarts of the
engine; without a restart command, one stage has all lanes.
"""

from __future__ import annotations

from collections.abc import Sequence

from specviz.errors import ConfigError
from specviz.record.load_run import LEVEL_UNITS, LoadLane, LoadSettings
from specviz.record.prompts import SuiteItem
from specviz.record.server_run import ServerInfo
from specviz.values import Value

GAMMA = "{gamma}"
MOST_USERS = 512
MOST_RATE = 500.0
MOST_LEVELS = 16
MOST_STARTS = 12
MOST_REQUESTS = 1_000_000  # of a sweep
MOST_TOKENS = 100_000_000
MOST_BUDGET = 24 * 3600.0
DRAIN = 1.0  # seconds that the last answers of a block are expected to take


class LoadOrder(Value):
    """The engines, prompts and settings of a load test.

    Each of ``servers`` speculates. ``alone`` runs the target alone; if it is None, the first server
    turns speculation off per request, or is restarted with γ 0. Every ``{gamma}`` in
    ``restart_command`` is replaced by one of ``gammas``.
    """

    servers: tuple[ServerInfo, ...]
    alone: ServerInfo | None = None
    items: tuple[SuiteItem, ...]
    settings: LoadSettings
    restart_command: str = ""
    gammas: tuple[int, ...] = ()
    starts: int = 1  # fresh starts for each γ, with a restart command
    allow_remote: bool = False

    def __post_init__(self) -> None:
        check_settings(self.settings)
        if not self.items:
            raise ConfigError("There is no prompt.", remedy="Give a suite or the presets.")
        if bool(self.gammas) != (GAMMA in self.restart_command):
            raise ConfigError(
                "A list of γ needs {gamma} in the restart command, and {gamma} needs a list of γ.",
                remedy="Write {gamma} where the command sets the number of candidates.",
            )
        if self.gammas and len(self.servers) > 1:
            raise ConfigError(
                "Several γ and several addresses are given.",
                remedy="Give one address with several γ, or one address for each γ.",
            )
        if len(set(self.gammas)) < len(self.gammas) or any(each < 1 for each in self.gammas):
            raise ConfigError(
                "A γ is below 1 or given twice.", remedy="Give different values of at least 1."
            )
        if not 1 <= self.starts <= MOST_STARTS:
            raise ConfigError(
                f"The number of fresh starts is {self.starts}.",
                remedy=f"Give a number from 1 to {MOST_STARTS}.",
            )


class Stage(Value):
    """A part of a load test, between two restarts of the engine.

    ``lanes``: the indices of the servers and settings that are measured. ``gamma``: the γ that the
    restart before this part sets.
    """

    lanes: tuple[int, ...]
    gamma: int | None = None


def check_settings(settings: LoadSettings) -> None:
    """Raise ConfigError for settings outside their limits."""
    unit, levels = LEVEL_UNITS[settings.mode], settings.levels
    most = MOST_USERS if settings.mode == "closed" else MOST_RATE
    if not levels or len(levels) > MOST_LEVELS or len(set(levels)) < len(levels):
        raise ConfigError(
            f"The levels of load are {_listed(levels)}.",
            remedy=f"Give from 1 to {MOST_LEVELS} different numbers of {unit}.",
        )
    whole = settings.mode == "open" or all(each % 1 == 0 for each in levels)
    if not whole or not all(0.01 <= each <= most for each in levels):
        kind = "whole numbers" if settings.mode == "closed" else "numbers"
        raise ConfigError(
            f"The levels of load are {_listed(levels)}.",
            remedy=f"Give {kind} of {unit} up to {most:g}.",
        )
    for name, value, low, high in (
        ("The window", settings.seconds, 0.5, 3600.0),
        ("The ramp", settings.ramp, 0.0, 600.0),
        ("The budget", settings.budget, 1.0, MOST_BUDGET),
        ("The time limit of a request", settings.request_limit, 1.0, 3600.0),
    ):
        if not low <= value <= high:
            raise ConfigError(
                f"{name} is {value:g} seconds.", remedy=f"Give seconds from {low:g} to {high:g}."
            )
    for name, value, most in (
        ("The maximum number of requests in flight", settings.most_in_flight, MOST_USERS),
        ("The maximum number of requests", settings.most_requests, MOST_REQUESTS),
        (
            "The maximum number of tokens",
            settings.most_requests * settings.max_new_tokens,
            MOST_TOKENS,
        ),
    ):
        if not 1 <= value <= most:
            raise ConfigError(f"{name} is {value:,}.", remedy=f"Give a number from 1 to {most:,}.")


def lanes_of(order: LoadOrder) -> tuple[LoadLane, ...]:
    """Return the lanes to compare.

    The first lane is the target alone, if it can be measured. Then there is a lane for each γ. If
    the order has no list of γ, there is a lane for each server instead.
    """
    first = order.servers[0]
    if order.gammas:
        found = [LoadLane(kind="speculative", info=first, gamma=each) for each in order.gammas]
    else:
        found = [
            LoadLane(kind="speculative", info=each, gamma=each.gamma) for each in order.servers
        ]
    if order.alone is not None:
        return (LoadLane(kind="alone", info=order.alone, baseline=True), *found)
    if first.capabilities.can_switch_off:
        return (LoadLane(kind="alone", info=first, switched_off=True), *found)
    if order.gammas:
        return (LoadLane(kind="alone", info=first, gamma=0), *found)
    return tuple(found)


def stages_of(
    order: LoadOrder, lanes: Sequence[LoadLane], repetition: int = 0
) -> tuple[Stage, ...]:
    """Return the stages of one repetition, which are separated by restarts of the engine.

    In odd repetitions, the order of the stages is reversed.
    """
    if not order.gammas:
        return (Stage(lanes=tuple(range(len(lanes)))),)
    always = tuple(
        place for place, each in enumerate(lanes) if each.kind == "alone" and each.gamma is None
    )
    found = [
        Stage(lanes=(*always, place), gamma=each.gamma)
        for place, each in enumerate(lanes)
        if place not in always
    ]
    return tuple(found if repetition % 2 == 0 else reversed(found))


def unit_of(stage: Stage) -> tuple[int, ...]:
    """Return the order in which one level is measured (A B B A): all lanes, then in reverse."""
    return (*stage.lanes, *reversed(stage.lanes))


def levels_of(settings: LoadSettings, unit: int) -> tuple[float, ...]:
    """Return the levels of load in the order in which pass number ``unit`` measures them.

    The order is ascending if the number is even, else descending.
    """
    levels = tuple(sorted(settings.levels))
    return levels if unit % 2 == 0 else levels[::-1]


def seconds_of_unit(settings: LoadSettings, stage: Stage) -> float:
    """Return the expected seconds to measure each lane of the stage twice at every level."""
    block = 2 * settings.ramp + settings.seconds + DRAIN
    return block * len(unit_of(stage)) * len(settings.levels)


def _listed(levels: Sequence[float]) -> str:
    return ", ".join(f"{each:g}" for each in levels[: MOST_LEVELS + 1]) or "missing"
