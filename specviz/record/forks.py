"""Forks: runs that continue another run after one of its verdicts was overruled.

A fork is written as ``ROUND:PLACE:TOKEN=DRAW`` or, at temperature 0, as
``ROUND:PLACE:TOKEN>INSTEAD``. PLACE is the candidate's position in the round, and TOKEN its id.
Several forks are joined by ``+``. In text, rounds and positions count from 1, as on the pages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Never

from specviz.errors import ConfigError
from specviz.record.limits import MAX_GAMMA
from specviz.values import Value

MAX_FORKS = 100
_UNIFORM = 2**24  # uniforms are multiples of 1 / _UNIFORM
_TEXT = re.compile(r"(\d{1,9}):(\d{1,9}):(\d{1,9})(?:=(\d?\.?\d{1,30}(?:e-\d\d?)?)|>(\d{1,9}))")


class Fork(Value):
    """An overruled verdict, identified by its round and by its candidate's ``place`` in the round.

    Rounds and places count from 0.

    ``uniform`` is the draw that decides the new verdict; it replaces the draw from the seed. At
    temperature 0 under the lossless rule, nothing is drawn. In this case, ``instead`` is the token
    that replaces the target's likeliest token.
    """

    round: int
    place: int
    token_id: int  # of the candidate at this place of the forked run
    uniform: float | None = None
    instead: int | None = None
    of: str | None = None  # the id of the stored forked run

    def __post_init__(self) -> None:
        if (self.uniform is None) == (self.instead is None):
            _refuse("A fork needs either a draw or a token.")
        if not 0 <= self.place < MAX_GAMMA or min(self.round, self.token_id) < 0:
            _refuse("A fork has an impossible round, place or token.")
        if self.instead is not None and self.instead < 0:
            _refuse("A fork has a negative token id.")
        if self.uniform is not None and not 0 <= self.uniform < 1:
            _refuse(f"A fork has the draw {self.uniform}; draws are at least 0 and below 1.")

    @property
    def at(self) -> tuple[int, int]:
        return self.round, self.place

    @property
    def words(self) -> str:
        return f"round {self.round + 1}, token {self.place + 1}"


def followed_by(forks: Sequence[Fork], fork: Fork) -> tuple[Fork, ...]:
    """Return the forks of a new run: those at earlier candidates than ``fork``, then ``fork``."""
    return (*(each for each in forks if each.at < fork.at), fork)


def possible_draw(uniform: float) -> float:
    """Return the value nearest to ``uniform`` that the random generator can return."""
    return min(_UNIFORM - 1, max(0, round(uniform * _UNIFORM))) / _UNIFORM


def forks_text(forks: Sequence[Fork]) -> str:
    return "+".join(_text(each) for each in forks)


def parse_forks(text: str) -> tuple[Fork, ...]:
    """Parse forks from the text that `forks_text` writes.

    Raises:
        ConfigError: The text is not a list of forks.
    """
    return tuple(_parsed(part) for part in text.split("+")) if text else ()


def check_forks(forks: Sequence[Fork], *, by_draws: bool) -> None:
    """Check that one run can have all these forks.

    Args:
        by_draws: Whether random draws decide the run's verdicts; if not, forks name tokens.

    Raises:
        ConfigError: There are too many forks, their order is wrong, or a fork has a token where
            the run needs a draw or a draw where the run needs a token.
    """
    if len(forks) > MAX_FORKS:
        _refuse(f"A run has {len(forks)} forks; the maximum is {MAX_FORKS}.")
    if any(left.at >= right.at for left, right in pairwise(forks)):
        _refuse("The forks of a run are not in the order of its rounds.")
    if any((each.uniform is not None) != by_draws for each in forks):
        _refuse(
            "A fork has a token, but draws decide the verdicts of this run."
            if by_draws
            else "A fork has a draw, but no draw decides a verdict at temperature 0."
        )


def _text(fork: Fork) -> str:
    decided = f"={fork.uniform!r}" if fork.uniform is not None else f">{fork.instead}"
    return f"{fork.round + 1}:{fork.place + 1}:{fork.token_id}{decided}"


def _parsed(part: str) -> Fork:
    found = _TEXT.fullmatch(part.strip())
    if found is None:
        _refuse(f"{part[:60]!r} is not a fork.")
    number, place, token, uniform, instead = found.groups()
    if uniform is not None and not float(uniform) < 1:
        _refuse(f"{part[:60]!r} is not a fork: draws are below 1.")
    return Fork(
        round=int(number) - 1,
        place=int(place) - 1,
        token_id=int(token),
        uniform=None if uniform is None else possible_draw(float(uniform)),
        instead=None if instead is None else int(instead),
    )


def _refuse(culprit: str) -> Never:
    raise ConfigError(
        culprit,
        remedy="Write it ROUND:PLACE:TOKEN=DRAW or, at temperature 0, ROUND:PLACE:TOKEN>INSTEAD.",
    )
