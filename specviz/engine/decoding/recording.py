"""The record of a round: what both models thought at every candidate's position.

A record is begun in its round and ended while the next one is played. On a CPU kernels do all of it
at the end, and read every distribution once; elsewhere the device is handed all positions at once,
and the end brings few tensors to the host.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from typing import Generic, TypeAlias, TypeVar

import numpy as np
import torch

from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.sampling import on_one_thread, wide
from specviz.engine.decoding.verify import Lossless, Rule
from specviz.engine.model.text import TokenTable
from specviz.kernels.readiness import survey_ready
from specviz.kernels.softmax import softmax
from specviz.kernels.survey import survey
from specviz.record.trace import TOP_ALTERNATIVES, Alternatives, Candidate, Insight

Done = TypeVar("Done")

_COLUMN = 32  # entries
_COLUMNS_FROM = 512  # below this many, sorting a row at once is as fast


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateRecord:
    """What the record adds to one candidate; nothing with the record off."""

    insight: Insight | None = None
    overlap: float | None = None
    bias: float | None = None

    def added_to(self, candidate: Candidate) -> Candidate:
        return replace(candidate, insight=self.insight, overlap=self.overlap, bias=self.bias)


class Deferred(Generic[Done]):
    """Work whose result is wanted later. Calling it gives the result, and does what is not done.

    On a CPU it can be begun in a thread, one after the other. The work on another device is under
    way, and what is left is done by whoever asks for the result.
    """

    def __init__(self, device: torch.device, work: Callable[[], Done]) -> None:
        self._threaded = device.type == "cpu"
        self._result = work

    def begin(self) -> None:
        """Once, before it is called."""
        if self._threaded:
            self._result = _writer().submit(self._result).result

    def __call__(self) -> Done:
        return self._result()


@cache
def _writer() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="record")


class Recorder:
    """Makes the insights of a run's rounds in one workspace, so that no round allocates its own.

    The workspace holds the draft's rows, then the target's, where they are not the run's own. So
    records are ended in the order in which they were begun.
    """

    def __init__(self, table: TokenTable, temperature: float) -> None:
        self._table = table
        self._temperature = temperature
        self._space: torch.Tensor | None = None

    @on_one_thread
    @torch.inference_mode()
    def begin(
        self,
        rule: Rule,
        proposal: Proposal,
        target_logits: torch.Tensor,
        target_probs: torch.Tensor,
    ) -> Callable[[], list[CandidateRecord]]:
        """The call that is returned ends it: one record for every candidate.

        Overlap and bias are of the run's own distributions; insights too, but at temperature 0 of
        those at 1.
        """
        count = proposal.token_ids.shape[0]
        both = Both.of(proposal, target_logits[:count], target_probs[:count])
        if target_probs.device.type != "cpu" or not survey_ready():
            found = self.on_device(rule, both)
            return lambda: self.read(found.tolist(), count)
        losses = _losses(rule, *both.laws)

        def end() -> list[CandidateRecord]:
            found = _survey(self._shown(both, _softmax), both)
            return self._written(found, None if losses is None else losses.tolist())

        return end

    @torch.inference_mode()
    def on_device(self, rule: Rule, both: Both) -> torch.Tensor:
        """All that ``read`` needs, in one row; the device is asked for no value."""
        shown = self._shown(both, _softmax_in_torch)
        rows = torch.cat((*shown, (shown[1] - shown[0]).clamp_(min=0.0)))
        top_probs, top_ids = top_of(rows, TOP_ALTERNATIVES)
        parts = [top_ids, top_probs, _facts(rows, both, top_ids[:, :1])]
        losses = _losses(rule, *both.laws)
        parts += [] if losses is None else [losses]
        # Numbers of tokens are whole in either precision.
        return torch.cat([part.flatten().to(wide(rows)) for part in parts])

    def read(self, values: Sequence[float], count: int) -> list[CandidateRecord]:
        """Of so many candidates."""
        tops = 3 * count * min(TOP_ALTERNATIVES, len(self._table.texts))
        facts = 2 * tops + 7 * count
        found = _surveyed(
            [[int(value) for value in row] for row in _rows(values[:tops], 3 * count)],
            _rows(values[tops : 2 * tops], 3 * count),
            values[2 * tops : facts],
        )
        losses = values[facts:]
        return self._written(found, _rows(losses, 2) if losses else None)

    def _written(
        self, found: _Survey, losses: Sequence[Sequence[float]] | None
    ) -> list[CandidateRecord]:
        insights = self._write_down(found)
        if losses is None:
            return [CandidateRecord(insight=each) for each in insights]
        return [
            CandidateRecord(insight=insight, overlap=min(1.0, overlap), bias=bias)
            for insight, overlap, bias in zip(insights, *losses, strict=True)
        ]

    def _shown(self, both: Both, soften: _Softmax) -> _Two:
        if self._temperature > 0.0:
            return both.laws
        count = len(both.candidates)
        space = self._rows(2 * count, both.laws[1])
        drafted = both.laws[0] if both.certain else soften(both.logits[0], space[:count])
        return drafted, soften(both.logits[1], space[count:])

    def _rows(self, count: int, like: torch.Tensor) -> torch.Tensor:
        if self._space is None or self._space.shape[0] < count:
            self._space = torch.empty(
                count, like.shape[-1], dtype=torch.float32, device=like.device
            )
        return self._space[:count]

    def _write_down(self, found: _Survey) -> list[Insight]:
        count = len(found.totals)
        scales = [*[1.0] * (2 * count), *found.totals]
        tops = [
            _alternatives(ids, probs, scale, self._table.texts)
            for ids, probs, scale in zip(found.top_ids, found.top_probs, scales, strict=True)
        ]
        temperature = self._temperature or 1.0
        entropies = [
            _entropy(found.likeliest[i], found.mean[i], temperature, tops[i].probs[0])
            for i in range(2 * count)
        ]
        return [
            Insight(
                draft_prob=found.own[i],
                target_prob=found.own[count + i],
                draft_entropy=entropies[i],
                target_entropy=entropies[count + i],
                draft_top=tops[i],
                target_top=tops[count + i],
                residual_top=tops[2 * count + i],
            )
            for i in range(count)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Survey:
    """Of the draft's rows, then the target's; the tops of the residual's, too."""

    top_ids: Sequence[Sequence[int]]  # [3 * count]
    top_probs: Sequence[Sequence[float]]
    own: Sequence[float]  # the candidates' probabilities [2 * count]
    likeliest: Sequence[float]  # the likeliest tokens' logits [2 * count]
    mean: Sequence[float]  # the mean logits [2 * count]
    totals: Sequence[float]  # of the residuals [count]


_Two: TypeAlias = tuple[torch.Tensor, torch.Tensor]  # draft and target, [count, vocabulary]
_Softmax: TypeAlias = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # the second is filled


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Both:
    """What both models think at the candidates' positions."""

    candidates: torch.Tensor  # [count]
    laws: _Two
    logits: _Two
    certain: bool  # a drafter without logits: its one-hots take their place, see ``_entropy``

    @staticmethod
    def of(proposal: Proposal, target_logits: torch.Tensor, target_probs: torch.Tensor) -> Both:
        """``target_logits`` and ``target_probs`` [num_candidates, vocabulary]."""
        drafted = proposal.logits
        return Both(
            candidates=proposal.token_ids,
            laws=(proposal.probs, target_probs),
            logits=(proposal.probs if drafted is None else drafted, target_logits),
            certain=drafted is None,
        )


def _softmax(logits: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    softmax(logits.contiguous().numpy(), out.numpy())
    return out


def _softmax_in_torch(logits: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    return torch.softmax(logits, -1, out=out)


def _survey(shown: _Two, both: Both) -> _Survey:
    count, size = shown[0].shape
    shape = (3, count, min(TOP_ALTERNATIVES, size))
    top_probs, top_ids = np.empty(shape, np.float32), np.empty(shape, np.int64)
    facts = np.empty((7, count))
    rows = [each.contiguous().numpy() for each in (*shown, *both.logits)]
    survey(*rows, both.candidates.numpy(), top_probs, top_ids, facts)
    return _surveyed(
        top_ids.reshape(3 * count, -1).tolist(),
        top_probs.reshape(3 * count, -1).tolist(),
        facts.reshape(-1).tolist(),
    )


def _rows(values: Sequence[float], count: int) -> list[Sequence[float]]:
    """So many rows of equal length."""
    each = len(values) // count
    return [values[at : at + each] for at in range(0, len(values), each)]


def _surveyed(
    top_ids: Sequence[Sequence[int]], top_probs: Sequence[Sequence[float]], facts: Sequence[float]
) -> _Survey:
    pair = len(top_ids) // 3 * 2
    return _Survey(
        top_ids=top_ids,
        top_probs=top_probs,
        own=facts[:pair],
        likeliest=facts[pair : 2 * pair],
        mean=facts[2 * pair : 3 * pair],
        totals=facts[3 * pair :],
    )


def _losses(rule: Rule, draft: torch.Tensor, target: torch.Tensor) -> torch.Tensor | None:
    """Overlap and bias [2, count] of a lossy rule's positions."""
    bias = rule.bias(draft, target)
    if bias is None:
        return None
    return torch.stack((Lossless().expected(draft, target), bias))


def _facts(rows: torch.Tensor, both: Both, likeliest: torch.Tensor) -> torch.Tensor:
    """Of draft and target rows the candidates' probabilities, the likeliest tokens' logits and the
    mean logits, [2 * count] each; then the residuals' totals."""
    count, logits = both.candidates.shape[0], both.logits
    pair = 2 * count
    twice = torch.cat((both.candidates, both.candidates))
    parts = (
        rows[:pair].gather(-1, twice[:, None])[:, 0],
        logits[0].gather(-1, likeliest[:count])[:, 0],
        logits[1].gather(-1, likeliest[count:pair])[:, 0],
        torch.linalg.vecdot(rows[:count], logits[0]),
        torch.linalg.vecdot(rows[count:pair], logits[1]),
        rows[pair:].sum(-1),
    )
    return torch.cat(parts)


def _entropy(likeliest: float, mean: float, temperature: float, top_prob: float) -> float:
    """Nats, from a few numbers instead of a logarithm of every entry.

    Where p > 0, log p = z / T - k with one constant k, also after top-k and top-p; the
    likeliest token gives k, and the entropy is k - sum p z / T. For a one-hot it is 0.
    """
    return max(0.0, (likeliest - mean) / temperature - math.log(top_prob))


def top_of(rows: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest values [num_rows, count] of each row and where they stand.

    A row is read once as a grid. Its ``count`` largest values lie in the ``count`` columns with
    the largest maxima, so few are ever sorted.
    """
    size = rows.shape[-1]
    columns = size // _COLUMN
    if columns < _COLUMNS_FROM:
        top = rows.topk(min(count, size), dim=-1)
        return top.values, top.indices
    even = columns * _COLUMN
    grid = rows[:, :even].unflatten(-1, (_COLUMN, columns))
    best = grid.amax(1).topk(count, dim=-1, sorted=False).indices
    picked = grid.gather(2, best[:, None].expand(-1, _COLUMN, -1)).flatten(1)
    starts = torch.arange(0, even, columns, device=rows.device)
    where = (starts[:, None] + best[:, None]).flatten(1)
    if even < size:
        tail = torch.arange(even, size, device=rows.device).expand(rows.shape[0], -1)
        picked = torch.cat((picked, rows[:, even:]), -1)
        where = torch.cat((where, tail), -1)
    top = picked.topk(count, dim=-1)
    return top.values, where.gather(-1, top.indices)


def _alternatives(
    ids: Sequence[int], probs: Sequence[float], scale: float, texts: tuple[str, ...]
) -> Alternatives:
    if probs[-1] <= 0.0:
        kept = probs.index(0.0)
        ids, probs = ids[:kept], probs[:kept]
    if scale != 1.0:
        probs = [prob / scale for prob in probs]
    return Alternatives(
        token_ids=tuple(ids), texts=tuple(map(texts.__getitem__, ids)), probs=tuple(probs)
    )
