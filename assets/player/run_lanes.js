// Draws two lanes on one clock: the run, and the target alone along the same text. A long run scrolls
// with the cursor, and a strip below shows which part of it is in view.

import { UNDER_WAY } from "./base_store.js";
import { make, setText } from "./elements.js";
import { countUpTo, LaneClock, sumsOf } from "./lane_clock.js";
import {
  LaneFoot,
  laneKey,
  paintFinish,
  paintPresent,
  paintSpeculative,
  paintTarget,
  penFor,
  windowAround,
} from "./lane_painting.js";
import { asWritten, timeIn, unitFor } from "./number_words.js";
import { eventsOf } from "./round_events.js";
import { themeOf } from "./theme.js";

/** @import { ClockWindow } from "./lane_painting.js" */
/** @import { Parts, StepSeconds } from "./payload.d.ts" */
/** @import { RunStore } from "./run_store.js" */

const NOT_MEASURED = "from step costs, not measured yet";
const LEAST_STEP = 4.5; // pixels for one token of the target alone

class RunLane {
  /** @param {string} name */
  constructor(name) {
    this.canvas = make("canvas", "", { "aria-hidden": "true" });
    this.count = make("b", "count");
    this.note = make("span", "note");
    this.track = make("div", "track", {}, [this.canvas, this.note]);
    this.name = make("span", "name", {}, [name]);
    this.element = make("div", "lane", {}, [this.name, this.track, this.count]);
  }

  /** @param {number} tokens @param {string} [unit] */
  showCount(tokens, unit = "token") {
    const words = `${tokens} ${unit}${tokens === 1 ? "" : "s"}`;
    if (this.count.textContent !== words) this.count.textContent = words;
  }
}

class RunLanes {
  /** @param {RunStore} store */
  constructor(store) {
    this.store = store;
    this.fast = new RunLane("speculative");
    this.plain = new RunLane("target alone");
    this.foot = new LaneFoot((share) => store.seek(this.clock.cursorAt(share * this.total)));
    this.result = make("p", "result");
    this.picture = make("div", "tracks", { role: "img", "aria-label": "" }, [
      this.fast.element,
      this.plain.element,
      make("div", "lane foot", {}, [
        make("span", "name"),
        this.foot.track,
        make("span", "count"),
      ]),
    ]);
    this.title = make("h2");
    this.key = make("div", "key");
    this.element = make("section", "lanes card", { "data-testid": "lanes" }, [
      this.title,
      this.picture,
      make("div", "foot-line", {}, [this.key, this.result]),
    ]);
    /** Whether an engine's answer is shown, which has other captions. */
    this.foreign = false;
    this.named = "none";
    this.clock = new LaneClock(store.recording, null);
    /** @type {number[]|null} */
    this.alone = null;
    this.open = false;
    /** Seconds from step costs, until the run is timed. @type {StepSeconds|null} */
    this.costs = null;
    /** The mean round of the step costs, once per round. @type {Parts[]|null} */
    this.expected = null;
    this.sums = [0];
    this.drawn = "";
    this.spoken = "";
    this.listen();
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.fast.track);
  }

  listen() {
    for (const canvas of [this.fast.canvas, this.plain.canvas])
      canvas.addEventListener("click", (/** @type {MouseEvent} */ event) => this.seekOnLane(event));
  }

  close() {
    this.resized.disconnect();
  }

  draw() {
    const { recording, cursor, underWay } = this.store;
    const width = this.fast.track.clientWidth;
    this.updateClock();
    this.name();
    const { length } = this.sums;
    const seen = [recording.id, recording.end, this.clock.total, length, cursor, width].join();
    const state = [seen, themeOf(this.element), this.open, underWay, this.missing()].join();
    if (width === 0 || state === this.drawn) return;
    this.drawn = state;
    this.paint(this.windowNow(width));
    this.showOutcome();
  }

  /** Set the captions. An engine's answer is the only lane, unless a baseline was timed with it. */
  name() {
    const { engine = null } = this.store.data.run ?? {};
    this.plain.element.hidden = engine !== null && !this.alone;
    const foreign = engine !== null;
    const words = [engine?.unit, foreign && this.alone !== null].join();
    if (words === this.named) return;
    this.named = words;
    this.foreign = foreign;
    setText(this.title, foreign ? "The answer on a clock, from its first piece on" : "The same text on one clock");
    setText(this.fast.name, foreign ? "this answer" : "speculative");
    this.key.replaceChildren(...laneKey({ divided: !foreign, undivided: foreign, alone: this.alone !== null }));
  }

  updateClock() {
    const { recording, data } = this.store;
    const lanes = recording.id === data.run?.id ? data.lanes : null;
    const rounds = recording.rounds.length;
    const timed = lanes?.speculative?.length === rounds ? lanes.speculative : null;
    const alone = lanes?.target ?? null;
    const costs = alone ? null : this.costsUntilTimed();
    const tokens = costs ? recording.tokens[rounds] : 0;
    const changed = costs !== this.costs || alone !== this.alone;
    if (changed || (costs && tokens !== this.sums.length - 1)) {
      this.sums = sumsOf(alone ?? Array(tokens).fill(costs?.target));
      this.expected = costs?.round ? Array(rounds).fill(costs.round) : null;
    }
    this.alone = alone;
    this.costs = costs;
    const times = timed ?? this.expected;
    if (!this.clock.fits(recording, times)) this.clock = new LaneClock(recording, times);
    this.open = Boolean(lanes?.open);
  }

  /**
   * While the run is in progress, both lanes have the times of the step costs. Times of a watched
   * round include its record, so a ratio with step costs would contradict the formula.
   */
  costsUntilTimed() {
    const { recording, data, underWay } = this.store;
    return underWay && recording.id === data.run?.id ? (data.step_costs ?? null) : null;
  }

  /** Whether the lane of the target alone has times, measured or from step costs. */
  get runs() {
    return Boolean(this.alone || this.costs);
  }

  /** How the times were obtained while they are not measured. */
  get provisional() {
    if (!this.costs) return "";
    return this.costs.round ? `both lanes: ${NOT_MEASURED}` : `target alone: ${NOT_MEASURED}`;
  }

  get total() {
    return Math.max(this.clock.total, this.sums[this.sums.length - 1]);
  }

  /** The current seconds; the clock also moves between events, so that it runs smoothly. */
  now() {
    const { cursor, part, still, recording } = this.store;
    const at = this.clock.at(cursor);
    if (still || part === 0 || cursor >= recording.end) return at;
    return at + part * (this.clock.at(cursor + 1) - at);
  }

  /** Called between two events; paints only while playing slowly enough to be visible. */
  drawBetweenEvents() {
    const { calm, speed } = this.store;
    if (this.view && !calm && Number(speed) <= 1) this.paint(this.windowNow(this.view.width));
  }

  /** @param {number} width @returns {ClockWindow} */
  windowNow(width) {
    const { total, element, store } = this;
    const tokens = store.recording.tokens[store.recording.rounds.length];
    return windowAround({ total, now: this.now(), tokens, step: LEAST_STEP, width, element });
  }

  /** @param {ClockWindow} view */
  paint(view) {
    this.view = view;
    const fast = penFor(this.fast.canvas, view, view.height);
    paintSpeculative(fast, view, this.clock);
    paintFinish(fast, view, this.clock.total);
    paintPresent(fast, view, view.height);
    const plain = penFor(this.plain.canvas, view, view.height);
    paintTarget(plain, view, this.sums);
    paintFinish(plain, view, this.sums[this.sums.length - 1]);
    if (this.runs) paintPresent(plain, view, view.height - 4);
    this.foot.paint(view, this.total);
    this.showCounts(view);
  }

  /** @param {ClockWindow} view */
  showCounts(view) {
    const { recording, cursor } = this.store;
    const { round, step } = recording.place(cursor);
    const whole = recording.rounds[round];
    const over = whole && step >= eventsOf(whole) ? 1 : 0;
    this.fast.showCount(recording.tokens[round + over] ?? 0, this.store.data.run?.engine?.counts);
    this.plain.count.hidden = !this.runs;
    if (this.runs) this.plain.showCount(countUpTo(this.sums, view.now * (1 + 1e-9)) - 1);
    const note = this.missing();
    if (this.plain.note.textContent !== note) this.plain.note.textContent = note;
  }

  /** The text shown for the target alone while it has no times. */
  missing() {
    const { recording, data } = this.store;
    if (this.runs || !recording.rounds.length) return "";
    const state = recording.id === data.run?.id ? data.run.state : "";
    if (UNDER_WAY.includes(state)) return "measured after the run";
    const broken = ["stopped", "failed"].includes(state);
    return broken ? "not measured: the run was stopped or failed" : "not measured";
  }

  /** The result, once the cursor is at the end. */
  showOutcome() {
    const { recording, cursor, underWay } = this.store;
    const over = cursor >= recording.end && recording.end > 0 && !underWay && this.alone;
    const words = over ? this.outcome() : this.provisional;
    if (this.result.textContent !== words) this.result.textContent = words;
    this.result.classList.toggle("unsure", this.open);
    const spoken = `${this.foreign ? "The answer" : "Two lanes"} on one clock. ${words || (this.foreign ? "" : "Speculative decoding above, the target alone below.")}`;
    if (spoken !== this.spoken) this.picture.setAttribute("aria-label", spoken);
    this.spoken = spoken;
  }

  /** A sentence with both times in one unit; without a winner if the timing is undecided. */
  outcome() {
    const pace = this.store.data.lanes?.pace;
    if (pace) return pace;
    const fast = this.clock.total;
    const plain = this.sums[this.sums.length - 1];
    const unit = unitFor(this.total);
    const both = `speculative ${timeIn(fast, unit)}, target alone ${timeIn(plain, unit)}`;
    if (this.open) return `${both} (too close to call)`;
    const apart = timeIn(Math.abs(asWritten(plain, unit) - asWritten(fast, unit)), unit);
    return `${both}: ${plain > fast ? `${apart} sooner` : `${apart} later: no speedup`}`;
  }

  /** @param {MouseEvent} event */
  seekOnLane(event) {
    const { view, store } = this;
    if (!view) return;
    store.seek(this.clock.cursorAt(view.from + (event.offsetX / view.width) * view.span));
  }
}

/** @param {RunStore} store */
export function makeRunLanes(store) {
  return new RunLanes(store);
}
