"""Hypothesis strategies for all traces that the file format allows."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from specviz.record import trace
from specviz.record.bodies import BodyInfo, Shape
from specviz.record.step_costs import PassBytes

# All valid texts. Lone surrogates are refused when a file is read (test_refusals.py).
TEXTS = st.text(max_size=8)
TOKENS = st.integers(0, 2**31)
COUNTS = st.integers(0, 10**6)
CHANCES = st.floats(0, 1)
SECONDS = st.floats(0, 1e6)
COSTS = st.floats(1e-9, 1e3)


def tuples(each: st.SearchStrategy[Any], *, size: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(each, max_size=size).map(tuple)


@st.composite
def alternatives(draw: st.DrawFn) -> trace.Alternatives:
    rows = draw(st.lists(st.tuples(TOKENS, TEXTS, CHANCES), max_size=3))
    ids, texts, probs = zip(*rows, strict=True) if rows else ((), (), ())
    return trace.Alternatives(token_ids=ids, texts=texts, probs=probs)


INSIGHTS = st.builds(
    trace.Insight,
    draft_prob=CHANCES,
    target_prob=CHANCES,
    draft_entropy=st.floats(-1e-6, 20),
    target_entropy=st.floats(-1e-6, 20),
    draft_top=alternatives(),
    target_top=alternatives(),
    residual_top=alternatives(),
)
CANDIDATES = st.builds(
    trace.Candidate,
    token_id=TOKENS,
    text=TEXTS,
    verdict=st.sampled_from(["accepted", "rejected", "discarded"]),
    draft_prob=st.floats(0, 1, exclude_min=True),
    target_prob=CHANCES,
    uniform=CHANCES,
    expected_acceptance=CHANCES,
    insight=st.none() | INSIGHTS,
    overlap=st.none() | CHANCES,
    bias=st.none() | CHANCES,
)
EXTRAS = st.builds(
    trace.Extra,
    token_id=TOKENS,
    text=TEXTS,
    kind=st.sampled_from(["recovered", "bonus"]),
    target_prob=CHANCES,
    draft_prob=st.none() | CHANCES,
    uniform=CHANCES,
)
ROUNDS = st.builds(
    trace.Round,
    index=COUNTS,
    context_length=COUNTS,
    candidates=tuples(CANDIDATES),
    extra=st.none() | EXTRAS,
    emitted=tuples(TOKENS),
    cut=st.sampled_from([None, "eos", "stop", "length", "context"]),
    draft_catch_up=st.integers(0, 2),
    times=st.builds(trace.RoundTimes, draft=SECONDS, verify=SECONDS, other=SECONDS, record=SECONDS),
)
CONFIGS = st.builds(
    trace.RunConfig,
    gamma=st.integers(1, 64),
    temperature=st.floats(0, 100),
    top_p=st.floats(0, 1, exclude_min=True),
    seed=st.integers(0, 2**63 - 1),
    drafter=st.sampled_from(["model", "prompt-lookup"]),
    rule=st.sampled_from(["lossless", "over-accept"]),
    epsilon=CHANCES,
    residual=st.sampled_from(["leftover", "target", "draft"]),
    ignore_eos=st.booleans(),
    stop=tuples(TEXTS.filter(bool)),
)
_SIZES = st.integers(1, 10**12)
BODIES = st.builds(
    BodyInfo,
    name=TEXTS,
    shape=st.builds(Shape, width=_SIZES, feed_forward=_SIZES, layers=_SIZES),
    parameters=_SIZES,
    own_parameters=_SIZES,
    step_bytes=_SIZES,
)
MODELS = st.builds(
    trace.ModelInfo,
    name=TEXTS,
    family=TEXTS,
    parameters=st.integers(0, 10**12),
    weights_sha256=TEXTS,
    step=st.sampled_from(["library", "lean"]),
    body=st.none() | BODIES,
)

READS = st.builds(PassBytes, weights=_SIZES, cache=COUNTS)


@st.composite
def costs(draw: st.DrawFn) -> trace.StepCosts:
    contexts = tuple(sorted(draw(st.sets(COUNTS, min_size=1, max_size=3))))
    row = st.lists(COSTS, min_size=len(contexts), max_size=len(contexts)).map(tuple)
    target = draw(st.lists(row, min_size=1, max_size=3).map(tuple))
    return trace.StepCosts(
        contexts=contexts,
        draft=draw(tuples(row, size=2)),
        target=target,
        samples=draw(st.none() | COUNTS),
        bandwidth=draw(st.none() | COSTS),
        draft_reads=draw(st.none() | READS),
        target_reads=draw(st.none() | READS),
        interpolated=(2,) if len(target) > 1 and draw(st.booleans()) else (),
    )


CONDITIONS = st.none() | st.builds(
    trace.Conditions,
    others=st.none() | COSTS,
    clock=st.none() | COSTS,
    on_battery=st.none() | st.booleans(),
)


@st.composite
def passes(draw: st.DrawFn) -> tuple[float, ...]:
    return tuple(draw(st.lists(COSTS, min_size=1, max_size=2)))


@st.composite
def traces(draw: st.DrawFn) -> trace.Trace:
    rounds = draw(tuples(ROUNDS))
    places = [i for i, entry in enumerate(rounds) if entry.whole and entry.emitted]
    slices = tuple(
        trace.Slice(first=place, last=place + 1, target=draw(passes()), speculative=draw(passes()))
        for place in (draw(st.lists(st.sampled_from(places), max_size=4)) if places else [])
    )
    timings = st.builds(
        trace.Baseline, slices=st.just(slices), prefill=SECONDS, conditions=CONDITIONS
    )
    forecast = st.builds(trace.Forecast, speedup=COSTS, tau=COSTS, kind=TEXTS, num_texts=COUNTS)
    return trace.Trace(
        config=draw(CONFIGS),
        pair=draw(
            st.builds(
                trace.PairInfo,
                name=TEXTS,
                target=MODELS,
                draft=st.none() | MODELS,
                vocabulary=COUNTS,
            )
        ),
        environment=draw(
            st.builds(
                trace.Environment,
                device=TEXTS,
                device_name=TEXTS,
                dtype=TEXTS,
                threads=COUNTS,
                cpu=TEXTS,
                versions=st.dictionaries(TEXTS, TEXTS, max_size=2),
            )
        ),
        prompt=draw(
            st.builds(
                trace.Prompt,
                text=TEXTS,
                token_ids=tuples(TOKENS),
                token_texts=tuples(TEXTS),
                kind=st.none() | TEXTS,
            )
        ),
        prefill=trace.Prefill(target=draw(SECONDS), draft=draw(SECONDS)),
        rounds=rounds,
        text=draw(TEXTS),
        finish=draw(st.sampled_from(["eos", "stop", "length", "context", "stopped"])),
        created=draw(TEXTS),
        step_costs=draw(st.none() | costs()),
        forecast=draw(st.none() | forecast),
        baseline=draw(st.none() | timings),
        notices=draw(tuples(TEXTS)),
    )
