"""The figures of a run as serving engines define and name them.

Engines define "acceptance rate" differently: they differ in whether untested candidates count,
whether the extra token counts, and which rounds count. The definitions come from the sources of
vLLM 0.32.0, SGLang 0.5.23, the llama.cpp in llama-cpp-python 0.3.36, and TensorRT-LLM's evaluation.
Figures whose definition these sources do not contain are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from specviz.figures.arithmetic import known_ratio
from specviz.record.trace import Round, Trace
from specviz.values import Value

EngineName = Literal["vLLM", "SGLang", "llama.cpp", "LM Studio", "TensorRT-LLM"]

# Show this with the figures.
HOW_ENGINES_DIFFER = (
    "These figures apply each engine's definition to this run's rounds. An engine's own counts "
    "would differ in the first and in the last round. An engine takes the first token from the "
    "prefill, without a draft. In the last round, vLLM, SGLang and llama.cpp also count candidates "
    "accepted beyond the end of the text."
)


class EngineFigure(Value):
    """A number computed from a run, under the name that an engine prints.

    Rates are fractions, even where the engine's log prints percent. ``value`` is a tuple if
    the figure has one value per position or per number of accepted candidates. ``value`` is None if
    nothing was drafted.
    """

    engine: EngineName
    name: str
    definition: str
    value: float | tuple[float, ...] | None


def engine_figures(trace: Trace) -> tuple[EngineFigure, ...]:
    """Return the run's figures as each engine defines them.

    SGLang's figures assume γ candidates per round. Without a fixed γ, they are left out.
    """
    counts = _counts(trace.rounds, trace.config.gamma)
    found = [*_vllm(counts)]
    if trace.config.fixed_length:
        found += _sglang(counts)
    return (*found, *_llamacpp(counts), *_lm_studio(counts), *_tensorrt(counts))


# Counting


class _Counts(Value):
    gamma: int
    rounds: int
    drafts: int  # rounds that drafted a candidate
    drafted: int
    accepted: int
    emitted: int
    by_position: tuple[int, ...]  # rounds that accepted a candidate at each position
    histogram: tuple[int, ...]  # rounds with a draft, by number of accepted candidates

    @property
    def acceptance(self) -> float | None:
        return known_ratio(self.accepted, self.drafted)

    @property
    def length(self) -> float | None:
        ratio = known_ratio(self.accepted, self.drafts)
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


# The engines

_DRAFTS = "rounds with a draft, including the last"
_DRAFTED = "candidates drafted, tested or not"
_ACCEPTED = "candidates accepted, without the extra token"
_RATE = "accepted / drafted"
_LENGTH = "1 + accepted / rounds with a draft; includes the extra token"
_POSITIONS = "for each position: rounds that accepted its candidate / rounds with a draft"


def _vllm(counts: _Counts) -> list[EngineFigure]:
    rows = [
        ("mean_acceptance_length", _LENGTH, counts.length),
        ("draft_acceptance_rate", _RATE, counts.acceptance),
        (
            "acceptance_histogram",
            "rounds with a draft, by number of accepted candidates",
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
    rate = known_ratio(counts.accepted, proposed)
    length = known_ratio(counts.accepted + counts.rounds, counts.rounds)
    longest = max((i for i, number in enumerate(counts.histogram) if number), default=-1)
    rows = [
        ("spec_accept_rate", "accepted / (rounds · γ)", rate),
        (
            "spec_accept_length",
            "tokens of the answer / rounds",
            known_ratio(counts.emitted, counts.rounds),
        ),
        ("spec_num_correct_drafts", _ACCEPTED, counts.accepted),
        ("spec_num_proposed_drafts", "rounds · γ, even if fewer candidates were drafted", proposed),
        ("spec_verify_ct", "rounds, including the last", counts.rounds),
        (
            "spec_correct_drafts_histogram",
            "rounds by number of accepted candidates, up to the largest number that occurred",
            counts.histogram[: longest + 1],
        ),
        ("sglang:spec_accept_rate", "accepted / (rounds · γ)", rate),
        (
            "sglang:spec_accept_length",
            "(accepted + rounds) / rounds; includes the extra token",
            length,
        ),
        ("sglang:spec_verify_calls_total", "rounds, including the last", counts.rounds),
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
    """Return the figures that LM Studio defines.

    Its counts of rejected and ignored tokens are left out, because they are undocumented.
    """
    rows = [
        ("stats.total_draft_tokens_count", _DRAFTED, counts.drafted),
        ("stats.accepted_draft_tokens_count", _ACCEPTED, counts.accepted),
        ("accepted_draft_tokens_count / total_draft_tokens_count", _RATE, counts.acceptance),
    ]
    return _figures("LM Studio", rows)


def _tensorrt(counts: _Counts) -> list[EngineFigure]:
    name = "avg_decoded_tokens_per_iter"
    definition = "tokens / rounds; tokens are the accepted candidates and the target's own token"
    value = known_ratio(counts.emitted, counts.rounds)
    return _figures("TensorRT-LLM", [(name, definition, value)])


_Row = tuple[str, str, float | tuple[float, ...] | None]


def _counters(prefix: str, counts: _Counts) -> list[_Row]:
    """Return the counters that vLLM and llama.cpp share, each with its definition and value.

    The names of the two engines differ only in ``prefix``.
    """
    start = f"{prefix}:spec_decode_num"
    return [
        (f"{start}_drafts_total", _DRAFTS, counts.drafts),
        (f"{start}_draft_tokens_total", _DRAFTED, counts.drafted),
        (f"{start}_accepted_tokens_total", _ACCEPTED, counts.accepted),
        (
            f"{start}_accepted_tokens_per_pos_total",
            "for each position: rounds that accepted its candidate",
            counts.by_position,
        ),
    ]


def _figures(engine: EngineName, rows: Sequence[_Row]) -> list[EngineFigure]:
    return [
        EngineFigure(engine=engine, name=name, definition=definition, value=value)
        for name, definition, value in rows
    ]
