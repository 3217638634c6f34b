// The text pane shows the prompt and every emitted token, marked by its origin.

import { make } from "./elements.js";
import { emittedBy, eventsOf, sceneAt } from "./round_events.js";
import { ScrollFollower } from "./scroll_follower.js";
import { Column } from "./text_column.js";

/** @import { Store } from "./base_store.js" */
/** @import { Round, Run } from "./payload.d.ts" */
/** @import { Recording } from "./recording.js" */
/** @import { Fate, Spot } from "./round_events.js" */

/** @typedef {{text: string, fate: Fate, round: number, place: number}} Landed */

/** @param {Round} round @param {number} step @returns {number} the number of tokens emitted by this step */
function landedBy(round, step) {
  if (step >= eventsOf(round)) return emittedBy(round).length;
  const { cells } = sceneAt(round, step);
  return emittedBy(round).filter(({ place }) => cells[place] === "accepted").length;
}

/** Animate an accepted candidate from its row to the text. @param {Element} from @param {Element} to */
function flyToText(from, to) {
  const stage = from.closest(".player");
  if (!stage) return;
  const frame = stage.getBoundingClientRect();
  const start = from.getBoundingClientRect();
  const end = to.getBoundingClientRect();
  const ghost = make("span", "flight", { "aria-hidden": "true" }, [from.textContent ?? ""]);
  ghost.style.left = `${start.left - frame.left}px`;
  ghost.style.top = `${start.top - frame.top}px`;
  stage.append(ghost);
  const along = `translate(${end.left - start.left}px, ${end.top - start.top}px)`;
  const flight = ghost.animate(
    [
      { opacity: 0.9, transform: "none" },
      { opacity: 0.7, offset: 0.75 },
      { opacity: 0, transform: along },
    ],
    { duration: 360, easing: "cubic-bezier(.4,0,.2,1)" },
  );
  flight.finished.finally(() => ghost.remove());
}

class TextPane {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.caret = make("span", "caret", { "aria-hidden": "true" });
    this.words = make("div", "words");
    this.pane = make("div", "scroll", { tabindex: "0", role: "region", "aria-label": "Text" }, [
      this.words,
    ]);
    this.follower = new ScrollFollower(this.pane, () => {});
    this.legend = makeLegend();
    this.element = make("section", "text-pane", { "data-testid": "text-pane" }, [
      make("h2", "", {}, ["Text"]),
      this.pane,
      this.follower.back,
      this.legend.element,
    ]);
    this.words.addEventListener("click", (/** @type {MouseEvent} */ event) => this.selectPressed(event));
    this.column = new Column(this.words, this.caret);
    /** @type {Recording|null} */
    this.recording = null;
    /** @type {Landed[]} */
    this.landed = [];
    this.known = 0; // rounds whose tokens are in `landed`
    /** @type {HTMLElement|undefined} */
    this.ringed = undefined;
    this.width = 0;
    this.resized = new ResizeObserver(() => this.resize());
    this.resized.observe(this.pane);
    this.resized.observe(this.words); // the size also changes when the font has loaded
  }

  draw() {
    const { recording } = this.store;
    if (recording !== this.recording) this.begin(recording);
    this.collectTokens();
    this.showPrompt();
    this.catchUp();
    this.ringSelected();
    this.legend.show(this.store.data.run, this.landed);
  }

  close() {
    this.resized.disconnect();
  }

  /** A new width changes the line ends, so the blocks are rebuilt; the end of the text may move, too. */
  resize() {
    const { clientWidth } = this.pane;
    const cut = this.width !== 0 && clientWidth !== this.width;
    this.width = clientWidth;
    if (!cut) return this.follower.settle();
    this.column.cut(0);
    this.draw(); // at once, or one frame would be painted empty
  }

  /** @param {Recording} recording */
  begin(recording) {
    this.recording = recording;
    this.column.cut(0);
    this.landed = [];
    this.known = 0;
    this.follower.resume();
  }

  showPrompt() {
    const { prompt } = this.store.recording;
    for (const part of prompt.slice(this.column.count)) {
      if (typeof part === "string") this.column.push(part, "prompt");
      else this.column.pushRole(part);
    }
  }

  collectTokens() {
    const { rounds } = this.store.recording;
    for (; this.known < rounds.length; this.known++)
      for (const token of emittedBy(rounds[this.known]))
        this.landed.push({ ...token, round: this.known });
  }

  /** The number of tokens that the cursor has reached. */
  reached() {
    const { recording, cursor } = this.store;
    if (recording.rounds.length === 0) return 0;
    const { round, step } = recording.place(cursor);
    return recording.pieces[round] + landedBy(recording.rounds[round], step);
  }

  catchUp() {
    const { column, store } = this;
    const before = column.count;
    const prompt = store.recording.prompt.length;
    const wanted = prompt + this.reached();
    if (wanted === before) return;
    column.cut(wanted);
    while (column.count < wanted) {
      const { text, fate } = this.landed[column.count - prompt];
      column.push(text, fate);
    }
    if (wanted < before) this.follower.following = true;
    this.follower.settle();
    if (store.lively && wanted === before + 1) this.animateArrival(wanted - 1);
  }

  /** Animate the arrival of the newest token. @param {number} index */
  animateArrival(index) {
    const token = this.column.at(index);
    const { round, place } = this.landed[index - this.store.recording.prompt.length];
    token?.animate([{ opacity: 0 }, { opacity: 1 }], { duration: 240 });
    const stage = this.element.closest(".player");
    const chip = stage?.querySelector(`[data-index="${round}"] [data-place="${place}"]`);
    if (chip && token) flyToText(chip, token);
  }

  /** @param {MouseEvent} event */
  selectPressed(event) {
    const at = /** @type {HTMLElement} */ (event.target).dataset.at;
    const token = this.landed[Number(at) - this.store.recording.prompt.length];
    if (at !== undefined && token) this.store.open({ round: token.round, place: token.place }, "text");
  }

  ringSelected() {
    const index = this.indexOf(this.store.selected);
    const token = index === null ? undefined : this.column.at(index);
    if (token === this.ringed) return;
    this.ringed?.classList.remove("selected");
    token?.classList.add("selected");
    this.ringed = token;
  }

  /** The index in the text of the token at a spot; null if the token was not emitted. @param {Spot|null} spot */
  indexOf(spot) {
    const { recording } = this.store;
    const round = spot && recording.rounds[spot.round];
    if (!spot || !round) return null;
    const order = emittedBy(round).findIndex((each) => each.place === spot.place);
    return order < 0 ? null : recording.prompt.length + recording.pieces[spot.round] + order;
  }
}

const FATES = ["drafted", "accepted", "rejected", "cut", "discarded", "recovered", "bonus"];

/**
 * The legend of fates. Block verification cuts candidates; other rules reject them. For an engine's
 * answer, the legend has "fate not reported" if there are such tokens, and nothing else if all are.
 */
function makeLegend() {
  const samples = new Map(FATES.map((fate) => [fate, make("span", "chip", { "data-state": fate }, [fate])]));
  const unreported = make("span", "chip", { "data-state": "unreported" }, ["fate not reported"]);
  return {
    element: make("div", "legend", { "aria-label": "Legend", role: "group" }, [...samples.values(), unreported]),
    /** @param {Run|undefined} run @param {Landed[]} landed */
    show(run, landed) {
      unreported.hidden = !run?.engine || !landed.some(({ fate }) => fate === "unreported");
      const bare = !unreported.hidden && landed.every(({ fate }) => fate === "unreported");
      const missing = run?.deciding === "together" ? "rejected" : "cut";
      for (const [fate, sample] of samples) sample.hidden = bare || fate === missing;
    },
  };
}

/** @param {Store} store */
export function makeText(store) {
  return new TextPane(store);
}
