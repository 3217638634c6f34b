"""Render answers and counters of other engines for a terminal.

Values that the engine does not report are dashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from specviz.cli.render import EMITS_COLUMNS, MARKS, before_answer, indented, round_row
from specviz.cli.terminal_text import (
    INDENT,
    Painter,
    Piece,
    pad,
    paragraph,
    table,
    visible_text,
    visible_token,
    wrap_text,
)
from specviz.figures.paired import Ratio
from specviz.figures.server_figures import ServerMetrics
from specviz.figures.server_words import SPECULATES, reported_and_missing
from specviz.figures.speedup_words import TOO_NOISY, is_too_wide
from specviz.record.numbers import MILLISECONDS, PERCENT, PROBABILITY, RATE, RATIO, TOKENS, UNKNOWN
from specviz.record.server_run import GROUNDS, ServerInfo, ServerRound, ServerTrace

if TYPE_CHECKING:
    from specviz.servers.counters import Rates

TIME_COLUMNS = 11


def render_server(painter: Painter, info: ServerInfo) -> str:
    """Render a paragraph about the engine and what it reports."""
    reported, missing = reported_and_missing(info)
    gamma = f" with γ {info.gamma}" if info.gamma else ""
    lines = [
        f"{visible_token(info.model)} on {info.engine} {info.version or '(unknown version)'}, "
        f"{SPECULATES[info.capabilities.speculates]}{gamma}.",
        f"It reports: {'; '.join(reported) or 'only text'}. Not reported: {'; '.join(missing)}.",
    ]
    return paragraph(painter, " ".join(lines))


def render_server_round(painter: Painter, entry: ServerRound) -> str:
    received = f"{MILLISECONDS.shown(1000 * entry.at):>{TIME_COLUMNS}}"
    return round_row(painter, entry.index, _pieces(entry), entry.num_tokens, received)


def server_heading(painter: Painter) -> str:
    left = pad("round  tokens", painter.width - EMITS_COLUMNS - TIME_COLUMNS)
    return painter.paint(f"{left}{'emits':>{EMITS_COLUMNS}}{'received at':>{TIME_COLUMNS}}", "dim")


def _pieces(entry: ServerRound) -> list[Piece]:
    """Return the tokens of a round, styled by verdict if the engine reports verdicts.

    The order is: accepted candidates, the number of other candidates (their texts are not
    reported), and the target's token.
    """
    texts = [visible_token(each) or "⟨⟩" for each in entry.texts]
    if entry.accepted is None or len(texts) != entry.num_tokens:
        return [(text, "normal") for text in texts]
    targets, accepted = texts[entry.accepted :], texts[: entry.accepted]
    pieces: list[Piece] = [(text, "accepted") for text in accepted]
    lost = (entry.drafted or 0) - entry.accepted
    if lost > 0:
        pieces.append((f"{MARKS['rejected']}{lost} not reported", "discarded"))
    fate = "recovered" if lost > 0 else "bonus" if entry.drafted else "normal"
    return [*pieces, *((MARKS.get(fate, "") + text, fate) for text in targets)]


def render_answer(painter: Painter, trace: ServerTrace, figures: ServerMetrics) -> str:
    """Render an answer: its text, its metrics, and notes on what the metrics are based on."""
    prompt = before_answer(trace.prompt, chat=trace.settings.chat)
    safe: list[Piece] = [(visible_text(prompt), "dim"), (visible_text(trace.text), "normal")]
    text = indented(painter, wrap_text(safe, painter.width - len(INDENT)))
    notes = " ".join([GROUNDS[trace.grounds], *trace.notices])
    return "\n\n".join([text, render_metrics(painter, figures), paragraph(painter, notes)])


def render_metrics(painter: Painter, figures: ServerMetrics) -> str:
    rows = [
        ("rounds", _whole(figures.num_rounds)),
        ("candidates drafted", _whole(figures.num_drafted)),
        ("candidates accepted", _whole(figures.num_accepted)),
        ("draft acceptance rate", PERCENT.shown(figures.draft_acceptance_rate)),
        ("tokens per round, τ", TOKENS.shown(figures.tau)),
        ("α by position", _positions(figures.alpha_by_position)),
        ("tokens per second", RATE.shown(figures.tokens_per_second)),
    ]
    names, values = zip(*rows, strict=True)
    return table(painter, [list(names), list(values)])


def render_against(
    painter: Painter, found: Ratio | None, info: ServerInfo, traces: Sequence[ServerTrace]
) -> str:
    """Render the speedup over the target alone, or why it is unknown."""
    if found is None:
        return paragraph(
            painter,
            "No speedup: the model was not timed without speculation. Give --baseline with the "
            "address of a server that runs the model without speculation.",
        )
    blocks = sum(len(each.baseline) for each in traces)
    if found.low is not None and found.high is not None and is_too_wide(found.low, found.high):
        return paragraph(painter, f"No speedup: {TOO_NOISY}.")
    spread = RATIO.spread(found.value, found.low, found.high)
    return paragraph(
        painter,
        f"{visible_token(info.model)} with speculation decodes at {spread} times the speed of the "
        f"model alone at {traces[0].baseline_address}, measured in {blocks} "
        f"block{'s' * (blocks != 1)} on {len(traces)} prompt{'s' * (len(traces) != 1)}.",
    )


def render_rates(painter: Painter, found: Rates | None) -> str:
    """Render acceptance, and drafted and accepted tokens per second, as one line."""
    if found is None:
        return painter.paint("The counters were reset: the engine restarted.", "warning")
    parts = [
        f"α by position {_positions(found.alpha_by_position)}",
        f"τ {TOKENS.bare(found.accepted_length) if found.accepted_length else UNKNOWN}",
        f"accepted/drafted {PERCENT.shown(found.draft_acceptance_rate)}",
        f"drafted {_per_second(found.drafted_per_second)}",
        f"accepted {_per_second(found.accepted_per_second)}",
    ]
    return " · ".join(parts)


def _per_second(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0f}/s"


def _positions(alphas: Sequence[float | None]) -> str:
    return " ".join("—" if each is None else PROBABILITY.bare(each) for each in alphas) or UNKNOWN


def _whole(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}"
