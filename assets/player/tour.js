// The one-minute tour shows the first round with captions, stops before the first rejection
// and asks a question. It opens once per browser, can be skipped, and ends when the user takes over.

import { recall, remember } from "./browser_memory.js";
import { make, makeButton } from "./elements.js";
import { eventKind, judged, passedAt } from "./round_events.js";
import { answerWords, captionAt, questionWords } from "./tour_words.js";

/** @import { Tour as TourWish } from "./payload.d.ts" */
/** @import { Recording } from "./recording.js" */
/** @import { Spot } from "./round_events.js" */
/** @import { RunStore } from "./run_store.js" */

const TOUR_KEPT = "specviz.tour";

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
 * The chip that the tour points at: the selected one, else the last tested, else the newest.
 * @param {Element} row
 */
function chipToPointAt(row) {
  const judged = [...row.querySelectorAll('[data-place]:not([data-state="drafted"])')];
  const chips = [...row.querySelectorAll("[data-place]")];
  return row.querySelector(".selected") ?? judged.at(-1) ?? chips.at(-1) ?? row;
}

class Tour {
  /** @param {RunStore} store */
  constructor(store) {
    this.store = store;
    /** @type {"waiting"|"watching"|"asking"|"answered"|"over"} */
    this.state = "waiting";
    /** @type {Spot|null} */
    this.spot = null;
    this.caption = "";
    this.from = 0; // the tour ends when the cursor leaves these events
    this.to = 0;
    this.words = make("p", "", { "aria-live": "polite" });
    this.choices = make("div", "choices");
    this.element = make(
      "div",
      "tour",
      { role: "group", "aria-label": "The first minute", tabindex: "-1", "data-testid": "tour" },
      [this.words, this.choices],
    );
    this.element.hidden = true;
  }

  close() {}

  draw() {
    if (this.state === "waiting") this.begin();
    if (this.state === "watching") this.watchPlaying();
    if (this.state === "asking" || this.state === "answered") this.endIfLeft();
    if (!this.element.hidden) this.placeByRow();
  }

  begin() {
    const { store } = this;
    const { recording, data } = store;
    if (!recording.rounds.length || data.run?.state !== "recorded") return;
    if (data.run.engine || !tourWanted(data.tour)) {
      this.state = "over";
      return;
    }
    this.state = "watching";
    this.recording = recording;
    this.spot = firstRejection(recording);
    store.seek(0);
    store.setSpeed(store.still ? "1" : "0.25");
    store.halt = this.spot ? beforeVerdict(recording, this.spot) : recording.starts[1];
    store.play();
  }

  watchPlaying() {
    const { store } = this;
    const { recording, cursor } = store;
    if (recording !== this.recording) return this.end();
    const last = this.spot ? beforeVerdict(recording, this.spot) : recording.starts[1];
    if (cursor > last) return this.end();
    if (cursor === last && !store.playing) return this.spot ? this.ask(this.spot) : this.end();
    if (store.halt === null) return this.end();
    return this.showCaption(recording.place(cursor));
  }

  /** @param {{round: number, step: number}} at */
  showCaption({ round, step }) {
    const { store } = this;
    if (round > 0) {
      if (store.speed === "0.25") store.setSpeed("1");
      return this.show("next", [make("b", "", {}, ["And again."]), " The tour stops at the first rejection."], [this.skipButton()]);
    }
    const whole = store.recording.rounds[0];
    const kind = step ? eventKind(whole, step) : "draft";
    return this.show(kind, captionAt(whole, step), [this.skipButton()]);
  }

  /** @param {Spot} spot */
  ask(spot) {
    const { store } = this;
    this.state = "asking";
    this.from = this.to = store.cursor;
    store.select(spot);
    const candidate = judged(store.recording.rounds[spot.round].candidates[spot.place]);
    if (!candidate) return;
    this.show("ask", questionWords(candidate), [
      makeButton("yes", "Accept", () => this.reply(spot, true)),
      makeButton("no", "Reject", () => this.reply(spot, false)),
      this.skipButton(),
    ]);
    this.focus();
  }

  /** @param {Spot} spot @param {boolean} guess */
  reply(spot, guess) {
    const { store } = this;
    const candidate = judged(store.recording.rounds[spot.round].candidates[spot.place]);
    if (!candidate) return;
    this.state = "answered";
    this.to = store.recording.starts[spot.round + 1];
    store.setSpeed("0.5");
    store.halt = this.to;
    store.play();
    this.show("answered", answerWords(candidate, guess), [makeButton("yes", "Continue", () => this.playOn())]);
    this.focus();
  }

  /** End the tour when the user moves the cursor elsewhere. */
  endIfLeft() {
    const { recording, cursor } = this.store;
    if (recording !== this.recording || cursor < this.from || cursor > this.to) this.end();
  }

  playOn() {
    const { store } = this;
    this.end();
    store.select(null);
    store.setSpeed("1");
    store.play();
  }

  skipButton() {
    return makeButton("skip", "Skip", () => this.playOn());
  }

  end() {
    this.state = "over";
    this.element.hidden = true;
    this.store.halt = null;
    if (this.store.speed === "0.25" || this.store.speed === "0.5") this.store.setSpeed("1");
    remember(TOUR_KEPT, "seen");
  }

  /** @param {string} caption @param {(Node|string)[]} words @param {Node[]} choices */
  show(caption, words, choices) {
    if (caption === this.caption) return;
    this.caption = caption;
    this.words.replaceChildren(...words);
    this.choices.replaceChildren(...choices);
    this.element.hidden = false;
  }

  /** Focus the tour, unless an element outside the player has the focus. */
  focus() {
    const { activeElement } = document;
    const free = !activeElement || activeElement === document.body;
    if (free || this.element.closest(".sv")?.contains(activeElement))
      this.element.focus({ preventScroll: true });
  }

  /**
  * Place the tour below or above the row it describes. If the tour would cover the row, place it
  * below the player's buttons and keep it there.
   */
  placeByRow() {
    const stage = this.element.offsetParent ?? this.element.parentElement;
    const row = stage?.querySelector('.round[data-now="true"]');
    if (!stage || !row || this.element.dataset.side === "docked") return;
    const frame = stage.getBoundingClientRect();
    const place = row.getBoundingClientRect();
    const height = this.element.offsetHeight;
    const below = place.bottom - frame.top + 10;
    const above = place.top - frame.top - height - 10;
    const fits = below + height < frame.height - 8;
    if (!fits && above < 8) return this.dock();
    this.element.dataset.side = fits ? "below" : "above";
    this.element.style.top = `${fits ? below : above}px`;
    this.placeSideways(frame, place, chipToPointAt(row).getBoundingClientRect());
  }

  dock() {
    this.element.dataset.side = "docked";
    this.element.scrollIntoView({ block: "nearest" });
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
