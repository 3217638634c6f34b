"""The player's data for the answer of another engine, so far or to its end.

What the engine does not tell is absent: the texts of tokens it rejected, probabilities, draws, and
what the time of a round was spent on. See assets/player/payload.d.ts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import blake2b

from specviz.figures.server_figures import cut_of, reported_rounds, reported_tokens
from specviz.player.payload import END_TEXTS, JsonObject, RunLink, RunStatus
from specviz.player.server_summary import pace_alone, server_summary
from specviz.record.numbers import RATE
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
    """Of the rounds of a growing answer those from ``start`` on. An answer that is over is sent
    whole: engines tell more of its rounds at its end than while it comes."""
    first = start if growing else 0
    return {
        "run": _run(trace, status),
        "prompt": [trace.prompt] if trace.prompt else [],
        "rounds": {
            "from": first,
            "items": [round_item(trace, index) for index in range(first, len(trace.rounds))],
            "total": len(trace.rounds),
            "edition": "" if growing else _edition(trace),
        },
        "lanes": _lanes(trace),
        "target_step": None,
        "summary": server_summary(trace, sentence=status.sentence, growing=growing),
        "charts": {"throughput": None, "roofline": None, "left_out": _left_out(trace)},
        "end_texts": END_TEXTS,
        "growing": growing,
        "tour": "never",
        "forked": None,
        "link": asdict(link) if link is not None else None,
        "moment": dict(moment) if moment else None,
    }


def server_payload_of(trace: ServerTrace, *, run_id: str, state: str, label: str) -> JsonObject:
    """An answer that is complete."""
    return server_payload(trace, RunStatus(id=run_id, state=state, label=label))


def server_parts(trace: ServerTrace) -> list[JsonObject]:
    """The seconds of every round, undivided. The clock begins with the first piece: what came
    before it is the prompt's."""
    return [{"whole": _significant(seconds)} for seconds in _seconds(trace.rounds)]


def round_item(trace: ServerTrace, index: int) -> JsonObject:
    entry = trace.rounds[index]
    told = entry.drafted is not None and entry.accepted is not None
    fates = _told_item(trace, entry) if told else {**_NO_FATES, "untold": _pieces(entry)}
    before = trace.rounds[index - 1].at if index else entry.at
    merged = {"merged": True} if entry.merged else {}
    return {
        **fates,
        "times": {"whole": _significant(entry.at - before)},
        "at": entry.at,
        **merged,
    }


_NO_FATES: JsonObject = {"candidates": [], "extra": None, "cut": None}


def _told_item(trace: ServerTrace, entry: ServerRound) -> JsonObject:
    """The accepted candidates are the first tokens of a round, its last is the extra one."""
    drafted, accepted, cut = entry.drafted or 0, entry.accepted or 0, cut_of(trace, entry)
    candidates = [
        {"text": None, "verdict": _verdict(place, accepted), "logprob": None}
        for place in range(drafted)
    ]
    if not _is_divided(entry) or entry.num_tokens > accepted + 1:
        return {"candidates": candidates, "extra": None, "untold": _pieces(entry), "cut": cut}
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
        {"text": text, "logprob": None if log is None else _significant(log)}
        for text, log in zip(entry.texts, logs, strict=True)
    ]


def _pieces(entry: ServerRound) -> list[JsonObject]:
    """What came, by its tokens where they are told."""
    if _is_divided(entry):
        return [{**token, "tokens": 1} for token in _tokens(entry)]
    text = "".join(entry.texts)
    return [{"text": text, "tokens": entry.num_tokens or None, "logprob": None}]


def _seconds(rounds: Sequence[ServerRound]) -> list[float]:
    times = [each.at for each in rounds]
    return [later - earlier for earlier, later in zip(times[:1] + times, times, strict=False)]


def _run(trace: ServerTrace, status: RunStatus) -> JsonObject:
    settings = trace.settings
    return {
        "id": status.id,
        "state": status.state,
        "label": status.label,
        "detail": status.detail,
        "remedy": status.remedy,
        "decoded": status.decoded,
        "waiting": status.waiting,
        "lossy": False,
        "epsilon": 0.0,
        "deciding": "odds",
        "has_alpha": True,
        "residual": "leftover",
        "greedy": settings.temperature == 0,
        "gamma": trace.info.gamma,
        "temperature": settings.temperature,
        "forkable": False,
        "forks": [],
        "engine": {
            "name": trace.info.title,
            "silent": _silent(trace.info),
            "grounds": GROUNDS[trace.grounds],
            "speculates": trace.info.capabilities.speculates,
            "unit": "piece" if trace.grounds == "none" else "round",
            "counts": "piece" if reported_tokens(trace) is None else "token",
        },
    }


def _silent(info: ServerInfo) -> str:
    """What the engine keeps to itself, whatever token it is."""
    if info.capabilities.speculates is False:
        return f"{info.title} does not speculate here: every token is the target’s own."
    return (
        f"{info.title} keeps to itself what draft and target gave it, the draw that decided, and "
        "every token that it rejected."
    )


def _lanes(trace: ServerTrace) -> JsonObject | None:
    """The target alone at its mean pace, where it was timed: its tokens have no times of their own.

    Its clock begins with its first token, as that of the answer does."""
    pace, tokens = pace_alone(trace.baseline), reported_tokens(trace)
    if pace is None or not tokens:
        return None
    count = sum(len(block.alone) for block in trace.baseline)
    return {
        "open": True,
        "speculative": server_parts(trace),
        "target": [0.0, *[_significant(pace)] * (tokens - 1)],
        "pace": f"target alone: at its mean pace in {count} other answers, "
        f"{RATE.shown(1 / pace)} tokens/s",
    }


def _left_out(trace: ServerTrace) -> JsonObject:
    """The charts that need what no engine tells."""
    charts, why = (
        ["throughput", "acceptance", "roofline"],
        "step costs and both models’ probabilities",
    )
    if not reported_rounds(trace):
        charts.append("places")
        why += ", or how many candidates each round accepted"
    if trace.grounds == "none":
        charts.append("tokens")
    return {
        "charts": charts,
        "why": f"Charts that need {why} are left out: {trace.info.title} does not tell them.",
    }


def _edition(trace: ServerTrace) -> str:
    """Differs where an engine has told more of the same rounds."""
    told = repr([(each.num_tokens, each.drafted, each.accepted) for each in trace.rounds])
    return blake2b(told.encode(), digest_size=8).hexdigest()


def _significant(value: float) -> float:
    return float(f"{value:.4g}")
