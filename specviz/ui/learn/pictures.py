"""The pictures of the lesson's steps, drawn by ``assets/lesson_pictures`` from a run's values.

This module computes the values and fills the texts of a picture. If a value is not known yet, the
picture omits the value and the caption says so. ``position_bars`` draws the distributions that a
user can drag.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from math import ceil
from typing import Any, Literal

from specviz.figures.roofline import Roofline
from specviz.figures.round_cost import RoundCost, round_cost_of
from specviz.figures.speedup_words import is_too_wide, shown_speedup
from specviz.record.numbers import COUNT, MILLISECONDS, PROBABILITY, RATIO, SIZE, STEPS, TOKENS
from specviz.record.token_text import emitted_tokens
from specviz.theory.speed import expected_tokens, speedup
from specviz.ui.learn.checks import text_of
from specviz.ui.learn.steps import target_alone_ms
from specviz.ui.session.history import ShownRun, recorded_run
from specviz.ui.session.recordings import recording_named
from specviz.ui.widgets.asset_component import asset_component
from specviz.values import Value

_PASSES = (1, 5, 9)  # tokens per pass in the picture of one pass
_GAMMAS = (1, 2, 5, 8, 12)
_FEW_GUESSES, _MOST_GUESSES = 3, 6  # guesses in the picture of step "memory"

_mount = asset_component("lesson_pictures")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a bar: the time for drafting, for a pass of the target, or for other work."""

    kind: Literal["draft", "target", "other"]
    size: float


@dataclass(frozen=True, slots=True)
class Token:
    text: str
    state: str  # a verdict, or the kind of an extra token


@dataclass(frozen=True, slots=True)
class LegendEntry:
    kind: str
    word: str


class Row(Value):
    """A bar with its name (``label``) and its length as text (``note``)."""

    label: str
    note: str
    parts: Sequence[Part]
    outline: float = 0.0  # a length to compare with
    squares: float = 0.0  # tokens, drawn below the bar
    tokens: Sequence[Token] = ()


class Stream(Value):
    """A row in the step "memory": some tokens, and the number of target passes for these tokens.

    In each pass, the target reads all of its weights.
    """

    label: str
    note: str
    passes: int
    tokens: Sequence[Token]


class Picture(Value):
    alt: str
    caption: str
    rows: Sequence[Row] = ()
    streams: Sequence[Stream] = ()
    memory: str = ""
    legend: Sequence[LegendEntry] = ()
    room: float = 0.0  # least length of the scale

    def data(self) -> dict[str, Any]:
        """Return the picture as JSON for the browser, with one scale for all bars."""
        lengths = [max(row.outline, _length(row)) for row in self.rows]
        return asdict(self) | {"scale": max([self.room, *lengths])}


def show_picture(picture: Picture, *, key: str) -> None:
    _mount(key=key, data=picture.data())


def picture_of(name: str, run: ShownRun, c: float | None = None) -> Picture | None:
    """Return the picture of a step, with values of ``run``; None for a step without a picture.

    Args:
        c: The draft cost that the user chose, for the step "costs".
    """
    if name == "costs":
        return _costs(run, text_of("steps/costs")["picture"], c)
    draw = _PICTURES.get(name)
    return draw(run, text_of(f"steps/{name}")["picture"]) if draw else None


def name_of(run: ShownRun) -> str:
    """Return the name that a caption uses for the run."""
    words = text_of("page")
    if run.name is not None:
        return words["library_run"].format(name=run.name)
    return words["own_run" if recording_named(run.id) is None else "recorded_run"]


def _memory(run: ShownRun, words: dict[str, str]) -> Picture:
    if len(run.trace.rounds[0].candidates) < _FEW_GUESSES:
        run = recorded_run()
    trace, roofline = run.trace, run.figures.roofline
    guesses = [Token(each.text, "drafted") for each in trace.rounds[0].candidates][:_MOST_GUESSES]
    count, size = len(guesses), COUNT.shown(trace.pair.target.parameters).replace(" ", "\u00a0")
    written = [
        Token(each.text, "written") for _, each in islice(emitted_tokens(trace.rounds), count)
    ]
    read = roofline.target.read if roofline else None
    ms = MILLISECONDS.shown(target_alone_ms(run))
    named = {"run": name_of(run), "count": count, "size": size, "ms": ms}

    def note(key: str, passes: int) -> str:
        amount = f", {SIZE.shown(passes * read)}" if read else ""
        return words[key].format(**named) + amount

    return Picture(
        alt=words["alt"].format(**named),
        caption=words[_timing_word(run)].format(**named),
        memory=words["memory"].format(**named),
        streams=(
            Stream(label=words["alone"], note=note("read", count), passes=count, tokens=written),
            Stream(label=words["checked"], note=note("read_once", 1), passes=1,
                   tokens=guesses),
        ),
    )  # fmt: skip


def _timing_word(run: ShownRun) -> str:
    """Return the key of the run's caption.

    The key is "measuring" until the run is complete. Then it is "timed" if the target alone was
    timed, else "untimed".
    """
    if run.growing:
        return "measuring"
    return "timed" if target_alone_ms(run) else "untimed"


def _drafting(run: ShownRun, words: dict[str, str]) -> Picture:
    entry = run.trace.rounds[0]
    drafted, draft = entry.num_drafted, 1000 * entry.times.draft
    verify, other = 1000 * entry.times.verify, 1000 * entry.times.other
    tokens = [Token(each.text, each.verdict) for each in entry.candidates]
    if entry.extra:
        tokens.append(Token(entry.extra.text, entry.extra.kind))
    numbers = {
        "run": name_of(run), "drafted": drafted, "accepted": entry.num_accepted,
        "got": len(entry.emitted), "draft": MILLISECONDS.shown(draft),
        "verify": MILLISECONDS.shown(verify),
    }  # fmt: skip
    row = Row(
        label=words["round"].format(**numbers), note=MILLISECONDS.shown(draft + verify + other),
        parts=[*_drafts(drafted, draft), Part("target", verify), Part("other", other)],
        tokens=tokens,
    )  # fmt: skip
    return Picture(
        alt=words["alt"].format(**numbers), caption=words["caption"].format(**numbers), rows=(row,),
        legend=_legend("draft", "target", "other"),
    )  # fmt: skip


def _one_pass(run: ShownRun, words: dict[str, str]) -> Picture:
    known, roofline = _with_costs(run)
    step = roofline.passes[0].seconds
    found = [(count, roofline.passes[count - 1].seconds) for count in _PASSES]
    rows = [
        Row(
            label=words["one" if count == 1 else "several"].format(count=count),
            note=f"{MILLISECONDS.shown(1000 * seconds)} · {RATIO.shown(seconds / step)}",
            parts=[Part("target", seconds)], outline=count * step,
        )
        for count, seconds in found
    ]  # fmt: skip
    numbers = {
        "run": name_of(known), "size": COUNT.shown(known.trace.pair.target.parameters),
        "ratio": RATIO.shown(found[-1][1] / step), "count": found[-1][0],
    }  # fmt: skip
    return Picture(
        alt=words["alt"].format(**numbers), rows=rows,
        caption=_measured_later(run, known, words["caption"].format(**numbers)),
        legend=_legend("target", outline=words["outline"]),
    )  # fmt: skip


def _gamma(run: ShownRun, words: dict[str, str]) -> Picture:
    known, roofline = _with_costs(run)
    assert roofline.draft is not None
    alpha, step = known.figures.alpha or 0.0, 1000 * roofline.draft.seconds
    rows: list[Row] = []
    for gamma in _GAMMAS:
        verify, tokens = 1000 * roofline.passes[gamma].seconds, expected_tokens(alpha, gamma)
        rows.append(
            Row(
                label=words["row"].format(gamma=gamma, tokens=TOKENS.shown(tokens)),
                note=MILLISECONDS.shown(gamma * step + verify), squares=tokens,
                parts=[*_drafts(gamma, gamma * step), Part("target", verify)],
            )
        )  # fmt: skip
    numbers = {"run": name_of(known), "alpha": PROBABILITY.shown(alpha),
               "first": rows[0].label, "last": rows[-1].label}  # fmt: skip
    return Picture(
        alt=words["alt"].format(**numbers), rows=rows,
        caption=_measured_later(run, known, words["caption"].format(**numbers)),
        legend=_legend("draft", "target", square=words["squares"]),
    )  # fmt: skip


def _costs(run: ShownRun, words: dict[str, str], c: float | None) -> Picture:
    known, _ = _with_costs(run)
    figures, gamma = known.figures, known.trace.config.gamma
    cost, v, alpha = (figures.c if c is None else c) or 0.0, figures.v or 1.0, figures.alpha or 0.0
    tokens, total = expected_tokens(alpha, gamma), gamma * round(cost, 2) + round(v, 2)  # as shown
    numbers = {
        "run": name_of(known), "tokens": TOKENS.shown(tokens), "gamma": gamma,
        "alpha": PROBABILITY.shown(alpha), "c": STEPS.shown(cost), "v": STEPS.shown(v),
        "total": STEPS.shown(total), "speed": RATIO.shown(speedup(alpha, gamma, cost, v)),
    }  # fmt: skip
    rows = (
        Row(label=words["alone"].format(**numbers), parts=_steps(tokens),
            note=words["steps"].format(steps=TOKENS.shown(tokens))),
        Row(label=words["round"], note=words["steps"].format(steps=STEPS.shown(total)),
            parts=[*_drafts(gamma, gamma * cost), Part("target", v)]),
    )  # fmt: skip
    return Picture(
        alt=words["alt"].format(**numbers), rows=rows,
        caption=_measured_later(run, known, words["caption"].format(**numbers)),
        legend=_legend("draft", "target"), room=gamma + v,
    )  # fmt: skip


def _loses(run: ShownRun, words: dict[str, str]) -> Picture:
    figures, mean = run.figures, round_cost_of(run.figures)
    tokens, parts = figures.tau or 0.0, _phases(mean) if mean else []
    cost = STEPS.shown(sum(round(each.size, 2) for each in parts) if parts else None)  # as shown
    low, high = figures.speedup_low, figures.speedup_high
    numbers = {"run": name_of(run), "tokens": TOKENS.shown(tokens), "cost": cost,
               "speed": shown_speedup(figures.speedup_observed, low, high)}  # fmt: skip
    rows = (
        Row(label=words["alone"].format(**numbers), parts=_steps(tokens),
            note=words["steps"].format(steps=TOKENS.shown(tokens))),
        Row(label=words["round"].format(**numbers), parts=parts,
            note=words["steps"].format(steps=cost) if parts else words["unknown"]),
    )  # fmt: skip
    name = "noisy" if is_too_wide(low, high) and not run.growing else _timing_word(run)
    caption = words[name].format(**numbers)
    if mean and mean.source == "step costs":
        caption += f" {words['by_step_costs']}"
    alt = words["alt" if parts else "alt_unknown"].format(**numbers)
    return Picture(alt=f"{alt} {caption}", caption=caption, rows=rows,
                   legend=_legend("draft", "target", "other"))  # fmt: skip


def _phases(cost: RoundCost) -> list[Part]:
    """Return a round's drafting, verification and other time as parts of a bar, in target steps."""
    return [Part("draft", cost.drafting), Part("target", cost.verification),
            Part("other", cost.other)]  # fmt: skip


def _with_costs(run: ShownRun) -> tuple[ShownRun, Roofline]:
    """Return a run with step costs, and the roofline of this run.

    The returned run is ``run`` if it has step costs and the speedup formulas apply to it. Otherwise
    it is the recorded run.
    """
    config, roofline = run.trace.config, run.figures.roofline
    known = config.formulas_hold and run.figures.c and run.figures.v and run.figures.alpha
    if roofline is None or not known or len(roofline.passes) <= max(_GAMMAS):
        run = recorded_run()
        roofline = run.figures.roofline
        assert roofline is not None
    return run, roofline


def _measured_later(run: ShownRun, known: ShownRun, caption: str) -> str:
    """Return the caption; if the picture temporarily shows another run, add a note.

    The other run is ``known``. It is shown while ``run`` is being measured. The note says that the
    step costs of ``run`` come later.
    """
    waits = known is not run and run.growing
    return f"{caption} {text_of('page')['costs_later']}" if waits else caption


def _length(row: Row) -> float:
    return sum(each.size for each in row.parts)


def _drafts(count: int, size: float) -> list[Part]:
    """Return ``count`` draft steps whose sizes add up to ``size``."""
    return [Part("draft", size / count) for _ in range(count)]


def _steps(tokens: float) -> list[Part]:
    """Return one target step per token. If ``tokens`` is fractional, the last step is shorter."""
    return [Part("target", min(1.0, tokens - step)) for step in range(ceil(tokens))]


def _legend(*kinds: str, **named: str) -> list[LegendEntry]:
    """Return the legend entries: first ``kinds``, then ``named``.

    The labels of ``kinds`` come from the page's texts. ``named`` gives the label of each further
    kind.
    """
    words = text_of("page")
    entries = [LegendEntry(kind, words[f"legend_{kind}"]) for kind in kinds]
    return entries + [LegendEntry(kind, word) for kind, word in named.items()]


_PICTURES: dict[str, Callable[[ShownRun, dict[str, str]], Picture]] = {
    "memory": _memory,
    "drafting": _drafting,
    "one_pass": _one_pass,
    "gamma": _gamma,
    "loses": _loses,
}
