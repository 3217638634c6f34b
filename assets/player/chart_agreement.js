// Chart: the speedup by theory and by measurement. The forecast, the step costs and the timing each
// give an interval; where intervals do not overlap, theory and measurement disagree.

import { ChartFrame, linearScale, MARGINS, reuseChildren, roundSteps, setAttributes, shortNumber } from "./chart_frame.js";
import { setText } from "./elements.js";

/** @import { Agreement, Charts, Estimate } from "./payload.d.ts" */
/** @import { RoundCounts } from "./round_counts.js" */

const MARGIN = 0.06; // space beyond the outermost intervals, as a share of the range
const END = 5; // half the height of an interval's end

export class AgreementChart {
  constructor() {
    const margins = { ...MARGINS, left: 78, top: 22 };
    this.frame = new ChartFrame("agreement", "Speedup: theory and measurement", margins);
    this.band = this.frame.layer("ch-agree-band", "rect");
    this.even = this.frame.layer("ch-alone", "line");
    this.ends = this.frame.layer("ch-agree-ends");
    this.dots = this.frame.layer("ch-agree-dots");
    this.names = this.frame.layer("ch-labels");
    setText(this.frame.empty, "This chart needs a measured speedup, and also a forecast or step costs from an earlier run of this pair.");
    this.x = linearScale(0, 1, 0, 1);
  }

  /** @param {RoundCounts} _ @param {Charts|undefined} charts */
  fill(_, charts) {
    const shown = charts?.agreement ?? null;
    this.frame.svg.classList.toggle("ch-blank", !shown);
    setText(this.frame.caption, shown?.words ?? "");
    if (shown) this.paint(shown);
    return shown !== null;
  }

  /** @param {Agreement} shown */
  paint({ estimates, words }) {
    const { left, right, top, bottom } = this.frame.box;
    const slot = (bottom - top) / estimates.length;
    const rows = estimates.map((_, i) => top + (i + 0.5) * slot);
    this.paintAxes(estimates, rows);
    const forecast = estimates.find((each) => each.source === "forecast");
    const band = forecast ? [this.x(forecast.low), this.x(forecast.high)] : [left, left];
    setAttributes(this.band, { x: band[0], width: band[1] - band[0], y: top, height: bottom - top });
    const even = Math.min(right, Math.max(left, this.x(1)));
    setAttributes(this.even, { x1: even, x2: even, y1: top, y2: bottom });
    reuseChildren(this.ends, "path", estimates.length).forEach((path, i) => {
      const { low, high, source } = estimates[i];
      const d = `M${this.x(low)} ${rows[i]}H${this.x(high)}M${this.x(low)} ${rows[i] - END}v${2 * END}M${this.x(high)} ${rows[i] - END}v${2 * END}`;
      setAttributes(path, { d, class: classOf(source) });
    });
    reuseChildren(this.dots, "circle", estimates.length).forEach((dot, i) => {
      setAttributes(dot, { cx: this.x(estimates[i].value), cy: rows[i], r: 5, class: classOf(estimates[i].source) });
    });
    this.paintNames(estimates, rows, even);
    this.frame.describe(`${estimates.map(estimateWords).join(", ")}. ${words}`);
  }

  /** @param {Estimate[]} estimates @param {number[]} rows */
  paintAxes(estimates, rows) {
    const { left, right } = this.frame.box;
    const low = Math.min(1, ...estimates.map((each) => each.low));
    const high = Math.max(1, ...estimates.map((each) => each.high));
    const more = MARGIN * (high - low);
    this.x = linearScale(low - more, high + more, left, right);
    const ticks = roundSteps(high, 4).filter((at) => at >= low && at <= high + more);
    this.frame.drawBottom(ticks.map((at) => ({ at, text: `${shortNumber(at)}×` })), this.x);
    this.frame.drawLeft(estimates.map(({ source }, at) => ({ at, text: source })), (at) => rows[at]);
  }

  /** The values above their dots, and the name of the line at 1. @param {Estimate[]} estimates @param {number[]} rows @param {number} even */
  paintNames(estimates, rows, even) {
    const texts = reuseChildren(this.names, "text", estimates.length + 1);
    estimates.forEach(({ value }, i) => {
      setText(texts[i], `${value.toFixed(2)}×`);
      setAttributes(texts[i], { x: this.x(value), y: rows[i] - 10, "text-anchor": "middle" });
    });
    setText(texts[estimates.length], "target alone");
    setAttributes(texts[estimates.length], { x: even, y: this.frame.box.top - 8, "text-anchor": "start" });
  }

  /** Mark nothing: the chart is the same in every round. */
  mark() {}
}

/** @param {Estimate["source"]} source */
function classOf(source) {
  return source === "measured" ? "ch-own" : "ch-of-theory";
}

/** @param {Estimate} estimate */
function estimateWords({ source, value, low, high }) {
  return `${source} ${value.toFixed(2)}×, ${low.toFixed(2)} to ${high.toFixed(2)}`;
}
