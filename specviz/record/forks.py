"""Forks: where a run leaves another of the same settings, as a verdict of it is overruled.

As a text a fork is ``ROUND:PLACE:TOKEN=DRAW`` or, at temperature 0, ``ROUND:PLACE:TOKEN>INSTEAD``;
several are joined by ``+``. There rounds and places count from 1, as on the pages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Never

from specviz.errors import ConfigError
from specviz.record.limits import MAX_GAMMA

MAX_FORKS = 100
_UNIFORM = 2**24  # uniforms are multiples of its inverse
_TEXT = re.compile(r"(\d{1,9}):(\d{1,9}):(\d{1,9})(?:=(\d?\.?\d{1,30}(?:e-\d\d?)?)|>(\d{1,9}))")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """A decision that is overruled: the verdict on the candidate at a place of a round.

    ``uniform`` takes the place of the draw that the seed gives. At temperature 0 under the lossless
    rule no draw decides: there ``instead`` takes the place of the target's likeliest token.
    """

    round: int
    place: int
    token_id: int  # of the candidate, by which it is seen that this is the run that was forked
    uniform: float | None = None
    instead: int | None = None
    of: str | None = None  # the id under which the other run is kept

    def __post_init__(self) -> None:
        if (self.uniform is None) == (self.instead is None):
            _refuse("A fork overrules either a draw or a token.")
        if not 0 <= self.place < MAX_GAMMA or min(self.round, self.token_id) < 0:
            _refuse("A fork is at a place that no run has.")
        if self.instead is not None and self.instead < 0:
            _refuse("A fork names a token that no vocabulary has.")
        if self.uniform is not None and not 0 <= self.uniform < 1:
            _refuse(f"A fork has the draw {self.uniform}, which is not from 0 to below 1.")

    @property
    def at(self) -> tuple[int, int]:
        return self.round, self.place

    @property
    def words(self) -> str:
        return f"round {self.round + 1}, token {self.place + 1}"


def followed_by(forks: Sequence[Fork], fork: Fork) -> tuple[Fork, ...]:
    """The forks of a run that leaves one with these; later ones were in a text that is left."""
    return (*(each for each in forks if each.at < fork.at), fork)


def possible_draw(uniform: float) -> float:
    """The nearest draw that a seed could have given."""
    return min(_UNIFORM - 1, max(0, round(uniform * _UNIFORM))) / _UNIFORM


def forks_text(forks: Sequence[Fork]) -> str:
    return "+".join(_text(each) for each in forks)


def parse_forks(text: str) -> tuple[Fork, ...]:
    """Raises ConfigError for what ``forks_text`` does not write."""
    return tuple(_parsed(part) for part in text.split("+")) if text else ()


def check_forks(forks: Sequence[Fork], *, by_draws: bool) -> None:
    """Raises ConfigError for forks that no run can have; ``by_draws``: draws decide in it."""
    if len(forks) > MAX_FORKS:
        _refuse(f"A run has {len(forks)} forks; {MAX_FORKS} are the most.")
    if any(left.at >= right.at for left, right in pairwise(forks)):
        _refuse("The forks of a run are not in the order of its rounds.")
    if any((each.uniform is not None) != by_draws for each in forks):
        _refuse(
            "A fork gives a token where draws decide."
            if by_draws
            else "A fork gives a draw, and at temperature 0 none decides."
        )


def _text(fork: Fork) -> str:
    decided = f"={fork.uniform!r}" if fork.uniform is not None else f">{fork.instead}"
    return f"{fork.round + 1}:{fork.place + 1}:{fork.token_id}{decided}"


def _parsed(part: str) -> Fork:
    found = _TEXT.fullmatch(part.strip())
    if found is None:
        _refuse(f"{part[:60]!r} is no fork.")
    number, place, token, uniform, instead = found.groups()
    if uniform is not None and not float(uniform) < 1:
        _refuse(f"{part[:60]!r} is no fork: draws are below 1.")
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
