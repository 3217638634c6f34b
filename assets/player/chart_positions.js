// Chart: how often candidates were accepted, by their position in a round.

import { shareTicks } from "./chart_acceptance.js";
import { ChartFrame, legibleTicks, linearScale, MARGINS, reuseChildren, setAttributes } from "./chart_frame.js";
import { setText } from "./elements.js";
import { percent } from "./number_words.js";
import { reachedAt, RoundCounts, wilson } from "./round_counts.js";

/** @import { Store } from "./base_store.js" */
/** @import { Pointed } from "./chart_frame.js" */
/** @import { PlaceCounts } from "./round_counts.js" */

/** Words for the candidates among which an acceptance rate is computed. */
const OWN = { caption: "tested", note: "tested", none: "never tested", said: "tested" };
const COUNTED = {
  caption: "accepted one position earlier (at position 1: / rounds that drafted)",
  note: "that got this far",
  none: "never reached",
  said: "accepted at the previous position",
};

/** @param {typeof OWN} words */
const captionOf = (words) =>
  `Bars: accepted / drafted at this position. Dots: accepted at this position / ${words.caption}, with a 95 % interval. Dashed: α over all positions.`;

export class PositionsChart {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.words = OWN;
    /** @type {number[]} */
    this.reached = [];
    this.frame = new ChartFrame("places", "Acceptance by position", { ...MARGINS, bottom: 44 });
    this.bars = this.frame.layer("ch-bars");
    this.level = this.frame.layer("ch-level", "line");
    this.whiskers = this.frame.layer("ch-whiskers", "path");
    this.dots = this.frame.layer("ch-dots");
    this.fates = this.frame.layer("ch-fates");
    this.names = this.frame.layer("ch-labels");
    this.counts = new RoundCounts(store.recording);
    this.slot = 1;
    this.x = linearScale(0, 1, 0, 1);
    this.frame.showNotes((at) => this.noteAt(Math.round((at - this.x(0)) / this.slot)));
  }

  /** @param {RoundCounts} counts */
  fill(counts) {
    this.counts = counts;
    const { left, right, top, bottom } = this.frame.box;
    const { places } = counts;
    const byCounters = Boolean(this.store.data.run?.engine);
    this.words = byCounters ? COUNTED : OWN;
    this.reached = reachedAt(places, byCounters);
    const alpha = shareOf(places, this.reached);
    setText(this.frame.caption, captionOf(this.words));
    const y = linearScale(0, 1, bottom, top);
    this.slot = (right - left) / Math.max(places.length, 1);
    this.x = linearScale(0, 1, left + this.slot / 2, left + 1.5 * this.slot);
    const ticks = places.map((_, i) => ({ at: i, text: String(i + 1) }));
    this.frame.drawLeft(shareTicks(0), y);
    this.frame.drawBottom(legibleTicks(ticks, this.slot), this.x);
    this.frame.svg.classList.toggle("ch-blank", alpha === null);
    if (alpha === null) return false;
    this.paintBars(places, y);
    this.paintDots(places, y);
    setAttributes(this.level, { x1: left, x2: right, y1: y(alpha), y2: y(alpha) });
    this.frame.describe(placesWords(places, this.reached, this.words));
    return true;
  }

  /** @param {PlaceCounts[]} places @param {(share: number) => number} y */
  paintBars(places, y) {
    const width = Math.min(34, 0.6 * this.slot);
    reuseChildren(this.bars, "rect", places.length).forEach((bar, i) => {
      const top = y(places[i].accepted / places[i].drafted);
      setAttributes(bar, { x: this.x(i) - width / 2, width, y: top, height: y(0) - top, rx: 2 });
    });
  }

  /** @param {PlaceCounts[]} places @param {(share: number) => number} y */
  paintDots(places, y) {
    const known = places
      .map((each, i) => ({ ...each, reached: this.reached[i], x: this.x(i) }))
      .filter((each) => each.reached);
    const bands = known.map((each) => whiskerPath(each.x, wilson(each.accepted, each.reached).map(y)));
    setAttributes(this.whiskers, { d: bands.join("") });
    reuseChildren(this.dots, "circle", known.length).forEach((dot, i) => {
      const { x, accepted, reached } = known[i];
      setAttributes(dot, { cx: x, cy: y(accepted / reached), r: 4 });
    });
  }

  /** The verdicts of the cursor's round, in a row below the axis. @param {number} index */
  mark(index) {
    const { candidates } = this.counts.recording.rounds[index];
    const { bottom } = this.frame.box;
    const [name] = reuseChildren(this.names, "text", 1);
    setAttributes(name, { x: 0, y: bottom + 37 });
    setText(name, "now");
    const width = Math.min(14, this.slot - 4);
    reuseChildren(this.fates, "rect", candidates.length).forEach((box, i) => {
      setAttributes(box, { x: this.x(i) - width / 2, y: bottom + 28, width, height: 10, rx: 3 });
      setAttributes(box, { class: `ch-${candidates[i].verdict}` });
    });
  }

  /** @param {number} place @returns {Pointed|null} */
  noteAt(place) {
    const counts = this.counts.places[place];
    if (!counts) return null;
    const { drafted, accepted } = counts;
    const reached = this.reached[place];
    const ofReached = reached ? `${percent(accepted / reached)} of ${reached} ${this.words.note}` : this.words.none;
    const ofAll = `${percent(accepted / drafted)} of ${drafted} drafted`;
    const text = `position ${place + 1}: ${accepted} accepted\n${ofReached}, ${ofAll}`;
    return { x: this.x(place), text };
  }
}

/** The path of a vertical error bar. @param {number} x @param {number[]} ends */
function whiskerPath(x, [low, high]) {
  return `M${x} ${low}V${high}M${x - 3.5} ${low}h7M${x - 3.5} ${high}h7`;
}

/** The acceptance rate over all positions; null if no position was reached. @param {PlaceCounts[]} places @param {number[]} reached */
function shareOf(places, reached) {
  const all = reached.reduce((sum, each) => sum + each, 0);
  return all ? places.reduce((sum, each) => sum + each.accepted, 0) / all : null;
}

/** @param {PlaceCounts[]} places @param {number[]} reached @param {typeof OWN} words */
function placesWords(places, reached, words) {
  const shares = places.map(({ accepted }, i) => `${i + 1}: ${reached[i] ? percent(accepted / reached[i]) : "none"}`);
  return `Share accepted of those ${words.said}, by position. ${shares.join(", ")}.`;
}
