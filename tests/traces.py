"""Hand-made traces whose figures can be computed on paper.

A round is spelt by its verdicts: ``"aar"`` is two accepted and one rejected, ``"ard"`` has
one discarded, ``""`` is a round without candidates. The extra token follows from
the spelling (recovered after a rejection, bonus otherwise) unless the round is cut or the
caller says otherwise. Token ids count up within a run; texts are ``" w<id>"``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from specviz.record.bodies import BodyInfo, Shape
from specviz.record.trace import (
    Baseline,
    Candidate,
    CutReason,
    Environment,
    Extra,
    ExtraKind,
    Forecast,
    ModelInfo,
    PairInfo,
    Prefill,
    Prompt,
    Round,
    RoundTimes,
    RunConfig,
    Slice,
    StepCosts,
    Trace,
    Verdict,
)

VERDICTS: dict[str, Verdict] = {"a": "accepted", "r": "rejected", "d": "discarded"}
# With the default probabilities the odds are 0.5: these uniforms agree with the verdicts.
UNIFORMS = {"a": 0.25, "r": 0.75, "d": 0.125}
PROMPT_LENGTH = 4
BODY = BodyInfo(
    name="90M",
    shape=Shape(width=768, feed_forward=2048, layers=12),
    parameters=88_099_584,
    own_parameters=6_099_648,
    step_bytes=352_398_336,
)


def make_candidate(letter: str = "a", *, token_id: int = 1, **fields: Any) -> Candidate:
    values: dict[str, Any] = {
        "text": f" w{token_id}",
        "draft_prob": 0.5,
        "target_prob": 0.25,
        "uniform": UNIFORMS[letter],
        "expected_acceptance": 0.5,
    }
    return Candidate(token_id=token_id, verdict=VERDICTS[letter], **(values | fields))


def make_extra(kind: ExtraKind, *, token_id: int = 9) -> Extra:
    return Extra(
        token_id=token_id,
        text=f" w{token_id}",
        kind=kind,
        target_prob=0.5,
        draft_prob=None if kind == "bonus" else 0.125,
        uniform=0.375,
    )


def make_round(
    verdicts: str,
    *,
    expected: Sequence[float] | float = 0.5,
    cut: CutReason | None = None,
    extra: ExtraKind | Literal["auto"] | None = "auto",
    times: tuple[float, float, float] = (0.002, 0.004, 0.001),
    record: float = 0.0,
    index: int = 0,
    context_length: int = PROMPT_LENGTH,
    first_token: int = 10,
    draft_catch_up: int = 1,
) -> Round:
    """``extra``: "auto" derives it from the verdicts, and omits it in a cut round."""
    chances = [expected] * len(verdicts) if isinstance(expected, int | float) else expected
    candidates = tuple(
        make_candidate(letter, token_id=first_token + place, expected_acceptance=chance)
        for place, (letter, chance) in enumerate(zip(verdicts, chances, strict=True))
    )
    kind = _extra_kind(verdicts, cut) if extra == "auto" else extra
    added = make_extra(kind, token_id=first_token + verdicts.count("a")) if kind else None
    emitted = [entry.token_id for entry in candidates if entry.verdict == "accepted"]
    return Round(
        index=index,
        context_length=context_length,
        candidates=candidates,
        extra=added,
        emitted=(*emitted, added.token_id) if added else tuple(emitted),
        cut=cut,
        draft_catch_up=draft_catch_up,
        times=RoundTimes(draft=times[0], verify=times[1], other=times[2], record=record),
    )


def make_trace(
    rounds: Iterable[Round | str] = ("aar", "aaa", "rdd"),
    *,
    config: RunConfig | None = None,
    **fields: Any,
) -> Trace:
    """Rounds may be spelt; their indices and context lengths are computed here.

    A ``baseline`` may be given as passes.
    """
    config = config or RunConfig(gamma=3)
    laid = _lay([make_round(entry) if isinstance(entry, str) else entry for entry in rounds])
    values: dict[str, Any] = {
        "pair": make_pair(draft=config.drafter == "model"),
        "environment": make_environment(),
        "prompt": make_prompt(),
        "prefill": Prefill(target=0.02, draft=0.005),
        "text": "".join(f" w{token}" for entry in laid for token in entry.emitted),
        "finish": (laid[-1].cut if laid else None) or "length",
        "created": "2026-01-02T03:04:05Z",
    }
    baseline = fields.pop("baseline", None)
    trace = Trace(config=config, rounds=laid, **(values | fields))
    return (
        timed(trace, baseline)
        if isinstance(baseline, Passes)
        else replace(trace, baseline=baseline)
    )


def full_trace() -> Trace:
    """Return a trace with every optional part."""
    rounds = [make_round("aar"), make_round("aaa"), make_round("ad", cut="eos")]
    times = ([0.01] * 8, [0.011] * 8)
    return make_trace(
        rounds,
        step_costs=make_costs(),
        forecast=Forecast(speedup=1.4, tau=2.5, kind="story", num_texts=4),
        baseline=Passes(target=times, speculative=([0.02] * 3, [0.021] * 3)),
        notices=("A notice.",),
    )


def with_bodies(
    trace: Trace,
    *,
    target: BodyInfo | None = None,
    draft: BodyInfo | None = None,
    bandwidth: float | None = None,
) -> Trace:
    """Return the trace as if its models had bodies; it has a draft and step costs."""
    pair, costs = trace.pair, trace.step_costs
    assert pair.draft is not None
    assert costs is not None
    models = replace(
        pair, target=replace(pair.target, body=target), draft=replace(pair.draft, body=draft)
    )
    return replace(trace, pair=models, step_costs=replace(costs, bandwidth=bandwidth))


def make_model(name: str = "toy-target", parameters: int = 1_000) -> ModelInfo:
    return ModelInfo(
        name=name, family="llama", parameters=parameters, weights_sha256="ab" * 32, step="lean"
    )


def make_pair(*, draft: bool = True) -> PairInfo:
    drafter = make_model("toy-draft", 100) if draft else None
    return PairInfo(name="toy", target=make_model(), draft=drafter, vocabulary=128)


def make_environment() -> Environment:
    return Environment(
        device="cpu",
        device_name="cpu",
        dtype="float32",
        threads=1,
        cpu="Paper 1.0",
        versions={"torch": "2.13.0", "numba": "0.62", "specviz": "0.1"},
    )


def make_prompt() -> Prompt:
    ids = tuple(range(1, PROMPT_LENGTH + 1))
    texts = tuple(f" w{token}" for token in ids)
    return Prompt(text="".join(texts), token_ids=ids, token_texts=texts, kind="story")


def make_costs(*, draft: float = 0.001, target: float = 0.01, extra: float = 0.001) -> StepCosts:
    """Costs independent of the context; ``extra`` is the cost of each further token."""
    contexts = (16, 64, 256)
    return StepCosts(
        contexts=contexts,
        draft=tuple((draft * tokens,) * 3 for tokens in (1, 2)),
        target=tuple((target + extra * more,) * 3 for more in range(17)),
    )


@dataclass(frozen=True, kw_only=True)
class Passes:
    """Both lanes timed along a whole run: seconds per token and per round, by pass."""

    target: Sequence[Sequence[float]]
    speculative: Sequence[Sequence[float]]
    prefill: float = 0.02


def timed(trace: Trace, passes: Passes) -> Trace:
    """Return the trace with these passes as its only slice, over its whole rounds."""
    last = sum(entry.whole for entry in trace.rounds)
    tokens = sum(len(entry.emitted) for entry in trace.rounds[:last])
    target = tuple(math.fsum(each[:tokens]) for each in passes.target)
    speculative = tuple(math.fsum(each[:last]) for each in passes.speculative)
    known = last > 0 and min((*target, *speculative), default=0.0) > 0
    slices = (Slice(first=0, last=last, target=target, speculative=speculative),)
    return replace(trace, baseline=Baseline(slices=slices if known else (), prefill=passes.prefill))


def _extra_kind(verdicts: str, cut: CutReason | None) -> ExtraKind | None:
    if cut is not None:
        return None
    return "recovered" if "r" in verdicts else "bonus"


def _lay(rounds: list[Round]) -> tuple[Round, ...]:
    laid: list[Round] = []
    context = PROMPT_LENGTH
    for index, entry in enumerate(rounds):
        laid.append(replace(entry, index=index, context_length=context))
        context += len(entry.emitted)
    return tuple(laid)
