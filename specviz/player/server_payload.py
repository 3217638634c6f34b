"""The player's data for another engine's answer, running or complete.

What the engine does not report is absent: rejected tokens, probabilities, draws, and the phases of
a round's time. See assets/player/payload.d.ts.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from itertools import accumulate

from specviz.figures.server_figures import cut_of, is_round, reported_rounds
from specviz.player.payload import JsonObject, RunLink, RunStatus, shared_payload
from specviz.player.round_values import significant
from specviz.player.server_summary import pace_alone, server_summary
from specviz.record.numbers import RATE
from specviz.record.run_config import RunConfig
from specviz.record.server_run import GROUNDS, ServerInfo, ServerRound, ServerTrace


def server_payload(
    trace: ServerTrace,
    status: RunStatus,
    *,
    start: int = 0,
    growing: bool = False,
    link: RunLink | None = None,
    moment: Mapping[str, str] | None = None,
) -> JsonObject:
    """Return the player's data; for a growing answer, only the rounds from ``start`` on.

    A finished answer is sent whole, because engines report more about its rounds at the end.
    """
    first = start if growing else 0
    # Engines do not report their verification rule. The default config describes lossless decoding.
    config, own = RunConfig(), {"engine": _engine(trace)}
    return shared_payload(trace, status, config, own, growing=growing, link=link, moment=moment) | {
        "prompt": [trace.prompt] if trace.prompt else [],
        "rounds": {
            "from": first,
            "items": _round_items(trace, first, growing=growing),
            "total": len(trace.rounds),
            "edition": "" if growing else _edition(trace),
        },
        "lanes": _lanes(trace),
        "summary": server_summary(trace, sentence=status.sentence, growing=growing),
        "charts": {
            "throughput": None,
            "agreement": None,
            "break_even": None,
            "roofline": None,
            "left_out": _left_out(trace),
        },
    }


def _round_items(trace: ServerTrace, first: int, *, growing: bool) -> list[JsonObject]:
    """Return the chunks from index ``first`` on, with round numbers if the engine reports rounds.

    A chunk that is not a round has the number None. While an answer is in progress, each chunk is
    sent only once, so it cannot get a number later. So the chunks of an answer in progress have
    numbers if the engine can report rounds, even if it has not reported any yet.
    """
    items = [round_item(trace, index) for index in range(first, len(trace.rounds))]
    if trace.grounds == "none" and not (growing and trace.info.capabilities.rounds):
        return items
    numbers = list(accumulate(map(is_round, trace.rounds)))
    for item, chunk, number in zip(items, trace.rounds[first:], numbers[first:], strict=True):
        item["number"] = number if is_round(chunk) else None
    return items


def _times(trace: ServerTrace, index: int) -> JsonObject:
    """Return the seconds of a round, not divided into phases.

    The clock starts at the first piece of text; the time before it belongs to the prompt.
    """
    before, after = trace.rounds[max(0, index - 1)], trace.rounds[index]
    return {"whole": significant(after.at - before.at)}


def round_item(trace: ServerTrace, index: int) -> JsonObject:
    entry = trace.rounds[index]
    reported = entry.drafted is not None and entry.accepted is not None
    fates = (
        _reported_item(trace, entry) if reported else {**_NO_FATES, "unreported": _pieces(entry)}
    )
    merged = {"merged": True} if entry.merged else {}
    return {**fates, "times": _times(trace, index), "at": entry.at, **merged}


_NO_FATES: JsonObject = {"candidates": [], "extra": None, "cut": None}


def _reported_item(trace: ServerTrace, entry: ServerRound) -> JsonObject:
    """Return the candidates and the extra token of a round whose counts the engine reports.

    Accepted candidates come first, then the rejected candidate, then the discarded candidates.
    """
    drafted, accepted, cut = entry.drafted or 0, entry.accepted or 0, cut_of(trace, entry)
    candidates = [
        {"text": None, "verdict": _verdict(place, accepted), "logprob": None}
        for place in range(drafted)
    ]
    if not _is_divided(entry) or entry.num_tokens > accepted + 1:
        return {"candidates": candidates, "extra": None, "unreported": _pieces(entry), "cut": cut}
    tokens = _tokens(entry)
    for candidate, token in zip(candidates, tokens[:accepted], strict=False):
        candidate.update(token)
    extra = None
    if len(tokens) == accepted + 1:
        extra = {**tokens[-1], "kind": "bonus" if accepted == drafted else "recovered"}
    return {"candidates": candidates, "extra": extra, "cut": cut}


def _verdict(place: int, accepted: int) -> str:
    if place < accepted:
        return "accepted"
    return "rejected" if place == accepted else "discarded"


def _is_divided(entry: ServerRound) -> bool:
    return entry.num_tokens > 0 and len(entry.texts) == entry.num_tokens


def _tokens(entry: ServerRound) -> list[JsonObject]:
    logs = entry.logprobs or (None,) * len(entry.texts)
    return [
        {"text": text, "logprob": None if log is None else significant(log)}
        for text, log in zip(entry.texts, logs, strict=True)
    ]


def _pieces(entry: ServerRound) -> list[JsonObject]:
    """Return the text of a chunk, divided into tokens if the engine reports tokens."""
    if _is_divided(entry):
        return [{**token, "tokens": 1} for token in _tokens(entry)]
    text = "".join(entry.texts)
    return [{"text": text, "tokens": entry.num_tokens or None, "logprob": None}]


def _engine(trace: ServerTrace) -> JsonObject:
    return {
        "name": trace.info.title,
        "silent": _not_reported(trace.info),
        "grounds": GROUNDS[trace.grounds],
        "speculates": trace.info.capabilities.speculates,
        "unit": "piece" if trace.grounds == "none" else "round",
        "counts": "piece" if trace.reported_tokens is None else "token",
    }


def _not_reported(info: ServerInfo) -> str:
    """Return a sentence that lists what the engine does not report about its tokens."""
    if info.capabilities.speculates is False:
        return f"{info.title} does not speculate here: every token comes from the target."
    return (
        f"{info.title} does not report the draft’s and the target’s probabilities, the draws, or "
        "rejected tokens."
    )


def _lanes(trace: ServerTrace) -> JsonObject | None:
    """Return the times of both lanes: the answer, and the target alone.

    Return None if the target alone was not timed.

    The tokens of the target alone were not timed one by one, so each token gets the mean time. Both
    clocks start at the first token.
    """
    pace, tokens = pace_alone(trace.baseline), trace.reported_tokens
    if pace is None or not tokens:
        return None
    count = sum(len(block.alone) for block in trace.baseline)
    return {
        "open": True,
        "speculative": [_times(trace, index) for index in range(len(trace.rounds))],
        "target": [0.0, *[significant(pace)] * (tokens - 1)],
        "pace": f"target alone: mean pace of {count} other answers, "
        f"{RATE.shown(1 / pace)} tokens/s",
    }


def _left_out(trace: ServerTrace) -> JsonObject:
    """Return which charts are left out, and which values the engine does not report."""
    charts, why = (
        ["throughput", "agreement", "acceptance", "roofline"],
        "step costs or the models’ probabilities",
    )
    if not reported_rounds(trace):
        charts.append("places")
        why += ", nor how many candidates each round accepted"
    if trace.grounds == "none":
        charts.append("tokens")
    return {
        "charts": charts,
        "why": f"Some charts are left out, because {trace.info.title} does not report {why}.",
    }


def _edition(trace: ServerTrace) -> str:
    """Return a hash of the reported counts; it changes when the engine reports more on a round."""
    content = repr([(each.num_tokens, each.drafted, each.accepted) for each in trace.rounds])
    return blake2b(content.encode(), digest_size=8).hexdigest()
