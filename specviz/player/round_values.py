"""The rounds, timings and texts of a trace as values for JSON. See assets/player/payload.d.ts.

Probabilities that decide a verdict keep all digits, so that the verdict can be checked by hand.
Probabilities of alternatives are only displayed, so they are rounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specviz.figures.step_times import StepTimes
from specviz.figures.timing import seconds_by_round
from specviz.record.forks import Fork
from specviz.record.heads import HeadInfo
from specviz.record.token_text import TokenIndex, added_texts, alone, emitted_tokens
from specviz.record.trace import (
    Alternatives,
    Candidate,
    Extra,
    Insight,
    Rival,
    Round,
    RoundTimes,
    Trace,
)

JsonObject = dict[str, Any]
_FORKED_TOKENS = 400  # most tokens shown of the run that was forked


def prompt_texts(trace: Trace) -> list[str]:
    prompt = trace.prompt
    return added_texts(prompt.token_ids, prompt.token_texts, trace.pieces, prompt.text)


def round_items(trace: Trace, start: int = 0) -> list[JsonObject]:
    """Return the rounds from ``start`` on.

    A token has ``adds`` if the text that it adds to the output differs from the text of the token
    alone. In a conversation, a round has a ``number`` that also counts the rounds of earlier
    answers.
    """
    items = [_round(entry, trace.pieces) for entry in trace.rounds[start:]]
    if earlier := sum(each.rounds for each in trace.prompt.before):
        for number, item in enumerate(items, earlier + start + 1):
            item["number"] = number
    if head_of(trace) is not None:
        texts = _tokens(trace)
        for entry, item in zip(trace.rounds[start:], items, strict=True):
            # The newest token has no state yet, so the head reads the state of the token before.
            if entry.context_length > 1:
                item["read_at"] = texts[entry.context_length - 2]
    for (index, place), text in _adds(trace).items():
        if index >= start:
            item = items[index - start]
            [*item["candidates"], item["extra"]][place]["adds"] = text
    return items


def head_of(trace: Trace) -> HeadInfo | None:
    """Return the drafting head that the run used; None if the run used no head."""
    draft = trace.pair.draft if trace.config.draft_method.needs_head else None
    return draft.head if draft else None


def head_item(trace: Trace) -> JsonObject | None:
    """Return which target states the head reads, and whether it also reads its own states."""
    head = head_of(trace)
    if head is None:
        return None
    layers = [str(place) for place in head.places if place >= 0]
    reads = "the final hidden state"
    if layers:
        joined = " and ".join(filter(None, (", ".join(layers[:-1]), layers[-1])))
        reads = f"the input{'s' * (len(layers) > 1)} of layer{'s' * (len(layers) > 1)} {joined}"
    return {"reads": reads, "recycles": trace.config.drafter in ("eagle", "mtp")}


def _tokens(trace: Trace) -> list[str]:
    """Return each token's own text; bytes that form no character are shown as their codes."""
    prompt = zip(trace.prompt.token_ids, trace.prompt.token_texts, strict=True)
    emitted = ((token.token_id, token.text) for _, token in emitted_tokens(trace.rounds))
    return [alone(token_id, text, trace.pieces) for token_id, text in (*prompt, *emitted)]


def fork_items(trace: Trace) -> list[JsonObject]:
    """Return the position of each fork of the run, and the draw or token that the fork replaced."""
    return [_fork(each, trace) for each in trace.config.forks]


def _fork(fork: Fork, trace: Trace) -> JsonObject:
    known = trace.rounds[fork.round] if fork.round < len(trace.rounds) else None
    candidate = known.candidates[fork.place] if known else None
    insight = candidate.insight if candidate and fork.instead is not None else None
    return {
        "round": fork.round,
        "place": fork.place,
        "draw": candidate.overruled if candidate else None,
        "likeliest": _first_text(insight.target_top, trace.pieces) if insight else None,
    }


def _first_text(tops: Alternatives, pieces: Mapping[str, str]) -> str | None:
    return alone(tops.token_ids[0], tops.texts[0], pieces) if tops.token_ids else None


def forked_text(trace: Trace, other: Trace) -> JsonObject:
    """Return the text of the original run ``other`` from the position of the fork on."""
    fork = trace.config.forks[-1]
    before = sum(len(entry.emitted) for entry in other.rounds[: fork.round]) + fork.place
    emitted = [token for _, token in emitted_tokens(other.rounds)]
    ids, texts = [token.token_id for token in emitted], [token.text for token in emitted]
    added = added_texts(ids, texts, other.pieces, other.text)
    return {
        "id": fork.of,
        "before": before,
        "texts": added[before : before + _FORKED_TOKENS],
        "total": len(added),
    }


def _adds(trace: Trace) -> dict[TokenIndex, str]:
    emitted = list(emitted_tokens(trace.rounds))
    texts = [token.text for _, token in emitted]
    adds = added_texts([token.token_id for _, token in emitted], texts, trace.pieces, trace.text)
    each = zip(emitted, texts, adds, strict=True)
    return {place: added for (place, _), text, added in each if added != text}


def lanes(trace: Trace, *, is_open: bool) -> JsonObject | None:
    """Return the times of both lanes: the speculative rounds, and the target alone's tokens.

    The result is None if the target alone was not timed.

    ``is_open``: whether the interval of the speedup leaves open which lane is faster.
    """
    by_round = seconds_by_round(trace.baseline, trace.rounds)
    if by_round is None:
        return None
    target, run = (list(zip(trace.rounds, each, strict=True)) for each in by_round)
    return {
        "open": is_open,
        "speculative": [_parts(entry.times, total) for entry, total in run],
        "target": [significant(each) for entry, each in target for _ in entry.emitted],
    }


def step_seconds(steps: StepTimes) -> JsonObject | None:
    """Return the seconds of a target step, and the seconds of each phase of a round.

    The result is None if the time of a target step is unknown. The entry for the phases is None if
    the time of any phase is unknown.
    """
    if steps.target is None:
        return None
    whole = None
    if not (steps.gamma is None or steps.draft is None or steps.verification is None):
        parts = {"draft": steps.gamma * steps.draft, "verify": steps.verification}
        parts["other"] = steps.overhead
        whole = {name: significant(seconds) for name, seconds in parts.items()}
    return {"target": significant(steps.target), "round": whole}


def target_step(trace: Trace) -> float | None:
    """Return the seconds of a target step after half of ``max_new_tokens`` new tokens.

    The result is None if the run has no step costs.
    """
    if trace.step_costs is None:
        return None
    context = len(trace.prompt.token_ids) + trace.config.max_new_tokens / 2
    return significant(trace.step_costs.target_step(context))


def _parts(times: RoundTimes, total: float) -> JsonObject:
    """Divide a round's ``total`` seconds into phases, in the proportions of ``times``."""
    scale = total / times.decode if times.decode else 1.0
    parts = {"draft": times.draft, "verify": times.verify, "other": times.other}
    return {name: significant(scale * seconds) for name, seconds in parts.items()}


def _round(entry: Round, pieces: Mapping[str, str]) -> JsonObject:
    return {
        "candidates": [_candidate(each, pieces) for each in entry.candidates],
        "extra": _extra(entry.extra, pieces) if entry.extra else None,
        "cut": entry.cut,
        "times": _parts(entry.times, entry.times.decode),
    }


def _candidate(each: Candidate, pieces: Mapping[str, str]) -> JsonObject:
    facts = {
        "parent": each.parent,
        "joint": each.joint,
        "coin": each.coin,
        "noise": each.noise,
        "rival": _rival(each.rival, pieces) if each.rival else None,
    }
    return {
        "text": alone(each.token_id, each.text, pieces),
        "verdict": each.verdict,
        "draft": each.draft_prob,
        "target": each.target_prob,
        "uniform": each.uniform,
        "expected": significant(each.expected_acceptance),
        "insight": _insight(each.insight, pieces) if each.insight else None,
        **_known(facts),
    }


def _rival(rival: Rival, pieces: Mapping[str, str]) -> JsonObject:
    facts = {"noise": rival.noise, "margin": rival.margin}
    text = alone(rival.token_id, rival.text, pieces)
    return {"text": text, "target": rival.target_prob, **_known(facts)}


def _known(facts: JsonObject) -> JsonObject:
    """Return the facts that are not None. Which facts a run records depends on its rule."""
    return {name: value for name, value in facts.items() if value is not None}


def _extra(extra: Extra, pieces: Mapping[str, str]) -> JsonObject:
    return {
        "text": alone(extra.token_id, extra.text, pieces),
        "kind": extra.kind,
        "target": extra.target_prob,
        "draft": extra.draft_prob,
        "uniform": extra.uniform,
        **({"outside": True} if extra.outside else {}),
    }


def _insight(insight: Insight, pieces: Mapping[str, str]) -> JsonObject:
    return {
        "draft": insight.draft_prob,
        "target": insight.target_prob,
        "draft_entropy": significant(insight.draft_entropy),
        "target_entropy": significant(insight.target_entropy),
        "draft_top": _alternatives(insight.draft_top, pieces),
        "target_top": _alternatives(insight.target_top, pieces),
        "residual_top": _alternatives(insight.residual_top, pieces),
    }


def _alternatives(tops: Alternatives, pieces: Mapping[str, str]) -> list[list[str | float]]:
    each = zip(tops.token_ids, tops.texts, tops.probs, strict=True)
    return [[alone(token_id, text, pieces), significant(prob)] for token_id, text, prob in each]


def significant(value: float) -> float:
    return float(f"{value:.4g}")
