// Draws the list of rounds, in rows. Only the rows in view are in the document. Rows may
// wrap, so their heights are measured as they appear, and cached.

import { make, setText } from "./elements.js";
import { eventsOf, sceneAt } from "./round_events.js";
import { RoundRow } from "./round_row.js";
import { besideInTree, shapeOf } from "./round_shape.js";
import { ScrollFollower } from "./scroll_follower.js";

/** @import { Store } from "./base_store.js" */
/** @import { Recording } from "./recording.js" */
/** @import { Spot } from "./round_events.js" */

const SPARE = 3; // rows kept above and below the view
const ROW_GUESS = 32; // pixels, before a row has been seen

/** The heights of all rows: measured after they were shown, estimated before. */
class RowHeights {
  constructor() {
    /** @type {number[]} */
    this.known = [];
    this.guess = ROW_GUESS;
  }

  clear() {
    this.known = [];
  }

  /** @param {number} index */
  of(index) {
    return this.known[index] ?? this.guess;
  }

  /** Pixels above a row. @param {number} index */
  above(index) {
    let sum = 0;
    for (let row = 0; row < index; row++) sum += this.of(row);
    return sum;
  }

  /** The row at a height. @param {number} top @param {number} total @returns {number} */
  rowAt(top, total) {
    let sum = 0;
    for (let row = 0; row < total; row++) {
      sum += this.of(row);
      if (sum > top) return row;
    }
    return Math.max(0, total - 1);
  }
}

class RoundsPane {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.above = make("div", "spacer", { "aria-hidden": "true" });
    this.below = make("div", "spacer", { "aria-hidden": "true" });
    this.list = make("div", "rows", { role: "list", "aria-label": "Rounds" }, []);
    this.pane = make("div", "scroll", { tabindex: "-1" }, [this.above, this.list, this.below]);
    this.follower = new ScrollFollower(this.pane, () => this.updateRows());
    this.title = make("h2");
    this.element = make("section", "rounds", {}, [
      this.title,
      this.pane,
      this.follower.back,
    ]);
    this.heights = new RowHeights();
    /** @type {Map<number, RoundRow>} */
    this.rows = new Map();
    /** @type {Recording|null} */
    this.recording = null;
    /** @type {Spot|null} */
    this.selected = null;
    /** @type {HTMLElement|undefined} */
    this.ringed = undefined;
    this.cursor = 0;
    this.width = 0;
    this.list.addEventListener("click", (/** @type {MouseEvent} */ event) => this.selectPressed(event));
    this.list.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.moveByKey(event));
    this.resized = new ResizeObserver(() => this.resize());
    this.resized.observe(this.pane);
  }

  close() {
    this.resized.disconnect();
  }

  draw() {
    const { store } = this;
    setText(this.title, store.data.run?.engine?.unit === "piece" ? "Pieces, as received" : "Rounds");
    if (store.recording !== this.recording) this.begin(store.recording);
    const sought = !store.playing && !store.live && store.cursor !== this.cursor;
    if (sought) this.follower.following = true;
    this.cursor = store.cursor;
    this.updateRows();
    if (store.selected !== this.selected) this.reveal(store.selected);
    this.ringSelected();
  }

  /** @param {Recording} recording */
  begin(recording) {
    this.recording = recording;
    for (const row of this.rows.values()) row.element.remove();
    this.rows.clear();
    this.heights.clear();
    this.follower.resume();
  }

  resize() {
    const width = this.pane.clientWidth;
    if (width === this.width) return;
    this.width = width;
    this.heights.clear();
    this.updateRows();
  }

  /** The number of rows, up to the cursor's. */
  get total() {
    const { recording, cursor } = this.store;
    return recording.rounds.length ? recording.place(cursor).round + 1 : 0;
  }

  /** Update the rows in view, and again if newly measured heights have moved the view. */
  updateRows() {
    if (this.fillWindow()) this.fillWindow();
  }

  /** @returns {boolean} whether heights were corrected */
  fillWindow() {
    const { total, heights, pane } = this;
    const top = this.follower.following
      ? heights.above(total) - pane.clientHeight
      : pane.scrollTop;
    const first = Math.max(0, heights.rowAt(top, total) - SPARE);
    const last = Math.min(total, heights.rowAt(top + pane.clientHeight, total) + 1 + SPARE);
    this.dropRows(first, last);
    for (let index = first; index < last; index++) this.mountRow(index);
    const corrected = this.measureRows();
    this.above.style.height = `${heights.above(first)}px`;
    this.below.style.height = `${heights.above(total) - heights.above(last)}px`;
    this.follower.settle();
    return corrected;
  }

  /** @param {number} first @param {number} last */
  dropRows(first, last) {
    for (const [index, row] of this.rows)
      if (index < first || index >= last) {
        row.element.remove();
        this.rows.delete(index);
      }
  }

  /** @param {number} index */
  mountRow(index) {
    const { recording, cursor, lively } = this.store;
    let row = this.rows.get(index);
    const fresh = !row;
    if (!row) {
      row = new RoundRow(recording.rounds[index], index);
      this.rows.set(index, row);
      this.insertRow(row);
    }
    const at = recording.place(cursor);
    const step = index === at.round ? at.step : eventsOf(row.round);
    const now = String(index === at.round);
    if (row.element.dataset.now !== now) row.element.dataset.now = now;
    if (row.update(step, lively && index === at.round) || fresh) delete this.heights.known[index];
  }

  /** @param {RoundRow} row */
  insertRow(row) {
    let next = null;
    for (const [index, other] of this.rows)
      if (index > row.index && (!next || index < next.index)) next = other;
    this.list.insertBefore(row.element, next ? next.element : null);
  }

  /** @returns {boolean} */
  measureRows() {
    let changed = false;
    for (const [index, row] of this.rows) {
      if (this.heights.known[index] !== undefined) continue;
      const height = row.element.offsetHeight || ROW_GUESS;
      changed ||= height !== this.heights.guess;
      this.heights.known[index] = height;
    }
    return changed;
  }

  /** @param {Spot|null} spot */
  reveal(spot) {
    this.selected = spot;
    if (!spot || spot.round >= this.total) return;
    const { heights } = this;
    this.follower.reveal(heights.above(spot.round), heights.of(spot.round));
    this.updateRows();
  }

  /** Highlight the selected chip, and let Tab reach only one chip. */
  ringSelected() {
    const spot = this.selected;
    const chosen = spot ? this.rows.get(spot.round)?.chips[spot.place] : undefined;
    const target = chosen ?? this.rows.get(this.total - 1)?.chips.at(-1) ?? this.newest();
    if (this.ringed && this.ringed !== target) this.ringed.tabIndex = -1;
    this.ringed?.classList.remove("selected");
    chosen?.classList.add("selected");
    if (target) target.tabIndex = 0;
    this.ringed = target;
  }

  newest() {
    return this.rows.get(this.total - 2)?.chips.at(-1);
  }

  /** @param {MouseEvent} event */
  selectPressed(event) {
    const spot = spotOf(event.target);
    if (spot) this.store.open(spot, "rounds");
  }

  /** @param {KeyboardEvent} event */
  moveByKey(event) {
    const spot = spotOf(event.target);
    const move = MOVES[event.key];
    if (!spot || !move || event.shiftKey || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    const next = this.neighbour(spot, move);
    if (next) this.goTo(next);
  }

  /** @param {Spot} spot */
  goTo(spot) {
    this.store.select(spot);
    this.reveal(spot);
    this.rows.get(spot.round)?.chips[spot.place]?.focus({ preventScroll: true });
  }

  /** The number of visible chips of a round. @param {number} round */
  countChips(round) {
    const { recording, cursor } = this.store;
    const at = recording.place(cursor);
    const whole = recording.rounds[round];
    const scene = sceneAt(whole, round === at.round ? at.step : eventsOf(whole));
    return scene.cells.length + scene.last.length;
  }

  /** @param {Spot} spot @param {[number, number]} move @returns {Spot|null} */
  neighbour(spot, [down, right]) {
    const branched = shapeOf(this.store.recording.rounds[spot.round]).branched;
    const within = branched ? this.inTree(spot, [down, right]) : null;
    if (within) return within;
    const round = spot.round + (branched ? down + right : down);
    if (round < 0 || round >= this.total) return null;
    const last = this.countChips(round) - 1;
    if (branched) return last < 0 ? null : { round, place: right < 0 ? last : 0 };
    const place = spot.place + right;
    if (down) return last < 0 ? null : { round, place: Math.min(spot.place, last) };
    if (place < 0) return round > 0 ? { round: round - 1, place: this.countChips(round - 1) - 1 } : null;
    if (place <= last) return { round, place };
    return round + 1 < this.total && this.countChips(round + 1) ? { round: round + 1, place: 0 } : null;
  }

  /** The chip next to another one in the same tree. @param {Spot} spot @param {[number, number]} move @returns {Spot|null} */
  inTree({ round, place }, move) {
    const wide = this.rows.get(round)?.wide ?? false;
    const beside = besideInTree(this.store.recording.rounds[round], place, move, wide);
    return beside === null || beside >= this.countChips(round) ? null : { round, place: beside };
  }
}

/** The rows and places that a key moves by. @type {Record<string, [number, number]>} */
const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

/** @param {EventTarget|null} target @returns {Spot|null} */
function spotOf(target) {
  const chip = /** @type {HTMLElement} */ (target)?.closest?.("[data-place]");
  const row = chip?.closest("[data-index]");
  if (!(chip instanceof HTMLElement) || !(row instanceof HTMLElement)) return null;
  return { round: Number(row.dataset.index), place: Number(chip.dataset.place) };
}

/** @param {Store} store */
export function makeRounds(store) {
  return new RoundsPane(store);
}
