"""The summary above the player for another engine's answer: a sentence and reported metrics.

A speedup is shown only if the engine's model was also timed without speculation.
"""

from __future__ import annotations

from collections.abc import Iterator

from specviz.figures.catalogue import CATALOGUE, titled
from specviz.figures.server_figures import ServerMetrics, is_round, server_metrics
from specviz.figures.speedup_words import TOO_NOISY, shown_speedup, verdict_words
from specviz.player.round_values import JsonObject
from specviz.player.summary import lead_of
from specviz.record.numbers import GAMMA, PROBABILITY, RATIO, Quantity, counted
from specviz.record.server_run import GROUNDS, ServerBlock, ServerTrace

_NOT_REPORTED = "not reported by the engine"
_NOT_REPORTED_YET = "not reported yet"
_NO_SPEEDUP = "No speedup: the target alone was not timed."


def server_summary(
    trace: ServerTrace, *, sentence: str | None = None, growing: bool = False
) -> JsonObject:
    """Return the summary; ``sentence`` replaces the default sentence."""
    figures = server_metrics(trace)
    own = _sentence(trace, figures, growing=growing)
    lead, more = lead_of(sentence) if sentence else (own, "")
    return {
        "headline": lead,
        "span": _span(trace),
        "sizes": "",
        "round_cost": None,
        "sentence": more,
        "because": "" if growing else _because(trace),
        "bodies": "",
        "lamp": "",
        "figures": [_noted(each, growing=growing) for each in _headlines(figures)],
        "finer": [_noted(each, growing=growing) for each in _finer(trace, figures)],
    }


def _span(trace: ServerTrace) -> str:
    """Return the text beside the headline: the speedup, or a note that there is none."""
    from specviz.servers.baseline import speedup_of

    found = speedup_of(trace.baseline) if trace.baseline else None
    if found is None:
        return "no speedup: the target alone was not timed"
    shown = shown_speedup(found.value, found.low, found.high)
    return shown if shown == TOO_NOISY else f"{shown} the target alone"


def _sentence(trace: ServerTrace, figures: ServerMetrics, *, growing: bool) -> str:
    tokens, rounds = trace.reported_tokens, figures.num_rounds
    came = counted(tokens, "token") if tokens is not None else counted(len(trace.rounds), "piece")
    if tokens is not None and rounds is not None:
        came = f"{came} in {counted(rounds, 'round')}"
    return f"{trace.info.title} · {trace.info.model}: {came}{' so far' if growing else ''}"


def _because(trace: ServerTrace) -> str:
    speed = speedup_words(trace) or _NO_SPEEDUP
    notes = (speed, GROUNDS[trace.grounds], _outside_rounds(trace), *trace.notices)
    return " ".join(filter(None, notes))


def _outside_rounds(trace: ServerTrace) -> str:
    """Return why some steps have no number in the player; empty if all steps or none have one."""
    if trace.grounds == "none" or all(map(is_round, trace.rounds)):
        return ""
    first = "" if is_round(trace.rounds[0]) else " The first step is the pass over the prompt."
    return f"Steps without candidates are not rounds and have no number in the player.{first}"


def speedup_words(trace: ServerTrace) -> str | None:
    """Return a sentence with the speedup; None if the target alone was not timed."""
    from specviz.servers.baseline import speedup_of

    found = speedup_of(trace.baseline) if trace.baseline else None
    if found is None:
        return None
    count = counted(len(trace.baseline), "block")
    if found.low is None or found.high is None:
        speed = f"{RATIO.bare(found.value)} times the target alone"
        return f"{speed} ({count}, no confidence interval)."
    verdict = verdict_words(
        found.value, found.low, found.high, f"on this prompt, in {count}", place=_place(trace)
    )
    return f"{verdict}."


def _place(trace: ServerTrace) -> str:
    """Return "at this address", or the plural if several addresses were timed."""
    alone = trace.baseline_address
    return "at this address" if alone in (None, trace.info.address) else "at these addresses"


def pace_alone(blocks: tuple[ServerBlock, ...]) -> float | None:
    """Return the seconds per token of the target alone, over all its answers."""
    answers = [each for block in blocks for each in block.alone]
    tokens = sum(each.tokens for each in answers)
    return sum(each.seconds for each in answers) / tokens if tokens else None


# The figures


def _card(
    name: str, quantity: Quantity, value: float | None, note: str = "", **texts: str
) -> JsonObject:
    """Return a metric as the player shows it; ``texts`` are its label and its help."""
    shown = quantity.shown(value)
    return {"id": name, "value": value, "shown": shown, "note": note, **texts}


def _known_card(name: str, value: float | None, note: str, **replaced: str) -> JsonObject:
    """Return a metric of the catalogue; ``replaced`` overrides its label or help."""
    figure = CATALOGUE[name]
    texts = {"label": titled(figure.label), "help": f"{figure.definition}."} | replaced
    return _card(name.replace("_", "-"), figure.quantity, value, note, **texts)


def _noted(card: JsonObject, *, growing: bool) -> JsonObject:
    """Return the metric; if it has no value and no note, add that it was not reported (yet)."""
    missing = _NOT_REPORTED_YET if growing else _NOT_REPORTED
    return card if card["note"] or card["value"] is not None else card | {"note": missing}


def _headlines(m: ServerMetrics) -> Iterator[JsonObject]:
    both = m.num_accepted is not None and m.num_drafted is not None
    yield _known_card(
        "draft_acceptance_rate", m.draft_acceptance_rate,
        f"{m.num_accepted} of {m.num_drafted} drafted" if both else "",
    )  # fmt: skip
    yield _known_card("tau", m.tau, "" if m.num_rounds is None else counted(m.num_rounds, "round"))
    yield _known_card(
        "tokens_per_second", m.tokens_per_second,
        "received in one piece" if m.tokens_per_second is None else "as received here",
        help="Tokens after the first piece of text, divided by the time from the first piece to "
        "the last. The time is measured here and includes network delays.",
    )  # fmt: skip
    yield _known_card(
        "ttft_ms", m.ttft_ms, "from the request",
        help="Time from the request to the first piece of text: queueing, prefill and network.",
    )  # fmt: skip


def _finer(trace: ServerTrace, m: ServerMetrics) -> Iterator[JsonObject]:
    for place, alpha in enumerate(m.alpha_by_position):
        yield _card(
            f"alpha-{place + 1}", PROBABILITY, alpha, "" if alpha is not None else "never reached",
            label=f"α at position {place + 1}",
            help="The share of rounds that accepted a candidate at this position, among the rounds "
            "that accepted a candidate at the previous position. For position 1: among all rounds "
            "that drafted.",
        )  # fmt: skip
    yield _card(
        "gamma", GAMMA, trace.info.gamma, label="γ",
        help="Candidates drafted per round, if the engine reports them.",
    )  # fmt: skip
    pace = pace_alone(trace.baseline)
    yield _known_card(
        "baseline_tokens_per_second", None if pace is None else 1 / pace,
        "not timed" if pace is None else "mean of its answers",
        label="Target alone, tokens/s",
        help="Tokens per second without speculation, in other answers to the same prompt.",
    )  # fmt: skip
