// The live charts are built once and then updated: `fill` when there is more to show, but at most
// twice a second, since the decoder needs the processor; `mark` when the cursor moves. They
// show all rounds that have been received.

import { AcceptanceChart } from "./chart_acceptance.js";
import { AgreementChart } from "./chart_agreement.js";
import { PositionsChart } from "./chart_positions.js";
import { RooflineChart } from "./chart_roofline.js";
import { ThroughputChart } from "./chart_throughput.js";
import { TimesChart } from "./chart_times.js";
import { TokensChart } from "./chart_tokens.js";
import { make, setTextOrHide } from "./elements.js";
import { RoundCounts } from "./round_counts.js";
import { Throttle } from "./throttle.js";

/** @import { Store } from "./base_store.js" */
/** @import { ChartFrame } from "./chart_frame.js" */
/** @import { Charts as ChartsData } from "./payload.d.ts" */
/** @import { Recording } from "./recording.js" */

/**
 * @typedef {{frame: ChartFrame, fill: (counts: RoundCounts, charts: ChartsData|undefined) => boolean,
 *   mark: (round: number) => void}} Chart  `fill` returns whether there was anything to show
 */

const FILL_EVERY = 500; // milliseconds

/** @param {Store} store */
export function makeCharts(store) {
  return new Charts(store);
}

class Charts {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.counts = new RoundCounts(store.recording);
    /** The part of the payload that was last drawn. @type {ChartsData|undefined} */
    this.drawn = undefined;
    /** @type {number|null} */
    this.marked = null;
    /** @type {Chart[]} */
    this.all = [
      new ThroughputChart(store),
      new AgreementChart(),
      new AcceptanceChart(store),
      new TokensChart(store),
      new PositionsChart(store),
      new TimesChart(store),
      new RooflineChart(),
    ];
    const cards = make(
      "div",
      "ch-cards",
      {},
      this.all.map((each) => each.frame.element),
    );
    const names = { "data-testid": "charts", "aria-label": "Charts" };
    this.leftOut = make("p", "ch-left-out", { hidden: "" });
    this.element = make("section", "ch", names, [cards, this.leftOut]);
    this.pace = new Throttle(FILL_EVERY, () => store.changed());
    this.watcher = new ResizeObserver((entries) => this.resize(entries));
    for (const { frame } of this.all) this.watcher.observe(frame.plot);
  }

  /** @param {ResizeObserverEntry[]} entries */
  resize(entries) {
    for (const { target, contentRect } of entries) {
      const chart = this.all.find((each) => each.frame.plot === target);
      chart?.frame.resize(Math.round(contentRect.width));
    }
    this.pace.hurry();
  }

  /** The charts that are visible on the page. */
  get visible() {
    return this.all.filter((each) => each.frame.width > 0);
  }

  draw() {
    const { recording, data, cursor } = this.store;
    if (this.counts.recording !== recording) {
      this.counts = new RoundCounts(recording);
      this.pace.hurry();
    }
    const fresh = recording.rounds.length > this.counts.rounds || data.charts !== this.drawn;
    if (this.pace.allows(fresh)) this.fill();
    this.mark(Math.min(lastWhole(recording, cursor), this.counts.rounds - 1));
  }

  fill() {
    this.counts.take();
    this.drawn = this.store.data.charts;
    const out = this.drawn?.left_out;
    setTextOrHide(this.leftOut, out?.why);
    for (const { frame } of this.all) frame.element.hidden = Boolean(out?.charts.includes(frame.name));
    for (const chart of this.visible) {
      chart.frame.empty.hidden = chart.fill(this.counts, this.drawn);
    }
    this.marked = null;
  }

  /**
  * Mark the cursor's round; before the first one is finished, marks are hidden.
   * @param {number} round -1 before the first one is finished
   */
  mark(round) {
    if (round === this.marked) return;
    this.marked = round;
    this.element.classList.toggle("ch-unmarked", round < 0);
    if (!this.counts.rounds) return;
    for (const chart of this.visible) chart.mark(Math.max(0, round));
  }

  close() {
    this.watcher.disconnect();
    this.pace.close();
  }
}

/**
 * The last finished round at a cursor, so that no result is shown early; -1 before the first.
 * @param {Recording} recording @param {number} cursor
 */
function lastWhole(recording, cursor) {
  const { round } = recording.place(cursor);
  return recording.rounds.length && cursor >= recording.starts[round + 1] ? round : round - 1;
}
