// Chart: throughput over γ, with the ideal curve, the forecast, and the runs of this session as
// points.

import {
  ChartFrame,
  linearScale,
  MARGINS,
  pathThrough,
  reuseChildren,
  roundSteps,
  setAttributes,
  shortNumber,
} from "./chart_frame.js";
import { make, readersTextSize, setText } from "./elements.js";
import { tokensIn } from "./round_events.js";
import { secondsOf } from "./round_times.js";

/** @import { Store } from "./base_store.js" */
/** @import { Place, Tick } from "./chart_frame.js" */
/** @import { Charts, Round, RunPoint, Throughput } from "./payload.d.ts" */
/** @import { RoundCounts } from "./round_counts.js" */

/** Grid lines without numbers, until there are curves. */
const BLANK = [0, 0.25, 0.5, 0.75, 1].map((at) => ({ at, text: "" }));

const NAME_LIFT = 12; // from a curve to the middle of its label
const CLOSE = 36; // pixels: two lines that are closer share a label
const LEAST_APART = 0.03; // relative; for a smaller difference, the target alone gets no second line
const LETTER = 0.4; // about the width of a letter, as a share of the reader's text size

export class ThroughputChart {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    const margins = { ...MARGINS, left: 40, right: 42, top: 24 };
    this.frame = new ChartFrame("throughput", "Throughput: theory against observed", margins);
    this.times = this.frame.layer("ch-left");
    this.title = this.frame.layer("ch-left", "text");
    this.measured = this.frame.layer("ch-alone ch-faint", "line");
    this.alone = this.frame.layer("ch-alone", "line");
    this.chosen = this.frame.layer("ch-chosen", "line");
    this.ideal = this.frame.layer("ch-ideal", "path");
    this.forecast = this.frame.layer("ch-forecast", "path");
    this.predicted = this.frame.layer("ch-predicted", "path");
    this.labels = this.frame.layer("ch-labels");
    this.pace = this.frame.layer("ch-pace");
    this.names = this.frame.layer("ch-labels");
    /** The buttons of the points, in order. @type {HTMLButtonElement[]} */
    this.buttons = [];
    this.points = make("div", "ch-points");
    this.frame.plot.append(this.points);
    setText(this.frame.empty, "This chart appears when the step costs have been measured.");
    /** @type {Throughput|null} */
    this.shown = null;
    this.x = linearScale(0, 1, 0, 1);
    this.y = linearScale(0, 1, 1, 0);
  }

  /** @param {RoundCounts} _ @param {Charts|undefined} charts */
  fill(_, charts) {
    /** @type {Throughput|null} */
    const shown = charts?.throughput ?? null;
    this.shown = shown;
    this.frame.svg.classList.toggle("ch-blank", !shown);
    this.points.hidden = !shown;
    setText(this.frame.caption, throughputCaption(shown));
    if (shown) this.paint(shown);
    else this.paintBlank();
    return shown !== null;
  }

  paintBlank() {
    const { left, right, top, bottom } = this.frame.box;
    this.frame.drawLeft(BLANK, linearScale(0, 1, bottom, top));
    this.frame.drawBottom(BLANK, linearScale(0, 1, left, right));
  }

  /** @param {Throughput} shown */
  paint(shown) {
    this.paintAxes(shown);
    const { left, right } = this.frame.box;
    const { y } = this;
    setAttributes(this.alone, { x1: left, x2: right, y1: y(shown.target), y2: y(shown.target) });
    this.paintMeasured(shown);
    setAttributes(this.ideal, { d: this.curve(shown, shown.ideal) });
    setAttributes(this.forecast, { d: shown.forecast ? this.curve(shown, shown.forecast) : "" });
    this.frame.svg.classList.toggle("ch-stale", shown.stale);
    this.frame.svg.classList.toggle("ch-extrapolated", shown.extrapolated);
    this.paintChosen(shown);
    this.paintPoints(shown);
    this.paintNames(shown);
    this.frame.describe(throughputWords(shown));
  }

  /** Paint the γ of the next run, with its rate on the curves. @param {Throughput} shown */
  paintChosen(shown) {
    const { top, bottom } = this.frame.box;
    this.chosen.style.display = shown.chosen ? "" : "none";
    const at = this.x(shown.chosen?.gamma ?? 0);
    setAttributes(this.chosen, { x1: at, x2: at, y1: top, y2: bottom });
    const predicted = predictedPoint(shown);
    setAttributes(this.predicted, { d: predicted ? diamondPath(at, this.y(predicted.rate)) : "" });
    const [text] = reuseChildren(this.labels, "text", predicted ? 1 : 0);
    if (!predicted || !text) return;
    const left = this.leftward(predicted.gamma);
    setAttributes(text, { x: at + (left ? -7 : 7), y: bottom - 7, "text-anchor": left ? "end" : "start" });
    setText(text, predicted.name);
  }

  /**
  * The rate of the target alone as timed by this run, if it differs from the step costs.
   * @param {Throughput} shown
   */
  paintMeasured(shown) {
    const { left, right } = this.frame.box;
    const apart = measuredApart(shown);
    this.measured.style.display = apart === null ? "none" : "";
    if (apart === null) return;
    setAttributes(this.measured, { x1: left, x2: right, y1: this.y(apart), y2: this.y(apart) });
  }

  /** @param {Throughput} shown @param {number[]} rates */
  curve({ gammas }, rates) {
    return pathThrough(rates.map((rate, i) => [this.x(gammas[i]), this.y(rate)]));
  }

  /** @param {Throughput} shown */
  paintAxes(shown) {
    const { gammas, target } = shown;
    const { left, right } = this.frame.box;
    const most = 1.04 * highestRate(shown);
    this.x = linearScale(gammas[0], gammas[gammas.length - 1], left + 10, right - 10);
    this.y = this.frame.drawSteps(most, 5);
    this.frame.drawBottom(gammaTicks(gammas), this.x);
    this.paintTimes(target, Math.max(...roundSteps(most, 5)));
  }

  /** The second axis: speed relative to the target alone. @param {number} target @param {number} highest */
  paintTimes(target, highest) {
    setAttributes(this.title, { x: this.frame.width, y: this.frame.box.top - 12, "text-anchor": "end" });
    setText(this.title, "× target alone (step costs)");
    const steps = roundSteps(highest / target, 4).filter(
      (step) => step && step * target <= highest,
    );
    reuseChildren(this.times, "text", steps.length).forEach((text, i) => {
      const y = this.y(steps[i] * target) + 4;
      setAttributes(text, { x: this.frame.box.right + 7, y, "text-anchor": "start" });
      setText(text, `${shortNumber(steps[i])}×`);
    });
  }

  /** Runs as focusable points; the shown run is filled and labelled. @param {Throughput} shown */
  paintPoints({ points }) {
    const { buttons } = this;
    while (buttons.length > points.length) buttons.pop()?.remove();
    while (buttons.length < points.length) {
      const button = makePoint(this.frame);
      buttons.push(button);
      this.points.append(button);
    }
    points.forEach((each, i) => {
      const button = buttons[i];
      button.classList.toggle("ch-current", each.current);
      button.classList.toggle("ch-partial", each.partial);
      button.classList.toggle("ch-few", each.few);
      button.classList.toggle("ch-leftward", this.leftward(each.gamma));
      button.style.left = `${this.x(each.gamma)}px`;
      button.style.top = `${this.y(each.rate)}px`;
      button.ariaLabel = pointWords(each);
      button.dataset.name = each.current ? `this run ${shortNumber(each.rate)}` : "";
    });
  }

  /** Whether a label must be on the left because there is no space on the right. @param {number} gamma */
  leftward(gamma) {
    return this.x(gamma) > 0.62 * this.frame.width;
  }

  /** The labels of the curves, where there is most space. @param {Throughput} shown */
  paintNames(shown) {
    const { gammas, points } = shown;
    const { left, right } = this.frame.box;
    const letters = (right - left) / (LETTER * readersTextSize());
    const lines = namedLines(shown, this.isClose(shown), letters);
    const curves = lines.map(({ rates }) =>
      rates.map((rate, i) => ({ x: this.x(gammas[i]), y: this.y(rate) })),
    );
    const taken = [...curves.flat(), ...points.flatMap((each) => this.spotsOf(each))];
    const named = lines.map((_, i) => i).filter((i) => lines[i].name);
    reuseChildren(this.names, "text", named.length).forEach((text, order) => {
      const i = named[order];
      const half = (LETTER * readersTextSize() * lines[i].name.length) / 2;
      const { x, y } = roomiest(curves[i], taken, half, this.frame.box);
      taken.push(...[-1, -0.5, 0, 0.5, 1].map((part) => ({ x: x + part * half, y })));
      setAttributes(text, { x, y: y + 4, "text-anchor": "middle" });
      setText(text, lines[i].name);
    });
  }

  /** Whether no label fits between the two lines of the target alone. @param {Throughput} shown */
  isClose(shown) {
    const measured = measuredApart(shown);
    return measured !== null && Math.abs(this.y(measured) - this.y(shown.target)) < CLOSE;
  }

  /** The places that a point and the label beside it take up. @param {RunPoint} point @returns {Place[]} */
  spotsOf({ gamma, rate, current }) {
    const [x, y] = [this.x(gamma), this.y(rate)];
    if (!current) return [{ x, y }];
    const way = this.leftward(gamma) ? -1 : 1;
    return [0, 20, 45, 70, 90].map((far) => ({ x: x + way * far, y: far ? y - 13 : y }));
  }

  /** @param {number} index */
  mark(index) {
    const own = this.shown?.points.find((each) => each.current);
    const rate = rateOf(this.store.recording.rounds[index]);
    const [line] = reuseChildren(this.pace, "line", own && rate > 0 ? 1 : 0);
    if (!own || !line) return;
    const [x, y] = [this.x(own.gamma), Math.max(this.frame.box.top, this.y(rate))];
    setAttributes(line, { x1: x - 9, x2: x + 9, y1: y, y2: y });
  }
}

/** @param {Throughput|null} shown */
function throughputCaption(shown) {
  if (!shown) return "Tokens per second over γ.";
  const words = ["Tokens per second over γ.", curveWords(shown)];
  if (!shown.stale) words.push("Short line: the rate of the current round.");
  if (shown.doubt) words.push(shown.doubt, "Press “Measure step costs again” under “The pair”.");
  return words.join(" ");
}

/** A sentence on the source of the curves. @param {Throughput} shown */
function curveWords({ stale, forecast, extrapolated }) {
  if (stale)
    return "Curves: from step costs, for the previous settings; grey until a run has the current settings.";
  if (!forecast) return "Curve: from step costs.";
  return extrapolated
    ? "Curves: from step costs and this run’s α."
    : "Curves: from step costs and from other texts, not from this run.";
}

/** @param {RunPoint} point */
function pointWords({ label, rate, partial, few }) {
  const words = `${label}: ${shortNumber(rate)} tokens per second`;
  const limits = [few ? " of few rounds" : "", partial ? " that was stopped" : ""].join("");
  return limits ? `${words}, in a run${limits}` : words;
}

/**
 * The curves' rate at the chosen γ; null if the shown run already has this γ.
 * @param {Throughput} shown
 */
function predictedPoint({ chosen, points, forecast, extrapolated }) {
  const own = points.find((each) => each.current);
  if (!chosen || !forecast || chosen.rate === null || chosen.gamma === own?.gamma) return null;
  const { gamma, rate } = chosen;
  const origin = extrapolated ? "extrapolated" : "forecast";
  return { gamma, rate, name: `γ ${gamma}, ${origin}: ${shortNumber(rate)}` };
}

/** @param {number} x @param {number} y its middle */
function diamondPath(x, y) {
  return `M${x} ${y - 6}l6 6l-6 6l-6 -6z`;
}

/**
 * The measured rate of the target alone; null if it is too near the step costs to be drawn.
 * @param {Throughput} shown @returns {number|null}
 */
function measuredApart({ target, measured_target: measured }) {
  if (!measured || Math.abs(measured / target - 1) <= LEAST_APART) return null;
  return measured;
}

/** @param {Throughput} shown */
function highestRate(shown) {
  const { ideal, forecast, target, points } = shown;
  const runs = points.map((each) => each.rate);
  return Math.max(...ideal, ...(forecast ?? []), target, measuredApart(shown) ?? 0, ...runs);
}

/** @param {Throughput} shown */
function throughputWords(shown) {
  const { target, measured_target: measured, points, gammas, forecast } = shown;
  const own = points.find((each) => each.current);
  const run = own && `This run at γ ${own.gamma}: ${shortNumber(own.rate)} tokens per second.`;
  const predicted = predictedPoint(shown);
  const chosen = predicted && `Chosen now: ${predicted.name} tokens per second.`;
  const best = forecast && gammas[forecast.indexOf(Math.max(...forecast))];
  const ahead = best && `The forecast is highest at γ ${best}.`;
  const timed = measured ? `, measured ${shortNumber(measured)}` : "";
  const alone = `The target alone: by step costs ${shortNumber(target)}${timed}.`;
  const rest = [alone, `Runs shown: ${points.length}.`];
  return [run, chosen, ahead, ...rest].filter(Boolean).join(" ");
}

/** @param {number[]} gammas @returns {Tick[]} */
function gammaTicks(gammas) {
  const last = gammas[gammas.length - 1];
  const ticks = gammas.filter((each) => each === gammas[0] || each === last || each % 4 === 0);
  return ticks.map((at) => ({ at, text: at === gammas[0] ? `γ ${at}` : String(at) }));
}

/**
 * The curves with their labels; two close lines of the target alone share the label of the lower line.
 * @param {Throughput} shown @param {boolean} close
 * @param {number} letters how many fit side by side; a label that is longer has a short form
 */
export function namedLines(shown, close, letters) {
  const { gammas, ideal, forecast, target, extrapolated } = shown;
  const measured = measuredApart(shown);
  const lines = [{ name: "ideal", rates: ideal }];
  /** @param {string} name @param {number} rate */
  const addFlat = (name, rate) => lines.push({ name, rates: gammas.map(() => rate) });
  if (measured === null) addFlat(`target alone ${shortNumber(target)}`, target);
  else if (close) {
    const whole = `target alone: calculated ${shortNumber(target)}, measured ${shortNumber(measured)}`;
    const short = `target alone ${shortNumber(target)}, measured ${shortNumber(measured)}`;
    const both = whole.length <= letters ? whole : short;
    addFlat(target < measured ? both : "", target);
    addFlat(target < measured ? "" : both, measured);
  } else {
    addFlat(`target alone, calculated ${shortNumber(target)}`, target);
    addFlat(`target alone, measured ${shortNumber(measured)}`, measured);
  }
  if (forecast) lines.push({ name: extrapolated ? "extrapolated" : "forecast", rates: forecast });
  return lines;
}

/**
 * The place along a curve, above or below it, where a label is farthest from everything drawn.
 * @param {Place[]} curve @param {Place[]} taken @param {number} half of the label's width
 * @param {{left: number, right: number, top: number, bottom: number}} box
 */
function roomiest(curve, taken, half, box) {
  let best = { x: box.right - half, y: box.top, room: -1 };
  for (const { x, y } of curve.flatMap(aboveAndBelow)) {
    const outside = x - half < box.left || x + half > box.right;
    if (outside || y < box.top - 6 || y > box.bottom - 6) continue;
    const near = taken.filter((each) => Math.abs(each.x - x) < half + 14);
    const room = Math.min(40, ...near.map((each) => Math.abs(each.y - y)));
    if (room > best.room + 0.5) best = { x, y, room };
  }
  return best;
}

/** @param {Place} place @returns {Place[]} above and below it */
function aboveAndBelow({ x, y }) {
  return [
    { x, y: y - NAME_LIFT },
    { x, y: y + NAME_LIFT },
  ];
}

/** Tokens per second of one round. @param {Round} round */
function rateOf(round) {
  const seconds = secondsOf(round.times);
  return seconds > 0 ? tokensIn(round) / seconds : 0;
}

/** @param {ChartFrame} frame */
function makePoint(frame) {
  const button = make("button", "ch-point", { type: "button" });
  const show = () => {
    const [x, y] = [parseFloat(button.style.left), parseFloat(button.style.top) - 12];
    frame.showNote({ x, y, text: button.ariaLabel ?? "" });
  };
  const hide = () => frame.showNote(null);
  for (const kind of ["pointerenter", "focus", "click"]) button.addEventListener(kind, show);
  for (const kind of ["pointerleave", "blur"]) button.addEventListener(kind, hide);
  return button;
}
