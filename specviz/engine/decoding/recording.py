"""Record a round: summarise both models' distributions at every candidate's position.

``Recorder.begin`` is called in the round. It returns a function that completes the record during a
later round. On a CPU with compiled kernels, this function computes the values, and the kernels
read every distribution once. Otherwise, ``begin`` computes the values or queues their computation
on the device, and the function only converts them to records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from typing import Generic, TypeAlias, TypeVar, cast

import numpy as np
import torch
from msgspec.structs import replace

from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.sampling import on_one_thread, widest_float
from specviz.engine.decoding.verify import Lossless, Rule
from specviz.engine.model.tensors import in_inference_mode
from specviz.engine.model.text import TokenTable
from specviz.kernels.readiness import survey_ready
from specviz.kernels.survey import survey
from specviz.record.trace import TOP_ALTERNATIVES, Alternatives, Candidate, Insight
from specviz.values import Value

Done = TypeVar("Done")

_COLUMN = 32  # entries per column of the grid in ``top_of``
_COLUMNS_FROM = 512  # with fewer columns, sorting a whole row is as fast


class CandidateRecord(Value):
    """Statistics of both models' distributions for one candidate; all None if the record is off."""

    insight: Insight | None = None
    overlap: float | None = None
    bias: float | None = None


def with_records(
    candidates: Sequence[Candidate], records: Mapping[int, CandidateRecord]
) -> tuple[Candidate, ...]:
    """Return the candidates with their records; ``records``: a map from index to record."""
    return tuple(
        replace(each, insight=record.insight, overlap=record.overlap, bias=record.bias)
        if (record := records.get(number))
        else each
        for number, each in enumerate(candidates)
    )


class Deferred(Generic[Done]):
    """A deferred computation; calling it returns the result."""

    def __init__(self, compute: Callable[[], Done]) -> None:
        self._result = compute

    @staticmethod
    def begin(several: Sequence[Deferred[Done]]) -> None:
        """Start computations in a single background thread, one after another.

        Call this at most once per computation, and before its result is used.
        """
        computations = [each._result for each in several]
        future = _executor().submit(lambda: [_outcome(each) for each in computations])
        for number, each in enumerate(several):
            each._result = partial(_result, future, number)

    def __call__(self) -> Done:
        return self._result()


_Outcome: TypeAlias = tuple[Done, None] | tuple[None, BaseException]


def _outcome(compute: Callable[[], Done]) -> _Outcome[Done]:
    try:
        return compute(), None
    except BaseException as error:  # raised when the result is used
        return None, error


def _result(future: Future[list[_Outcome[Done]]], number: int) -> Done:
    value, error = future.result()[number]
    if error is not None:
        raise error
    return cast("Done", value)


@cache
def _executor() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="record")


class Recorder:
    """Creates the records of a run's rounds in one workspace that all rounds share.

    Because of the shared workspace, only one record may be completed at a time. Only runs at
    temperature 0 use the workspace, because their records describe the distributions at temperature
    1. The workspace holds a row of the draft and a row of the target.
    """

    def __init__(self, table: TokenTable, temperature: float, *, in_torch: bool = False) -> None:
        """Create a recorder; ``in_torch``: compute all records in torch."""
        self._table = table
        self._temperature = temperature
        self._in_torch = in_torch
        self._space: np.ndarray | None = None

    @on_one_thread
    @in_inference_mode
    def begin(
        self,
        rule: Rule,
        proposal: Proposal,
        target_logits: torch.Tensor,
        target_probs: torch.Tensor,
    ) -> Callable[[], list[CandidateRecord]]:
        """Begin a record; return a function that completes it and returns one record per candidate.

        At temperature 0, overlap and bias describe the one-hot distributions that the run uses, but
        all other values describe the distributions at temperature 1. At any other temperature, all
        values describe the distributions that the run uses.
        """
        if self._in_torch or target_probs.device.type != "cpu" or not survey_ready():
            both = ModelOutputs.of(proposal, target_logits, target_probs)
            found = self.on_device(rule, both)
            count = len(both.candidates)
            return lambda: self.read(found.tolist(), count)
        losses = None
        if type(rule) is not Lossless:
            losses = _overlap_and_bias(rule, proposal.probs, target_probs[: len(proposal.probs)])

        def end() -> list[CandidateRecord]:
            both = ModelOutputs.of(proposal, target_logits, target_probs)
            found = self._statistics(both)
            return self._records(found, None if losses is None else losses.tolist())

        return end

    @in_inference_mode
    def on_device(self, rule: Rule, both: ModelOutputs) -> torch.Tensor:
        """Return one tensor with all values that ``read`` needs, without waiting for the device."""
        shown = self._shown_probs(both)
        rows = torch.cat((*shown, (shown[1] - shown[0]).clamp_(min=0.0)))
        top_probs, top_ids = top_of(rows, TOP_ALTERNATIVES)
        parts = [top_ids, top_probs, _logit_statistics(rows, both, top_ids[:, :1])]
        losses = _overlap_and_bias(rule, *both.probs)
        parts += [] if losses is None else [losses]
        # Token ids are exact in either precision.
        return torch.cat([part.flatten().to(widest_float(rows)) for part in parts])

    def read(self, values: Sequence[float], count: int) -> list[CandidateRecord]:
        """Return the records of ``count`` candidates from the values of ``on_device``."""
        tops = 3 * count * min(TOP_ALTERNATIVES, len(self._table.texts))
        facts = 2 * tops + 7 * count
        found = _unpacked(
            [[int(value) for value in row] for row in _rows(values[:tops], 3 * count)],
            _rows(values[tops : 2 * tops], 3 * count),
            values[2 * tops : facts],
        )
        losses = values[facts:]
        return self._records(found, _rows(losses, 2) if losses else None)

    def _records(
        self, found: _Statistics, losses: Sequence[Sequence[float]] | None
    ) -> list[CandidateRecord]:
        insights = self._insights(found)
        if losses is None:
            return [CandidateRecord(insight=each) for each in insights]
        return [
            CandidateRecord(insight=insight, overlap=min(1.0, overlap), bias=bias)
            for insight, overlap, bias in zip(insights, *losses, strict=True)
        ]

    def _shown_probs(self, both: ModelOutputs) -> _Rows:
        if self._temperature > 0.0:
            return both.probs
        drafted = both.probs[0] if both.certain else both.logits[0].softmax(-1)
        return drafted, both.logits[1].softmax(-1)

    def _statistics(self, both: ModelOutputs) -> _Statistics:
        count, size = both.logits[1].shape
        softens = 0 if self._temperature > 0.0 else 1 if both.certain else 2
        if self._space is None:
            self._space = np.empty((2, size), np.float32)
        shape = (3, count, min(TOP_ALTERNATIVES, size))
        top_probs, top_ids = np.empty(shape, np.float32), np.empty(shape, np.int64)
        facts = np.empty((7, count))
        rows = [each.contiguous().numpy() for each in (*both.probs, *both.logits)]
        candidates = both.candidates.numpy()
        survey(*rows, softens, self._space, candidates, top_probs, top_ids, facts)
        return _unpacked(
            top_ids.reshape(3 * count, -1).tolist(),
            top_probs.reshape(3 * count, -1).tolist(),
            facts.reshape(-1).tolist(),
        )

    def _insights(self, found: _Statistics) -> list[Insight]:
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


class _Statistics(Value):
    """Statistics of the distributions at the candidates' positions.

    A group describes the distributions of one kind (draft, target or residual), with one row per
    candidate. ``own``, ``likeliest`` and ``mean`` have a group for the draft, then one for the
    target. ``top_ids`` and ``top_probs`` have groups for the draft, the target and the residual.
    ``totals`` has a group for the residual only.
    """

    top_ids: Sequence[Sequence[int]]  # [3 * count]
    top_probs: Sequence[Sequence[float]]
    own: Sequence[float]  # [2 * count], the candidates' probabilities
    likeliest: Sequence[float]  # [2 * count], the likeliest tokens' logits
    mean: Sequence[float]  # [2 * count], the expected logits
    totals: Sequence[float]  # [count], the sums of the residuals


_Rows: TypeAlias = tuple[torch.Tensor, torch.Tensor]  # draft and target, [count, vocabulary]


class ModelOutputs(Value, eq=False):
    """The outputs of both models at the candidates' positions."""

    candidates: torch.Tensor  # [count]
    probs: _Rows
    logits: _Rows
    certain: bool  # no draft logits: ``logits[0]`` has the one-hots; their ``_entropy`` is 0

    @staticmethod
    def of(
        proposal: Proposal, target_logits: torch.Tensor, target_probs: torch.Tensor
    ) -> ModelOutputs:
        """Combine a proposal with the target's logits and probs `[num_rows, vocabulary]`.

        Rows after the last candidate's are ignored.
        """
        drafted, count = proposal.logits, len(proposal.token_ids)
        return ModelOutputs(
            candidates=proposal.token_ids,
            probs=(proposal.probs, target_probs[:count]),
            logits=(proposal.probs if drafted is None else drafted, target_logits[:count]),
            certain=drafted is None,
        )


def _rows(values: Sequence[float], count: int) -> list[Sequence[float]]:
    """Split the values into ``count`` rows of equal length."""
    each = len(values) // count
    return [values[at : at + each] for at in range(0, len(values), each)]


def _unpacked(
    top_ids: Sequence[Sequence[int]], top_probs: Sequence[Sequence[float]], facts: Sequence[float]
) -> _Statistics:
    pair = len(top_ids) // 3 * 2
    return _Statistics(
        top_ids=top_ids,
        top_probs=top_probs,
        own=facts[:pair],
        likeliest=facts[pair : 2 * pair],
        mean=facts[2 * pair : 3 * pair],
        totals=facts[3 * pair :],
    )


def _overlap_and_bias(rule: Rule, draft: torch.Tensor, target: torch.Tensor) -> torch.Tensor | None:
    """Return overlap and bias `[2, count]` for a lossy rule; None for a lossless rule.

    The overlap is the acceptance probability under the lossless rule; the bias is ``rule.bias``.
    """
    bias = rule.bias(draft, target)
    if bias is None:
        return None
    return torch.stack((Lossless().expected(draft, target), bias))


def _logit_statistics(
    rows: torch.Tensor, both: ModelOutputs, likeliest: torch.Tensor
) -> torch.Tensor:
    """Return ``own``, ``likeliest``, ``mean`` and ``totals`` of ``_Statistics``, concatenated."""
    count, logits = both.candidates.shape[0], both.logits
    pair = 2 * count
    # A draft may exclude tokens with logits of -inf, whose product with 0 is NaN.
    finite = logits[0].clamp(min=torch.finfo(logits[0].dtype).min)
    twice = torch.cat((both.candidates, both.candidates))
    parts = (
        rows[:pair].gather(-1, twice[:, None])[:, 0],
        logits[0].gather(-1, likeliest[:count])[:, 0],
        logits[1].gather(-1, likeliest[count:pair])[:, 0],
        torch.linalg.vecdot(rows[:count], finite),
        torch.linalg.vecdot(rows[count:pair], logits[1]),
        rows[pair:].sum(-1),
    )
    return torch.cat(parts)


def _entropy(likeliest: float, mean: float, temperature: float, top_prob: float) -> float:
    """Return the entropy in nats without taking the logarithm of every entry.

    With logits z and a constant k, log p = z / T - k wherever p > 0, also after top-k and top-p. So
    the entropy is k - mean / T. The likeliest token gives k = likeliest / T - log top_prob. For a
    one-hot distribution without logits, pass the distribution as z: the result is 0.

    Args:
        likeliest: logit of the likeliest token.
        mean: Σ p z.
        temperature: T.
        top_prob: probability of the likeliest token.
    """
    return max(0.0, (likeliest - mean) / temperature - math.log(top_prob))


def top_of(rows: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the largest values `[num_rows, count]` of each row and their indices.

    A long row is read once, as a grid. Its ``count`` largest values are all in the ``count``
    columns with the largest maxima, so only these columns are sorted.
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
        positive = probs.index(0.0)
        ids, probs = ids[:positive], probs[:positive]
    if scale != 1.0:
        probs = [prob / scale for prob in probs]
    return Alternatives(
        token_ids=tuple(ids), texts=tuple(map(texts.__getitem__, ids)), probs=tuple(probs)
    )
