// The tour explains the first round in a few cards, asks a question before the first rejection, and
// ends with a draw to drag. It opens once per browser, can be skipped, and ends when the user takes over.

import { recall, remember } from "./browser_memory.js";
import { make, makeButton } from "./elements.js";
import { eventsOf, judged, passedAt } from "./round_events.js";
import { againWords, answerWords, questionWords, wordsOfCard } from "./tour_words.js";

/** @import { Candidate, Tour as TourWish } from "./payload.d.ts" */
/** @import { Recording } from "./recording.js" */
/** @import { Spot } from "./round_events.js" */
/** @import { RunStore } from "./run_store.js" */

/** @typedef {{name: "draft"|"check"|"test"|"bonus"|"ask"|"safe"|"drag", to: number}} Card  to: the cursor that the card plays to */

const TOUR_KEPT = "specviz.tour";
const SLOW = "0.25";
const WIDTH = 620; // pixels
const LEAST_WIDTH = 480; // pixels: in a narrower pane of the rounds, the tour also covers some of the text
const NARROW = 700; // pixels: in a narrower player, one pane is below the other

/** @param {TourWish|undefined} wish @returns {boolean} */
function tourWanted(wish) {
  return wish === "force" || (wish === "ask" && recall(TOUR_KEPT) === null);
}

/** The first rejected candidate. @param {Recording} recording @returns {Spot|null} */
function firstRejection(recording) {
  for (const [index, round] of recording.rounds.entries()) {
    const place = round.candidates.findIndex((each) => each.verdict === "rejected");
    if (place >= 0) return { round: index, place };
  }
  return null;
}

/** The cursor just before a candidate's verdict. @param {Recording} recording @param {Spot} spot */
function beforeVerdict(recording, spot) {
  return recording.starts[spot.round] + passedAt(recording.rounds[spot.round]) - 1 + spot.place;
}

/**
 * The cards of a run. Without a rejection there is no question, and no draw to drag.
 * @param {Recording} recording @param {Spot|null} spot the first rejection @returns {Card[]}
 */
function cardsFor(recording, spot) {
  const [round] = recording.rounds;
  const passed = passedAt(round);
  const doubt = spot ? beforeVerdict(recording, spot) : 0;
  const over = spot ? recording.starts[spot.round + 1] : recording.starts[1];
  const isWhole = spot?.round !== 0 && round.extra?.kind === "bonus";
  return [
    { name: "draft", to: passed - 2 },
    { name: "check", to: passed - 1 },
    { name: "test", to: spot?.round === 0 ? doubt : eventsOf(round) - (isWhole ? 1 : 0) },
    ...(isWhole ? [/** @type {Card} */ ({ name: "bonus", to: recording.starts[1] })] : []),
    ...(spot ? [/** @type {Card} */ ({ name: "ask", to: doubt })] : []),
    { name: "safe", to: over },
    ...(spot ? [/** @type {Card} */ ({ name: "drag", to: over })] : []),
  ];
}

/**
 * The chip that the tour points at: the selected one, else the last tested, else the newest.
 * @param {Element} row
 */
function chipToPointAt(row) {
  const tested = [...row.querySelectorAll('[data-place]:not([data-state="drafted"])')];
  const chips = [...row.querySelectorAll("[data-place]")];
  return row.querySelector(".selected") ?? tested.at(-1) ?? chips.at(-1) ?? row;
}

class Tour {
  /** @param {RunStore} store */
  constructor(store) {
    this.store = store;
    /** @type {"waiting"|"playing"|"resting"|"over"} */
    this.state = "waiting";
    /** @type {Card[]} */
    this.cards = [];
    this.at = 0; // the index of the card
    this.from = 0; // the tour ends when the cursor leaves these events
    this.to = 0;
    /** @type {Spot|null} */
    this.spot = null;
    this.shown = "";
    this.words = make("div", "tour-words", { "aria-live": "polite" });
    this.choices = make("div", "choices");
    this.element = make(
      "div",
      "tour",
      { role: "group", "aria-label": "The tour", tabindex: "-1", "data-testid": "tour" },
      [this.words, this.choices],
    );
    this.element.hidden = true;
    this.element.addEventListener("keydown", (/** @type {KeyboardEvent} */ { key }) => {
      if (key === "Escape") this.playOn();
    });
  }

  close() {}

  get card() {
    return this.cards[this.at];
  }

  draw() {
    if (this.state === "waiting") this.begin();
    if (this.state === "playing" || this.state === "resting") this.watch();
    if (!this.element.hidden) this.place();
  }

  begin() {
    const { store } = this;
    const { recording, data } = store;
    if (!recording.rounds.length || data.run?.state !== "recorded") return;
    if (window.specvizFirstStage) return; // the player has not yet taken over the cursor of the first view
    if (data.run.engine || !tourWanted(data.tour)) {
      this.state = "over";
      return;
    }
    this.recording = recording;
    this.spot = firstRejection(recording);
    this.cards = cardsFor(recording, this.spot);
    if (store.tourCard !== null) return this.resume(store.tourCard);
    store.seek(0);
    this.enter(0, false);
  }

  /** Show the card that the replaced player showed, and play it again. @param {number} index */
  resume(index) {
    const card = this.cards[index];
    if (!card) {
      this.state = "over";
      return;
    }
    if (this.store.cursor > card.to) this.store.seek(card.to);
    this.enter(index, false);
  }

  /** Show a card, and play the events that it explains. @param {number} index @param {boolean} byUser */
  enter(index, byUser) {
    this.at = this.store.tourCard = index;
    const { name, to } = this.card;
    this.playTo(to, name === "ask" ? "1" : SLOW);
    if (name === "drag") this.store.open(/** @type {Spot} */ (this.spot), "rounds");
    if (name === "ask") this.show("again", againWords(), []);
    else this.showCard();
    if (byUser) this.focus();
  }

  /** @param {number} to @param {string} speed */
  playTo(to, speed) {
    const { store } = this;
    this.from = store.cursor;
    this.to = to;
    this.state = "playing";
    if (store.still || store.cursor === to) return store.seek(to);
    store.setSpeed(speed);
    store.halt = to;
    store.play();
  }

  /** End the tour when the user moves the cursor elsewhere. Play shows the next card. */
  watch() {
    const { store, card } = this;
    const { recording, cursor, playing, until } = store;
    const isLeft = until || cursor < this.from || cursor > this.to || (card.name === "drag" && !store.beside);
    if (isLeft || recording !== this.recording) return this.end();
    if (this.state === "resting" && playing) return this.shown === "question" ? this.end() : this.next();
    if (this.state === "playing" && cursor === this.to && !playing) this.rest();
    if (card.name === "drag") this.showCard(); // the run may have become forkable
  }

  rest() {
    this.state = "resting";
    if (this.shown !== "again") return;
    this.store.select(this.spot);
    this.show("question", questionWords(this.doubted()), [
      makeButton("yes", "Accept", () => this.reply(true)),
      makeButton("no", "Reject", () => this.reply(false)),
    ]);
    this.focus();
  }

  /** The rejected candidate. @returns {Candidate} */
  doubted() {
    const { round, place } = /** @type {Spot} */ (this.spot);
    return /** @type {Candidate} */ (judged(this.store.recording.rounds[round].candidates[place]));
  }

  /** @param {boolean} guess whether the user chose "accept" */
  reply(guess) {
    const { round } = /** @type {Spot} */ (this.spot);
    this.show("answer", answerWords(this.doubted(), guess), [this.nextButton()]);
    this.playTo(this.store.recording.starts[round + 1], "0.5");
    this.focus();
  }

  next() {
    const { store, to } = this;
    if (store.cursor !== to) store.seek(to);
    if (this.at + 1 === this.cards.length) return this.playOn();
    return this.enter(this.at + 1, true);
  }

  playOn() {
    const { store } = this;
    this.end();
    store.select(null);
    store.play();
  }

  end() {
    this.state = "over";
    this.store.tourCard = this.cards.length;
    this.element.hidden = true;
    if (!this.store.until) this.store.halt = null;
    if (this.store.speed === SLOW || this.store.speed === "0.5") this.store.setSpeed("1");
    remember(TOUR_KEPT, "seen");
    this.store.changed(); // the player has its usual height again
  }

  showCard() {
    const { name } = this.card;
    const { data, recording } = this.store;
    this.show(`${name} ${data.run?.forkable}`, wordsOfCard(name, recording, data), [this.nextButton()]);
  }

  nextButton() {
    return makeButton("yes", this.at + 1 === this.cards.length ? "Play on" : "Next", () => this.next());
  }

  /** @param {string} name @param {(Node|string)[]} words @param {Node[]} choices */
  show(name, words, choices) {
    if (name === this.shown) return;
    this.shown = name;
    const where = make("span", "tour-where", {}, [`${this.at + 1} of ${this.cards.length}`]);
    const skip = makeButton("skip", "Skip", () => this.playOn());
    this.words.replaceChildren(...words);
    this.choices.replaceChildren(...choices, where, ...(this.at + 1 < this.cards.length ? [skip] : []));
    this.element.dataset.card = this.card.name;
    if (this.card.name === "drag") {
      this.element.dataset.side = "foot";
      this.element.style.width = "";
    }
    this.element.hidden = false;
    this.store.changed(); // the tour's height has changed, which moves the verdict card below it
  }

  /** Focus the button for the next card, or the question; not if another part of the page has the focus. */
  focus() {
    const { activeElement } = document;
    const free = !activeElement || activeElement === document.body;
    if (!free && !this.element.closest(".sv")?.contains(activeElement)) return;
    const [first, second] = this.choices.querySelectorAll("button:not(.skip)");
    const target = first instanceof HTMLElement && !second ? first : this.element;
    target.focus({ preventScroll: true });
  }

  /**
  * Place the tour below or above the row that it describes, clear of the controls. Without space for
  * that, it is the first row of the player; the last card is the row above the verdict card.
   */
  place() {
    const { element } = this;
    if (element.dataset.side === "docked" || element.dataset.side === "foot") return;
    const stage = element.parentElement;
    const [row, controls] = [stage?.querySelector('.round[data-now="true"]'), stage?.querySelector(".controls")];
    if (!stage || !row || !controls) return;
    const [frame, place] = [stage.getBoundingClientRect(), row.getBoundingClientRect()];
    const pane = row.closest(".rounds")?.getBoundingClientRect();
    element.style.width = pane && pane.width > LEAST_WIDTH ? `${Math.min(WIDTH, pane.width - 24)}px` : "";
    const below = place.bottom + 10 - frame.top;
    const above = place.top - 10 - element.offsetHeight - frame.top;
    const fits = below + element.offsetHeight < controls.getBoundingClientRect().top - frame.top;
    element.dataset.side = frame.width > NARROW && (fits || above > 8) ? (fits ? "below" : "above") : "docked";
    if (element.dataset.side === "docked") element.style.width = "";
    element.style.top = `${fits ? below : above}px`;
    this.placeSideways(frame, place, chipToPointAt(row).getBoundingClientRect());
  }

  /**
  * Align the tour horizontally, with its tip at the chip.
   * @param {DOMRect} frame @param {DOMRect} row @param {DOMRect} chip
   */
  placeSideways(frame, row, chip) {
    const width = this.element.offsetWidth;
    const most = frame.width - width - 12;
    const start = Math.max(12, Math.min(row.left - frame.left + 14, most));
    const middle = chip.left - frame.left + chip.width / 2;
    const tip = Math.max(16, Math.min(middle - start, width - 16));
    this.element.style.left = `${start}px`;
    this.element.style.setProperty("--tip", `${tip}px`);
  }
}

/** @param {RunStore} store */
export function makeTour(store) {
  return new Tour(store);
}
