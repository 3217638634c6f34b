"""One run in the figures of serving engines, under the names that they print.

"Acceptance rate" does not mean one thing: whether candidates that were never tested count, whether
the extra token does, and which rounds do, differs. Definitions are those of the sources: vLLM
0.32.0, SGLang 0.5.23, the llama.cpp in llama-cpp-python 0.3.36, TensorRT-LLM's evaluation. What
could not be read there is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from specviz.record.trace import Round, Trace

EngineName = Literal["vLLM", "SGLang", "llama.cpp", "LM Studio", "TensorRT-LLM"]

# To be shown with the figures.
HOW_ENGINES_DIFFER = (
    "These are this run's rounds, counted as each engine counts its own. An engine's run differs "
    "at its ends: it takes the first token from the prefill, without a draft, and in the last "
    "round vLLM, SGLang and llama.cpp also count candidates accepted beyond the end of the text."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFigure:
    """``name`` as the engine prints it. Rates are fractions, though a log may print percent.

    ``value`` is a tuple where there is one for each position or count; None without any draft.
    """

    engine: EngineName
    name: str
    definition: str
    value: float | tuple[float, ...] | None


def engine_figures(trace: Trace) -> tuple[EngineFigure, ...]:
    """SGLang's only of a drafter that fills rounds: by its figures every round drafts the same."""
    counts = _counts(trace.rounds, trace.config.gamma)
    found = [*_vllm(counts)]
    if trace.config.fixed_length:
        found += _sglang(counts)
    return (*found, *_llamacpp(counts), *_lm_studio(counts), *_tensorrt(counts))


# Counting


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counts:
    gamma: int
    rounds: int
    drafts: int  # rounds that drafted a candidate
    drafted: int
    accepted: int
    emitted: int
    by_position: tuple[int, ...]  # rounds that accepted at the position
    histogram: tuple[int, ...]  # rounds with a draft, by how many they accepted

    @property
    def acceptance(self) -> float | None:
        return _ratio(self.accepted, self.drafted)

    @property
    def length(self) -> float | None:
        ratio = _ratio(self.accepted, self.drafts)
        return None if ratio is None else 1 + ratio

    @property
    def rates(self) -> tuple[float, ...] | None:
        return tuple(each / self.drafts for each in self.by_position) if self.drafts else None


def _counts(rounds: Sequence[Round], gamma: int) -> _Counts:
    drafts = [entry for entry in rounds if entry.candidates]
    accepted = [entry.num_accepted for entry in drafts]
    return _Counts(
        gamma=gamma,
        rounds=len(rounds),
        drafts=len(drafts),
        drafted=sum(entry.num_drafted for entry in drafts),
        accepted=sum(accepted),
        emitted=sum(len(entry.emitted) for entry in rounds),
        by_position=tuple(sum(each > place for each in accepted) for place in range(gamma)),
        histogram=tuple(accepted.count(number) for number in range(gamma + 1)),
    )


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


# The engines

_DRAFTS = "rounds that drafted, the last one included"
_DRAFTED = "candidates drafted, tested or not"
_ACCEPTED = "candidates accepted, without the extra token"
_RATE = "accepted / drafted"
_LENGTH = "1 + accepted / rounds that drafted: the extra token counts"
_POSITIONS = "by position: rounds that accepted there / rounds that drafted, so it never rises"


def _vllm(counts: _Counts) -> list[EngineFigure]:
    rows = [
        ("mean_acceptance_length", _LENGTH, counts.length),
        ("draft_acceptance_rate", _RATE, counts.acceptance),
        (
            "acceptance_histogram",
            "rounds that drafted, by how many they accepted",
            counts.histogram,
        ),
        ("num_spec_steps", _DRAFTS, counts.drafts),
        ("num_accepted_draft_tokens", _ACCEPTED, counts.accepted),
        ("num_draft_tokens", _DRAFTED, counts.drafted),
        ("Per-position acceptance rate", _POSITIONS, counts.rates),
        *_counters("vllm", counts),
    ]
    return _figures("vLLM", rows)


def _sglang(counts: _Counts) -> list[EngineFigure]:
    proposed = counts.rounds * counts.gamma
    rate = _ratio(counts.accepted, proposed)
    length = _ratio(counts.accepted + counts.rounds, counts.rounds)
    longest = max((i for i, number in enumerate(counts.histogram) if number), default=-1)
    rows = [
        ("spec_accept_rate", "accepted / (rounds · γ)", rate),
        (
            "spec_accept_length",
            "tokens of the answer / rounds",
            _ratio(counts.emitted, counts.rounds),
        ),
        ("spec_num_correct_drafts", _ACCEPTED, counts.accepted),
        ("spec_num_proposed_drafts", "rounds · γ, however many were drafted", proposed),
        ("spec_verify_ct", "rounds, the last one included", counts.rounds),
        (
            "spec_correct_drafts_histogram",
            "rounds by how many candidates they accepted, as far as any did",
            counts.histogram[: longest + 1],
        ),
        ("sglang:spec_accept_rate", "accepted / (rounds · γ)", rate),
        (
            "sglang:spec_accept_length",
            "(accepted + rounds) / rounds: the extra token counts",
            length,
        ),
        ("sglang:spec_verify_calls_total", "rounds, the last one included", counts.rounds),
    ]
    return _figures("SGLang", rows)


def _llamacpp(counts: _Counts) -> list[EngineFigure]:
    rows = [
        ("timings.draft_n", _DRAFTED, counts.drafted),
        ("timings.draft_n_accepted", _ACCEPTED, counts.accepted),
        ("draft acceptance", _RATE, counts.acceptance),
        ("mean len", _LENGTH, counts.length),
        ("acc per pos", _POSITIONS, counts.rates),
        *_counters("llamacpp", counts),
    ]
    return _figures("llama.cpp", rows)


def _lm_studio(counts: _Counts) -> list[EngineFigure]:
    """Of the rejected and the ignored ones it is not known which it takes for what."""
    rows = [
        ("stats.total_draft_tokens_count", _DRAFTED, counts.drafted),
        ("stats.accepted_draft_tokens_count", _ACCEPTED, counts.accepted),
        ("accepted_draft_tokens_count / total_draft_tokens_count", _RATE, counts.acceptance),
    ]
    return _figures("LM Studio", rows)


def _tensorrt(counts: _Counts) -> list[EngineFigure]:
    name = "avg_decoded_tokens_per_iter"
    definition = "tokens / rounds: the accepted candidates and the target's own token"
    return _figures("TensorRT-LLM", [(name, definition, _ratio(counts.emitted, counts.rounds))])


_Row = tuple[str, str, float | tuple[float, ...] | None]


def _counters(prefix: str, counts: _Counts) -> list[_Row]:
    """vLLM and llama.cpp give them one name each."""
    start = f"{prefix}:spec_decode_num"
    return [
        (f"{start}_drafts_total", _DRAFTS, counts.drafts),
        (f"{start}_draft_tokens_total", _DRAFTED, counts.drafted),
        (f"{start}_accepted_tokens_total", _ACCEPTED, counts.accepted),
        (
            f"{start}_accepted_tokens_per_pos_total",
            "by position: rounds that accepted there",
            counts.by_position,
        ),
    ]


def _figures(engine: EngineName, rows: Sequence[_Row]) -> list[EngineFigure]:
    return [
        EngineFigure(engine=engine, name=name, definition=definition, value=value)
        for name, definition, value in rows
    ]
