"""Match the chunks of an answer with the steps that an engine reports.

A step emits its accepted candidates and one more token. A step without drafts, such as the first
step after the prompt or a step near the limit, emits one token, and the engine does not report it.
A chunk contains whole steps; only the answer's last step may have been cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from specviz.record.limits import MAX_DRAFTED
from specviz.record.server_run import ServerRound, ServerTotals
from specviz.servers.pieces import Piece
from specviz.values import Value

_MOST_TRIES = 200_000


class Step(Value):
    """A step with drafts, as the engine reports it."""

    drafted: int
    accepted: int


class Part(Value):
    """The number of tokens that one step adds; ``step`` is None for a step without drafts."""

    num_tokens: int
    step: Step | None


def rounds_of(pieces: Sequence[Piece], steps: Sequence[Step]) -> tuple[ServerRound, ...] | None:
    """Return the chunks split into rounds, or None if the steps do not match the chunks."""
    parts = aligned([piece.num_tokens for piece in pieces], steps)
    if parts is None:
        return None
    rounds = list[ServerRound]()
    for piece, own in zip(pieces, parts, strict=True):
        cut = piece.cut([part.num_tokens for part in own]) if len(own) > 1 else [piece]
        for place, (small, part) in enumerate(zip(cut, own, strict=True)):
            step = part.step
            rounds.append(
                small.as_round(
                    len(rounds),
                    drafted=None if step is None else step.drafted,
                    accepted=None if step is None else step.accepted,
                    merged=place > 0,
                )
            )
    return tuple(rounds)


def aligned(sizes: Sequence[int], steps: Sequence[Step]) -> list[list[Part]] | None:
    """Return the steps in each chunk, or None if the steps do not match the chunks.

    ``sizes`` are the numbers of tokens in the chunks. If several results are possible, prefer a
    result that begins with a step without drafts, and in which all other steps without drafts come
    as late as possible.
    """
    if not all(sizes):
        return None
    search = _Search(sizes, steps)
    path = search.found()
    return None if path is None else search.by_piece(path)


class _Search:
    """A search for the steps that emitted the tokens of an answer.

    The engine reports the steps with drafts, but not the steps without drafts. A state of the
    search is a pair: how many tokens and how many reported steps have been matched.
    """

    def __init__(self, sizes: Sequence[int], steps: Sequence[Step]) -> None:
        self._steps = steps
        self._ends = list(accumulate(sizes))
        self._total = self._ends[-1] if sizes else 0
        self._end_of = [
            end for end, size in zip(self._ends, sizes, strict=True) for _ in range(size)
        ]
        tokens = [step.accepted + 1 for step in steps]
        left = list(accumulate(reversed(tokens), initial=0))[::-1]
        may_be_cut = tokens[-1] - 1 if tokens else 0
        # For each step, the fewest tokens that this step and all later steps emit.
        self._needs = [max(0, each - may_be_cut) for each in left]

    def found(self) -> list[Part] | None:
        """Return the steps of the first match that a depth-first search finds, or None."""
        before: dict[tuple[int, int], tuple[tuple[int, int], Part] | None] = {}
        tries: list[tuple[tuple[int, int], tuple[tuple[int, int], Part] | None]] = [((0, 0), None)]
        goal = (self._total, len(self._steps))
        while tries and len(before) < _MOST_TRIES:
            state, previous = tries.pop()
            if state in before:
                continue
            before[state] = previous
            if state == goal:
                return _path_to(before, state)
            tries += [(after, (state, part)) for after, part in self._next(*state)]
        return None

    def _next(self, token: int, step: int) -> list[tuple[tuple[int, int], Part]]:
        """Return the possible next states. The search tries the last of these states first."""
        if token >= self._total:
            return []
        options = [*self._without_drafts(token, step), *self._with_drafts(token, step)]
        return options[::-1] if token == 0 else options

    def _without_drafts(self, token: int, step: int) -> list[tuple[tuple[int, int], Part]]:
        if self._total - token - 1 < self._needs[step]:
            return []
        return [((token + 1, step), Part(num_tokens=1, step=None))]

    def _with_drafts(self, token: int, step: int) -> list[tuple[tuple[int, int], Part]]:
        if step >= len(self._steps):
            return []
        reported, end = self._steps[step], self._end_of[token]
        after = token + reported.accepted + 1
        if after > end:
            if end != self._total or step != len(self._steps) - 1:
                return []
            after = end
        return [((after, step + 1), Part(num_tokens=after - token, step=reported))]

    def by_piece(self, path: Sequence[Part]) -> list[list[Part]]:
        found, token, parts = list[list[Part]](), 0, iter(path)
        for end in self._ends:
            found.append([])
            while token < end:
                part = next(parts)
                found[-1].append(part)
                token += part.num_tokens
        return found


def _path_to(
    before: dict[tuple[int, int], tuple[tuple[int, int], Part] | None], state: tuple[int, int]
) -> list[Part]:
    path = list[Part]()
    while (previous := before[state]) is not None:
        state, part = previous
        path.append(part)
    return path[::-1]


def checked_rounds(
    rounds: Sequence[ServerRound], totals: ServerTotals, gamma: int | None
) -> tuple[ServerRound, ...] | None:
    """Return the chunks as rounds; None if they do not agree with the engine's totals.

    Chunks at the end that exceed the reported number of rounds are marked as steps without drafts.
    Candidates that were accepted but then cut from the answer are counted in the last round.
    """
    if totals.rounds is None or totals.accepted is None:
        return None
    ahead = 1 if rounds and rounds[0].accepted is None else 0
    if not 0 < totals.rounds <= len(rounds) - ahead:
        return None
    last = ahead + totals.rounds
    if any(each.num_tokens != 1 for each in rounds[last:]):
        return None
    cut = totals.accepted - sum(each.num_tokens - 1 for each in rounds[ahead:last])
    if cut < 0 or (cut > 0 and last != len(rounds)) or (gamma is not None and cut > gamma):
        return None
    accepted = [each.num_tokens - 1 for each in rounds[ahead:last]]
    accepted[-1] += cut
    each_drafted = gamma if gamma and totals.drafted == totals.rounds * gamma else None
    if max(*accepted, each_drafted or 0) > MAX_DRAFTED or max(accepted) > (gamma or MAX_DRAFTED):
        return None
    return (
        *rounds[:ahead],
        *(
            replace(each, drafted=each_drafted, accepted=count)
            for each, count in zip(rounds[ahead:last], accepted, strict=True)
        ),
        *(replace(each, drafted=None, accepted=None) for each in rounds[last:]),
    )
