"""Render rounds and text for a terminal.

A token's verdict or origin (rejected, recovered, …) is shown as a colour and as a mark, so that it
is readable without colour. Accepted tokens have a colour, but no mark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specviz.cli.option_groups import DEFAULTS
from specviz.cli.terminal_text import (
    INDENT,
    Painter,
    Piece,
    Style,
    display_width,
    pad,
    visible_text,
    visible_token,
    wrap_pieces,
    wrap_text,
)
from specviz.record.numbers import MILLISECONDS
from specviz.record.run_config import method_words
from specviz.record.trace import (
    Candidate,
    CutReason,
    Extra,
    Prompt,
    Round,
    RoundTimes,
    RunConfig,
    Trace,
)

INDEX_COLUMNS = 7
EMITS_COLUMNS = 6
TIMES_COLUMNS = 16
TIMES_FROM_WIDTH = 60
PROMPT_SHOWN = 400

MARKS: dict[Style, str] = {
    "rejected": "✗",
    "cut": "⤫",
    "discarded": "⋯",
    "recovered": "→",
    "bonus": "+",
}
FATES: tuple[Style, ...] = ("accepted", "rejected", "cut", "discarded", "recovered", "bonus")
CUTS: dict[CutReason, str] = {
    "eos": "end of text",
    "stop": "stop string",
    "length": "length limit",
    "context": "context full",
}


def render_heading(painter: Painter, config: RunConfig) -> str:
    """Render the lines above the rounds: the settings, the legend and the column heads."""
    lines = [
        *_settings_lines(painter, config),
        "",
        INDENT + painter.join(_spaced((f"{MARKS.get(fate, '')}{fate}", fate) for fate in FATES)),
        "",
        painter.paint(_columns_heading(painter.width), "dim"),
    ]
    return "\n".join(lines)


def _settings_lines(painter: Painter, config: RunConfig) -> list[str]:
    parts = [] if config.branching else [f"γ {config.gamma}"]
    parts += [f"temperature {config.temperature:g}"]
    parts += [f"top-k {config.top_k}"] if config.top_k else []
    parts += [f"top-p {config.top_p:g}"] if config.top_p < 1 else []
    parts += [f"seed {config.seed}"]
    parts += [f"drafter {config.drafter}"] if config.drafter != DEFAULTS.drafter else []
    parts += [each for each in method_words(config) if each != config.judging.words or config.exact]
    lines = [INDENT + painter.paint(" · ".join(parts), "dim")]
    return lines if config.exact else [*lines, INDENT + lossy_line(painter, config)]


def lossy_line(painter: Painter, config: RunConfig) -> str:
    residual = "" if config.residual == "leftover" else f", residual from {config.residual}"
    return painter.paint(
        f"LOSSY: {config.judging.words}, ε = {config.epsilon:g}{residual}", "warning"
    )


def render_round(painter: Painter, entry: Round) -> str:
    """Render the row of a round; tokens that do not fit continue on further lines."""
    times = _times(entry.times) if _times_columns(painter.width) else ""
    return round_row(painter, entry.index, _round_pieces(entry), len(entry.emitted), times)


def round_row(
    painter: Painter, index: int, pieces: Sequence[Piece], num_emitted: int, times: str
) -> str:
    """Render the row of a round; ``times`` is the last column, padded to its width."""
    body = painter.width - INDEX_COLUMNS - EMITS_COLUMNS - len(times)
    lines = wrap_pieces(pieces, body)
    first = (
        painter.paint(f"{index:>{INDEX_COLUMNS - 2}}", "dim")
        + "  "
        + painter.join(lines[0])
        + " " * (body - sum(display_width(text) for text, _ in lines[0]))
        + f"{f'+{num_emitted}':>{EMITS_COLUMNS}}"
        + (painter.paint(times, "dim") if times else "")
    )
    rest = (" " * INDEX_COLUMNS + painter.join(line) for line in lines[1:])
    return "\n".join([first, *rest])


def _times_columns(width: int) -> int:
    return TIMES_COLUMNS if width >= TIMES_FROM_WIDTH else 0


def _columns_heading(width: int) -> str:
    times = f"{'draft':>6}{'verify':>7} ms" if _times_columns(width) else ""
    left = pad("round  candidates", width - EMITS_COLUMNS - _times_columns(width))
    return f"{left}{'emits':>{EMITS_COLUMNS}}{times}"


def _times(times: RoundTimes) -> str:
    return f"{_milliseconds(times.draft):>6}{_milliseconds(times.verify):>7} ms"


def _milliseconds(seconds: float) -> str:
    value = seconds * 1000
    return MILLISECONDS.bare(value) if value < 999.95 else f"{value:.0f}"


def _round_pieces(entry: Round) -> list[Piece]:
    branched = any(each.parent is not None for each in entry.candidates)
    shown = [each for each in entry.candidates if each.verdict != "discarded" or not branched]
    pieces = [token_piece(candidate) for candidate in shown]
    if entry.extra:
        pieces.append(token_piece(entry.extra))
    if hidden := entry.num_drafted - len(shown):
        pieces.append((f"({hidden} never tested)", "dim"))
    if entry.cut:
        pieces.append((f"— {CUTS[entry.cut]}", "dim"))
    return pieces


def token_piece(token: Candidate | Extra) -> Piece:
    fate: Style = token.verdict if isinstance(token, Candidate) else token.kind
    return MARKS.get(fate, "") + (visible_token(token.text) or f"⟨{token.token_id}⟩"), fate


def _spaced(pieces: Iterator[Piece]) -> Iterator[Piece]:
    for index, piece in enumerate(pieces):
        yield ("   " if index else "", "normal")
        yield piece


def render_prompt_ids(painter: Painter, prompt: Prompt) -> str:
    """Render the prompt's token ids, so that a chat template can be checked."""
    head = f"prompt ids ({len(prompt.token_ids)}):"
    words: list[Piece] = [(word, "dim") for word in [head, *map(str, prompt.token_ids)]]
    return indented(painter, wrap_pieces(words, painter.width - len(INDENT)))


def render_text(painter: Painter, trace: Trace) -> str:
    """Render the prompt, then the text with each token in the colour of its origin."""
    prompt = before_answer(_end_of(trace.prompt.text), chat=trace.config.chat)
    pieces: list[Piece] = [(prompt, "dim"), *styled_tokens(trace)]
    safe: list[Piece] = [(visible_text(text), style) for text, style in pieces]
    return indented(painter, wrap_text(safe, painter.width - len(INDENT)))


def indented(painter: Painter, lines: list[list[Piece]]) -> str:
    return "\n".join((INDENT + painter.join(line)).rstrip() for line in lines)


def _end_of(text: str) -> str:
    return text if len(text) <= PROMPT_SHOWN else "… " + text[-PROMPT_SHOWN:]


def before_answer(prompt: str, *, chat: bool) -> str:
    """Return the prompt as shown before its answer: in a chat, with a line break."""
    return f"{prompt}\n" if chat else prompt


def styled_tokens(trace: Trace) -> list[Piece]:
    """Return the emitted text, split into tokens that are styled as accepted, recovered or bonus.

    A character made up of several tokens has the style of the last token. Text that belongs to no
    token has the normal style.
    """
    pieces: list[Piece] = []
    position, pending = 0, 0  # characters: styled so far; of tokens not yet found
    last: Style = "normal"
    for token, origin in _origins(trace):
        found = trace.text.find(token, position) if token and "\ufffd" not in token else -1
        if found < 0 or found - position > pending:
            pending, last = pending + len(token), origin
            continue
        if found > position:
            pieces.append((trace.text[position:found], last))
        pieces.append((token, origin))
        position, pending, last = found + len(token), 0, origin
    rest = trace.text[position:]
    rest_style: Style = last if len(rest) <= pending else "normal"
    return [*pieces, (rest, rest_style)] if rest else pieces


def _origins(trace: Trace) -> Iterator[tuple[str, Style]]:
    for entry in trace.rounds:
        accepted = [each for each in entry.candidates if each.verdict == "accepted"]
        tokens: list[tuple[str, Style]] = [(each.text, "accepted") for each in accepted]
        if entry.extra:
            tokens.append((entry.extra.text, entry.extra.kind))
        yield from tokens
