// @ts-check
// One row a round, and only the rows in view in the document. Rows wrap where it is narrow, so
// their heights are measured as they appear and remembered.

const ROW_GUESS = 32; // pixels, before a row has been seen
const SPARE = 3; // rows kept above and below the view

/** @param {Round} round @param {number} place @returns {string} */
function textAt(round, place) {
  const candidate = round.candidates[place];
  return candidate ? candidate.text : (round.extra?.text ?? "");
}

/** A chip in words. @param {Round} round @param {number} index @param {number} place @param {Fate} fate */
function chipWords(round, index, place, fate) {
  const drafted = round.candidates.length;
  const which = place < drafted ? `token ${place + 1} of ${drafted}` : "from the target";
  return `Round ${index + 1}, ${which}, ‘${seen(textAt(round, place))}’, ${fate}`;
}

/** Blanks are drawn faint beside what they part. @param {HTMLElement} chip @param {string} text */
function showChip(chip, text) {
  const shown = chipText(text);
  const blanks = /^·*/.exec(shown)?.[0] ?? "";
  chip.replaceChildren(make("i", "", {}, [blanks]), shown.slice(blanks.length));
}

/** @type {Record<string, Keyframe[]>} */
const ENTER = {
  drafted: [{ opacity: 0, transform: "translateX(-10px)" }, { opacity: 1, transform: "none" }],
  recovered: [
    { opacity: 0, transform: "translateY(-14px)" },
    { opacity: 1, transform: "none" },
  ],
  bonus: [
    { opacity: 0, transform: "scale(.8)" },
    { opacity: 1, transform: "none" },
  ],
};

/** @type {Record<string, Keyframe[]>} */
const TURN = {
  accepted: [{ transform: "translateY(-3px)" }, { transform: "none" }],
  rejected: [
    { transform: "translateX(-3px)" },
    { transform: "translateX(3px)" },
    { transform: "none" },
  ],
  discarded: [{ opacity: 0.35 }, { opacity: 1 }],
};

/** One round on the page. */
class Row {
  /** @param {Round} round @param {number} index */
  constructor(round, index) {
    this.round = round;
    this.index = index;
    this.step = -1;
    /** @type {HTMLElement[]} */
    this.chips = [];
    this.tail = make("span", "tail", {}, [make("i", "", { "aria-hidden": "true" }, ["→"])]);
    this.waiting = make("span", "waiting", {}, ["target is checking…"]);
    this.cells = make("div", "cells");
    this.gain = make("span", "gain");
    this.element = make(
      "div",
      "round",
      { role: "listitem", "data-testid": "round", "data-index": String(index) },
      [make("span", "number", {}, [String(index + 1)]), this.cells, this.gain],
    );
  }

  /** @param {number} step @param {boolean} lively @returns {boolean} whether it may have grown */
  update(step, lively) {
    if (step === this.step) return false;
    this.step = step;
    const scene = sceneAt(this.round, step);
    const fates = scene.extra ? [...scene.cells, scene.extra] : scene.cells;
    while (this.chips.length > fates.length) this.chips.pop()?.remove();
    fates.forEach((fate, place) => this.put(place, fate, lively));
    this.dress(scene);
    return true;
  }

  /** @param {number} place @param {Fate} fate @param {boolean} lively */
  put(place, fate, lively) {
    const chip = this.chips[place];
    if (!chip) this.enter(place, fate, lively);
    else if (chip.dataset.state !== fate) this.turn(chip, place, fate, lively);
  }

  /** The arrow and the extra token stay together where the row wraps. @param {number} place */
  placeOf(place) {
    if (place < this.round.candidates.length) return this.cells;
    this.cells.append(this.tail);
    return this.tail;
  }

  /** @param {number} place @param {Fate} fate @param {boolean} lively */
  enter(place, fate, lively) {
    const chip = button("chip", "", () => {}, { tabindex: "-1", "data-testid": "token" });
    chip.dataset.place = String(place);
    chip.dataset.state = fate;
    chip.setAttribute("aria-label", chipWords(this.round, this.index, place, fate));
    showChip(chip, textAt(this.round, place));
    this.placeOf(place).append(chip);
    this.chips.push(chip);
    if (lively && ENTER[fate]) chip.animate(ENTER[fate], { duration: 120, easing: "ease-out" });
  }

  /** @param {HTMLElement} chip @param {number} place @param {Fate} fate @param {boolean} lively */
  turn(chip, place, fate, lively) {
    chip.dataset.state = fate;
    chip.setAttribute("aria-label", chipWords(this.round, this.index, place, fate));
    if (lively && TURN[fate]) chip.animate(TURN[fate], { duration: 180, easing: "ease-out" });
  }

  /** @param {Scene} scene */
  dress(scene) {
    this.element.dataset.checking = String(scene.checking);
    if (scene.checking) this.cells.append(this.waiting);
    else this.waiting.remove();
    if (!scene.extra) this.tail.remove();
    const gained = emittedBy(this.round).length;
    this.gain.textContent = scene.complete ? `+${gained}` : "";
  }

  get settled() {
    return this.step >= eventsOf(this.round);
  }
}

/** Heights of all rows: measured where seen, guessed where not. */
class Heights {
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
    this.follower = new Follower(this.pane, () => this.window());
    this.element = make("section", "rounds", {}, [
      make("h2", "", {}, ["Rounds"]),
      this.pane,
      this.follower.back,
    ]);
    this.heights = new Heights();
    /** @type {Map<number, Row>} */
    this.rows = new Map();
    /** @type {Recording|null} */
    this.recording = null;
    /** @type {Spot|null} */
    this.selected = null;
    /** @type {HTMLElement|undefined} */
    this.ringed = undefined;
    this.cursor = 0;
    this.width = 0;
    this.list.addEventListener("click", (/** @type {MouseEvent} */ event) => this.pick(event));
    this.list.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.key(event));
    this.resized = new ResizeObserver(() => this.resize());
    this.resized.observe(this.pane);
  }

  close() {
    this.resized.disconnect();
  }

  draw() {
    const { store } = this;
    if (store.recording !== this.recording) this.begin(store.recording);
    const sought = !store.playing && !store.live && store.cursor !== this.cursor;
    if (sought) this.follower.following = true;
    this.cursor = store.cursor;
    this.window();
    if (store.selected !== this.selected) this.choose(store.selected);
    this.ring();
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
    this.window();
  }

  /** Rows on stage: those before the cursor's and its own. */
  get total() {
    const { recording, cursor } = this.store;
    return recording.rounds.length ? recording.place(cursor).round + 1 : 0;
  }

  /** Bring the rows in view up to date, twice where their true heights move the view. */
  window() {
    if (this.fill()) this.fill();
  }

  /** @returns {boolean} whether heights were corrected */
  fill() {
    const { total, heights, pane } = this;
    const top = this.follower.following
      ? heights.above(total) - pane.clientHeight
      : pane.scrollTop;
    const first = Math.max(0, heights.rowAt(top, total) - SPARE);
    const last = Math.min(total, heights.rowAt(top + pane.clientHeight, total) + 1 + SPARE);
    this.drop(first, last);
    for (let index = first; index < last; index++) this.mount(index);
    const corrected = this.measure();
    this.above.style.height = `${heights.above(first)}px`;
    this.below.style.height = `${heights.above(total) - heights.above(last)}px`;
    this.follower.settle();
    return corrected;
  }

  /** @param {number} first @param {number} last */
  drop(first, last) {
    for (const [index, row] of this.rows)
      if (index < first || index >= last) {
        row.element.remove();
        this.rows.delete(index);
      }
  }

  /** @param {number} index */
  mount(index) {
    const { recording, cursor, lively } = this.store;
    let row = this.rows.get(index);
    const fresh = !row;
    if (!row) {
      row = new Row(recording.rounds[index], index);
      this.rows.set(index, row);
      this.insert(row);
    }
    const at = recording.place(cursor);
    const step = index === at.round ? at.step : eventsOf(row.round);
    const now = String(index === at.round);
    if (row.element.dataset.now !== now) row.element.dataset.now = now;
    if (row.update(step, lively && index === at.round) || fresh) delete this.heights.known[index];
  }

  /** @param {Row} row */
  insert(row) {
    let next = null;
    for (const [index, other] of this.rows)
      if (index > row.index && (!next || index < next.index)) next = other;
    this.list.insertBefore(row.element, next ? next.element : null);
  }

  /** @returns {boolean} */
  measure() {
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
  choose(spot) {
    this.selected = spot;
    if (!spot || spot.round >= this.total) return;
    const { heights } = this;
    this.follower.reveal(heights.above(spot.round), heights.of(spot.round));
    this.window();
  }

  /** The ring, and the one chip that Tab reaches. */
  ring() {
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
  pick(event) {
    const spot = spotOf(event.target);
    if (spot) this.store.select(spot);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const spot = spotOf(event.target);
    const move = MOVES[event.key];
    if (!spot || !move || event.shiftKey || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    const next = this.neighbour(spot, move);
    if (next) this.go(next);
  }

  /** @param {Spot} spot */
  go(spot) {
    this.store.select(spot);
    this.choose(spot);
    this.rows.get(spot.round)?.chips[spot.place]?.focus({ preventScroll: true });
  }

  /** How many chips of a round are on stage. @param {number} round */
  cells(round) {
    const { recording, cursor } = this.store;
    const at = recording.place(cursor);
    const whole = recording.rounds[round];
    const scene = sceneAt(whole, round === at.round ? at.step : eventsOf(whole));
    return scene.cells.length + (scene.extra ? 1 : 0);
  }

  /** @param {Spot} spot @param {[number, number]} move @returns {Spot|null} */
  neighbour(spot, [down, right]) {
    const round = spot.round + down;
    if (round < 0 || round >= this.total) return null;
    const place = spot.place + right;
    const last = this.cells(round) - 1;
    if (down) return last < 0 ? null : { round, place: Math.min(spot.place, last) };
    if (place < 0) return round > 0 ? { round: round - 1, place: this.cells(round - 1) - 1 } : null;
    if (place <= last) return { round, place };
    return round + 1 < this.total && this.cells(round + 1) ? { round: round + 1, place: 0 } : null;
  }
}

/** Rows and places to go. @type {Record<string, [number, number]>} */
const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

/** @param {EventTarget|null} target @returns {Spot|null} */
function spotOf(target) {
  const chip = /** @type {HTMLElement} */ (target)?.closest?.("[data-place]");
  const row = chip?.closest("[data-index]");
  if (!(chip instanceof HTMLElement) || !(row instanceof HTMLElement)) return null;
  return { round: Number(row.dataset.index), place: Number(chip.dataset.place) };
}

/** @param {Store} store */
function makeRounds(store) {
  return new RoundsPane(store);
}
