"""The lanes of the Compare page, each drawn as a card, and the link that contains them.

A lane is a pair of models with its settings; a card is a box with the controls of one lane.

In the link, a lane is ``lane=gamma=2,temperature=0.7``; settings that are left out have their
defaults. Opening a link loads no pair: loading needs a click.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from specviz.comparison.plan import (
    MAX_LANES,
    MAX_NAME,
    MIN_LANES,
    SHARED,
    Lane,
    escaped,
    lane_labels,
    parse_lane,
)
from specviz.errors import SpecvizError
from specviz.figures.body_words import spec_words
from specviz.figures.symbols import SYMBOLS
from specviz.local_models.naming import with_head
from specviz.record.bodies import NO_BODY, ModelShape
from specviz.record.body_costs import BodyRoom
from specviz.record.drafters import methods_for
from specviz.record.forks import forks_text
from specviz.record.limits import COMPARED
from specviz.record.pairs import SWITCHES, PairSpec, installed_pairs, known_pairs
from specviz.record.run_config import RunConfig, refuse_own_drafter
from specviz.record.shapes import shape_text
from specviz.ui.session.body_rooms import known_room
from specviz.ui.session.model_places import refusal_of
from specviz.ui.widgets.body_boxes import BODY_LABELS, offered, size_title
from specviz.ui.widgets.method_boxes import METHOD_SETTINGS, MethodBoxes, method_of, with_method
from specviz.ui.widgets.pair_boxes import BODY_BOXES, DRAFT_BODY, TARGET_BODY
from specviz.ui.widgets.pair_panel import num_layers
from specviz.ui.widgets.plain_text import as_text
from specviz.ui.widgets.run_controls import watched_temperature

LANES_HANDOVER = "compare_lanes"  # session state: lanes that another page hands over, as text
DOTS = (":blue[●]", ":orange[◆]", ":violet[■]", ":green[▲]")  # the symbols of the charts
_KEY = "compare cards"
_LINK = "lane"
_FIRST = (RunConfig(gamma=2), RunConfig(gamma=8))
_CLAMPED = ("temperature", "top_k", "top_p")  # moved into the range of their controls
_NEXT_LANES = (RunConfig(drafter="prompt-lookup"), RunConfig(gamma=4), *_FIRST)


@dataclass(slots=True)
class Card:
    """The box with the controls of one lane, and the lane that they describe.

    The card's number is part of its widgets' keys and is never reused.

    ``first`` is the lane as it was when the page was last opened. It supplies the widgets' initial
    values. These values must not change while the page is open, because the browser draws the
    widgets of a popover only when the user opens the popover.
    """

    number: int
    lane: Lane
    first: Lane = field(init=False)

    def __post_init__(self) -> None:
        self.first = self.lane

    def key(self, name: str) -> str:
        return f"compare_{self.number}_{name}"

    def open(self) -> None:
        """Update ``first`` if the page was just opened; call before the widgets are drawn."""
        if self.key("gamma") not in st.session_state:
            self.first = self.lane


@dataclass(slots=True)
class Cards:
    """The cards of a session's lanes. The lanes come from the link, another page, or defaults."""

    cards: list[Card] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)  # settings clipped to their controls
    shown: PairSpec | None = None  # the page's pair at the last redraw
    _count: int = 0

    @property
    def lanes(self) -> tuple[Lane, ...]:
        return tuple(card.lane for card in self.cards)

    def take(self, texts: Sequence[str], spec: PairSpec) -> None:
        """Replace all lanes by the lanes in ``texts``, for example "gamma=2,temperature=0.7".

        Invalid lanes are left out, and their errors are stored in ``refused``.
        """
        self.cards, self.refused, self.changed = [], [], []
        for text in texts[:MAX_LANES]:
            try:
                lane = parse_lane(text, Lane(spec=PairSpec(), config=RunConfig()))
                refuse_own_drafter(lane.config)
            except SpecvizError as error:
                self.refused.append(str(error))
            else:
                if refusal_of(lane.spec) is None:  # ``with_head`` opens files of the draft
                    lane = replace(lane, spec=with_head(lane.spec))
                self.add(self._clipped(lane))
        if len(texts) > MAX_LANES:
            self.refused.append(f"A comparison has at most {MAX_LANES} lanes.")
        while len(self.cards) < MIN_LANES:
            self.add_spare(spec)

    def add(self, lane: Lane) -> None:
        self._count += 1
        config = replace(lane.config, **{name: _default(name) for name in SHARED})
        self.cards.append(Card(number=self._count, lane=replace(lane, config=config)))

    def add_spare(self, spec: PairSpec) -> None:
        """Add a lane that differs from all others and has the temperature of the last lane.

        If there is no lane yet, the new lane has the temperature set on the Watch page.
        """
        present = {(each.spec, each.config) for each in self.lanes}
        spare = _FIRST if len(self.cards) < MIN_LANES else _NEXT_LANES
        at = self.lanes[-1].config.temperature if self.cards else watched_temperature()
        lanes = [Lane(spec=spec, config=replace(config, temperature=at)) for config in spare]
        new = (each for each in lanes if (each.spec, each.config) not in present)
        self.add(next(new, lanes[0]))

    def follow(self, spec: PairSpec) -> None:
        """If the user chose another pair, use it in the lanes that had the previous pair."""
        before, self.shown = self.shown, spec
        for card in self.cards:
            if before not in (None, spec) and card.lane.spec == before:
                card.lane, card.first = (
                    replace(card.lane, spec=spec),
                    replace(card.first, spec=spec),
                )
                for name in ("pair", *BODY_BOXES):
                    st.session_state.pop(card.key(name), None)

    def _clipped(self, lane: Lane) -> Lane:
        """Return the lane with its settings clipped to the controls' ranges.

        Each clipped setting adds a sentence to ``changed``.
        """
        ends: dict[str, Any] = {
            name: COMPARED[name].nearest(getattr(lane.config, name)) for name in _CLAMPED
        }
        self.changed += [
            f"Lane {len(self.cards) + 1}: {name.replace('_', '-')} "
            f"{getattr(lane.config, name):g} is out of range and was set to {end:g}."
            for name, end in ends.items()
            if end != getattr(lane.config, name)
        ]
        return replace(lane, config=replace(lane.config, **ends))

    def remove(self, number: int) -> None:
        self.cards = [card for card in self.cards if card.number != number]


def _default(name: str) -> Any:
    return getattr(RunConfig(), name)


def session_cards(spec: PairSpec) -> Cards:
    """Return the cards of the session's lanes; ``spec`` is the pair that the page shows."""
    cards: Cards = st.session_state.setdefault(_KEY, Cards())
    taken = st.session_state.pop(LANES_HANDOVER, None)
    if not cards.cards or taken:
        cards.take(taken or st.query_params.get_all(_LINK), spec)
    cards.follow(spec)
    return cards


def lane_text(lane: Lane) -> str:
    """Return a lane as text for links and the command line, without default settings."""
    spec, config = lane.spec, lane.config
    named = {"pair": spec.name} if spec.embedded else {"target": spec.target, "draft": spec.draft}
    parts = [f"{key}={escaped(value)}" for key, value in named.items() if value]
    bodies = {"target_body": spec.target_body, "draft_body": spec.draft_body}
    parts += [f"{key}={body}" for key, body in bodies.items() if body != NO_BODY]
    weights = {"target_weights": spec.target_weights, "draft_weights": spec.draft_weights}
    parts += [f"{key}={kind}" for key, kind in weights.items() if kind != "auto"]
    parts += [f"{key}=yes" for key in SWITCHES if getattr(spec, key)]
    parts += [
        f"{each.name}={_written(getattr(config, each.name))}"
        for each in fields(config)
        if each.name not in SHARED and getattr(config, each.name) != each.default
    ]
    if name := _printable(lane.name):
        parts.append(f"name={escaped(name)}")
    return ",".join(parts) or f"gamma={config.gamma}"


def _written(value: Any) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, tuple):
        return value
    whole = [each for each in value if isinstance(each, int)]
    return shape_text(tuple(whole)) if whole else forks_text(value)


def choose_lanes(cards: Cards, spec: PairSpec, *, busy: bool) -> tuple[Lane, ...]:
    """Draw a card per lane, put the chosen lanes into the link, and return them."""
    for reason in cards.refused:
        st.warning(f"A lane of the link was left out. {as_text(reason)}")
    for change in cards.changed:
        st.info(as_text(change))
    with st.container(key="compare_lanes_title"):
        st.markdown("#### Lanes")
    columns = st.columns(len(cards.cards), gap="small")
    heads = [
        _draw_card(column, card, spec, busy)
        for column, card in zip(columns, cards.cards, strict=True)
    ]
    labels = lane_labels(cards.lanes)
    for index, (head, card) in enumerate(zip(heads, cards.cards, strict=True)):
        with head:
            _show_head(cards, card, DOTS[index], labels[index], busy)
    _link(cards.lanes)
    return cards.lanes


def _draw_card(column: DeltaGenerator, card: Card, spec: PairSpec, busy: bool) -> DeltaGenerator:
    """Draw a lane's controls, store the chosen lane, and return a container for its label.

    The label depends on all lanes, so it is drawn later.
    """
    with column, st.container(border=True, key=f"compare_card_{card.number}", gap="small"):
        head = st.container(horizontal=True, vertical_alignment="center")
        card.lane = _choose_lane(card, spec, busy)
    return head


def show_add(cards: Cards, spec: PairSpec, *, busy: bool) -> None:
    """Draw a button that adds a lane and, for narrow windows, a link to the lanes.

    In a narrow window the lanes follow the results, so that the verdict comes first (shell.css).
    """
    st.button(
        "Add a lane", key="compare_add", disabled=busy or len(cards.cards) >= MAX_LANES,
        on_click=cards.add_spare, args=(spec,),
    )  # fmt: skip
    with st.container(key="compare_to_lanes", width="content"):
        st.markdown("[Lanes ↓](#lanes)", width="content")


def _link(lanes: Sequence[Lane]) -> None:
    texts = [lane_text(lane) for lane in lanes]
    if st.query_params.get_all(_LINK) != texts:
        st.query_params[_LINK] = texts


def _show_head(cards: Cards, card: Card, dot: str, label: str, busy: bool) -> None:
    st.markdown(f"**{dot} {as_text(label)}**")
    if len(cards.cards) > MIN_LANES:
        st.button(
            "Remove", key=f"compare_remove_{card.number}", type="tertiary", disabled=busy,
            on_click=cards.remove, args=(card.number,),
        )  # fmt: skip


def _choose_lane(card: Card, spec: PairSpec, busy: bool) -> Lane:
    card.open()
    config, first = card.lane.config, card.first.config
    low, high = COMPARED["gamma"].whole_ends
    drafter = st.container()  # filled once the pair is known
    changed: dict[str, Any] = {
        "gamma": st.slider(
            "Candidates per round, γ", low, max(high, first.gamma), first.gamma,
            key=card.key("gamma"), disabled=busy, help=SYMBOLS["gamma"].sentence,
        ),
        "temperature": _rounded(st.slider(
            "Temperature", *COMPARED["temperature"].ends, first.temperature, 0.05,
            key=card.key("temperature"), disabled=busy,
        )),
    }  # fmt: skip
    with st.popover("Pair and more", width="stretch", key=f"compare_more_{card.number}"):
        chosen = _choose_pair(card, spec, busy)
        sampling, method = _choose_more(card, chosen, drafter, busy)
        name = st.text_input(
            "Name", card.first.name, MAX_NAME, key=card.key("name"), disabled=busy,
            placeholder="optional",
        )  # fmt: skip
    asked = (*changed, *sampling, *METHOD_SETTINGS, "forks")
    kept = {e.name: getattr(config, e.name) for e in fields(config) if e.name not in asked}
    made = with_method(kept | changed | sampling, method)
    if replace(config, forks=()) == made:  # a fork is valid only with the settings of its run
        made = replace(made, forks=config.forks)
    return Lane(spec=chosen, config=made, name=_printable(name or ""))


def _printable(text: str) -> str:
    """Return the text without characters that a lane's name must not contain."""
    return "".join(each for each in text if each.isprintable()).strip()


def _choose_pair(card: Card, spec: PairSpec, busy: bool) -> PairSpec:
    known = [PairSpec(target=each.target, draft=each.draft) for each in known_pairs()]
    own = card.first.spec.without_bodies
    embedded = [PairSpec(), *(PairSpec(name=name) for name in installed_pairs()[1:])]
    options = list(dict.fromkeys([*embedded, spec.without_bodies, own, *known]))
    pair = st.selectbox(
        "Pair", options, options.index(own), key=card.key("pair"),
        format_func=partial(_pair_words, options), disabled=busy,
        help="A pair that is not on this machine is downloaded when the comparison starts.",
    )  # fmt: skip
    first, room = card.first.spec, known_room(pair)
    target, draft = (room.target, room.draft) if room else (None, None)
    return replace(
        pair,
        target_body=_choose_body(card, TARGET_BODY, first.target_body, target, room, busy),
        draft_body=_choose_body(card, DRAFT_BODY, first.draft_body, draft, room, busy),
    )


def _pair_words(options: Sequence[PairSpec], pair: PairSpec) -> str:
    """Return a pair's short description, or its full paths if two pairs have this description."""
    words = spec_words(pair)
    return words if [spec_words(each) for each in options].count(words) == 1 else pair.label


def _choose_body(
    card: Card, box: str, body: str, shape: ModelShape | None, room: BodyRoom | None, busy: bool
) -> str:
    key = card.key(box)
    bodies = list(offered(shape, room, st.session_state.get(key, body)))
    return st.selectbox(
        BODY_LABELS[box], bodies, bodies.index(body) if body in bodies else 0, key=key,
        format_func=lambda each: size_title(each, shape, room), disabled=busy,
    )  # fmt: skip


def _choose_more(
    card: Card, spec: PairSpec, drafter: DeltaGenerator, busy: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draw the controls of the sampling settings and of the method, and return their values.

    Args:
        drafter: The container in which the control that chooses the drafter is drawn.
    """
    config = card.first.config
    top_k = st.number_input(
        "Top-k (0 is off)", *COMPARED["top_k"].whole_ends, config.top_k, key=card.key("top_k"),
        disabled=busy,
    )  # fmt: skip
    top_p = st.slider(
        "Top-p (1 is off)", *COMPARED["top_p"].ends, config.top_p, 0.05, key=card.key("top_p"),
        disabled=busy,
    )  # fmt: skip
    drafters, first = methods_for(spec.draft_kind), method_of(config)
    if not config.draft_method.fits(spec.draft_kind):
        first["drafter"] = drafters[0]
    boxes = MethodBoxes(
        drafters=drafters, ends=COMPARED, options={"disabled": busy}, key=card.key, first=first,
        layers=num_layers(spec),
    )  # fmt: skip
    return {"top_k": int(top_k), "top_p": _rounded(top_p)}, boxes.choose(drafter=drafter)


def _rounded(value: float) -> float:
    """Remove the rounding error of a slider's value: 0.15000000000000002 becomes 0.15."""
    return round(value, 6)
