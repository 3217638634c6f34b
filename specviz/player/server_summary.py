"""The summary above the player for another engine's answer: a sentence and its reported figures.

No speedup is shown unless the same model was timed without speculation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from specviz.figures.catalogue import CATALOGUE, titled
from specviz.figures.server_figures import ServerMetrics, reported_tokens, server_metrics
from specviz.figures.speedup_words import verdict_words
from specviz.record.numbers import MILLISECONDS, PROBABILITY, RATE, RATIO, TOKENS, Quantity
from specviz.record.server_run import GROUNDS, ServerBlock, ServerTrace

JsonObject = dict[str, Any]
_WHOLE = Quantity(digits=0)
_NOT_REPORTED = "not reported by the engine"
_NOT_REPORTED_YET = "not reported yet"
_NO_SPEEDUP = "No speedup: the target alone was not timed."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Card:
    id: str
    label: str
    value: float | None
    quantity: Quantity
    help: str
    note: str = ""

    def as_json(self, *, growing: bool) -> JsonObject:
        """Return the card; a running answer may report more at its end."""
        missing = _NOT_REPORTED_YET if growing else _NOT_REPORTED
        return {
            "id": self.id,
            "label": self.label,
            "value": self.value,
            "shown": self.quantity.shown(self.value),
            "note": self.note if self.value is not None or self.note else missing,
            "help": self.help,
        }


def server_summary(
    trace: ServerTrace, *, sentence: str | None = None, growing: bool = False
) -> JsonObject:
    """Return the summary; ``sentence`` replaces the default sentence."""
    figures = server_metrics(trace)
    return {
        "sentence": sentence or _sentence(trace, figures, growing=growing),
        "because": "" if growing else _because(trace),
        "bodies": "",
        "lamp": "",
        "figures": [each.as_json(growing=growing) for each in _headlines(figures)],
        "finer": [each.as_json(growing=growing) for each in _finer(trace, figures)],
    }


def _sentence(trace: ServerTrace, figures: ServerMetrics, *, growing: bool) -> str:
    tokens, rounds = reported_tokens(trace), figures.num_rounds
    came = _counted(tokens, "token") if tokens is not None else _counted(len(trace.rounds), "piece")
    if tokens is not None and rounds is not None:
        came = f"{came} in {_counted(rounds, 'round')}"
    return f"{trace.info.title} · {trace.info.model}: {came}{' so far' if growing else ''}."


def _counted(count: int, name: str) -> str:
    return f"{count:,} {name}{'' if count == 1 else 's'}"


def _because(trace: ServerTrace) -> str:
    notes = (speedup_words(trace) or _NO_SPEEDUP, GROUNDS[trace.grounds], *trace.notices)
    return " ".join(notes)


def speedup_words(trace: ServerTrace) -> str | None:
    """Return the speedup with its interval; None if no block was timed."""
    from specviz.servers.baseline import speedup_of

    found = speedup_of(trace.baseline) if trace.baseline else None
    if found is None:
        return None
    count = _counted(len(trace.baseline), "block")
    if found.low is None or found.high is None:
        speed = f"{RATIO.bare(found.value)} times the target alone"
        return f"{speed} ({count}, no confidence interval)."
    verdict = verdict_words(
        found.value, found.low, found.high, f"on this prompt, in {count}", place=_place(trace)
    )
    return f"{verdict}."


def _place(trace: ServerTrace) -> str:
    """Return where it was timed, which need not be this machine."""
    alone = trace.baseline_address
    return "at this address" if alone in (None, trace.info.address) else "at these addresses"


def pace_alone(blocks: tuple[ServerBlock, ...]) -> float | None:
    """Return the seconds per token of the target alone, over all its answers."""
    answers = [each for block in blocks for each in block.alone]
    tokens = sum(each.tokens for each in answers)
    return sum(each.seconds for each in answers) / tokens if tokens else None


# The figures


def _headlines(m: ServerMetrics) -> Iterator[_Card]:
    rate, tau = CATALOGUE["draft_acceptance_rate"], CATALOGUE["tau"]
    speed = CATALOGUE["tokens_per_second"]
    both = m.num_accepted is not None and m.num_drafted is not None
    yield _Card(
        id="draft-acceptance-rate", label=titled(rate.label), value=m.draft_acceptance_rate,
        quantity=rate.quantity, help=f"{rate.definition}.",
        note=f"{m.num_accepted} of {m.num_drafted} drafted" if both else "",
    )  # fmt: skip
    yield _Card(
        id="tau", label=titled(tau.label), value=m.tau, quantity=TOKENS, help=f"{tau.definition}.",
        note="" if m.num_rounds is None else _counted(m.num_rounds, "round"),
    )  # fmt: skip
    yield _Card(
        id="tokens-per-second", label=titled(speed.label), value=m.tokens_per_second,
        quantity=RATE,
        note="received in one piece" if m.tokens_per_second is None else "as received here",
        help="Tokens after the first piece, divided by the time from the first piece to the last, "
        "measured here: network delays included.",
    )  # fmt: skip
    yield _Card(
        id="ttft-ms", label="Time to first token",
        value=None if m.ttft is None else 1000 * m.ttft, quantity=MILLISECONDS,
        help="From the request to the first piece: queueing, prefill and network.",
        note="from the request",
    )  # fmt: skip


def _finer(trace: ServerTrace, m: ServerMetrics) -> Iterator[_Card]:
    for place, alpha in enumerate(m.alpha_by_position):
        yield _Card(
            id=f"alpha-{place + 1}", label=f"α at position {place + 1}", value=alpha,
            quantity=PROBABILITY, note="" if alpha is not None else "never reached",
            help="Share of rounds accepted at this position, among those accepted at the previous "
            "one; for position 1, among all rounds that drafted.",
        )  # fmt: skip
    yield _Card(
        id="gamma", label="γ", value=trace.info.gamma, quantity=_WHOLE,
        help="Candidates drafted per round, if the engine reports it.",
    )  # fmt: skip
    pace = pace_alone(trace.baseline)
    yield _Card(
        id="baseline-tokens-per-second", label="Target alone, tokens/s",
        value=None if pace is None else 1 / pace, quantity=RATE,
        note="not timed" if pace is None else "mean of its answers",
        help="Tokens per second without speculation, in other answers to the same prompt.",
    )  # fmt: skip
