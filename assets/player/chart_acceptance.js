// Chart: the share of accepted candidates over the rounds so far.

import {
  ChartFrame,
  linearScale,
  MARGINS,
  pathThrough,
  reuseChildren,
  roundTicks,
  seekOnClick,
  setAttributes,
  spreadLabels,
} from "./chart_frame.js";
import { setText } from "./elements.js";
import { share } from "./number_words.js";
import { alphaOf, RoundCounts, wilson } from "./round_counts.js";

/** @import { Store } from "./base_store.js" */
/** @import { Pointed, Tick } from "./chart_frame.js" */
/** @import { Charts } from "./payload.d.ts" */

const ACCEPTANCE_CAPTION =
  "Line: share of tested candidates accepted so far (observed α), with a 95 % band. Dashed: expected α, computed from the probabilities, without the draws.";

export class AcceptanceChart {
  /** @param {Store} store */
  constructor(store) {
    this.frame = new ChartFrame("acceptance", "Acceptance over rounds", { ...MARGINS, right: 66 });
    this.band = this.frame.layer("ch-band", "path");
    this.expected = this.frame.layer("ch-expected", "path");
    this.observed = this.frame.layer("ch-observed", "path");
    this.even = this.frame.layer("ch-alone", "line");
    this.line = this.frame.layer("ch-cursor", "line");
    this.dot = this.frame.layer("ch-dot", "circle");
    this.names = this.frame.layer("ch-labels");
    this.counts = new RoundCounts(store.recording);
    this.x = linearScale(0, 1, 0, 1);
    this.y = linearScale(0, 1, 1, 0);
    /** @type {number|null} */
    this.breakEven = null;
    seekOnClick(this.frame, store, (at) => this.roundNear(at));
    this.frame.showNotes((at) => this.noteAt(this.roundNear(at)));
  }

  /** @param {RoundCounts} counts @param {Charts|undefined} charts */
  fill(counts, charts) {
    this.counts = counts;
    this.breakEven = charts?.break_even ?? null;
    setText(this.frame.caption, `${ACCEPTANCE_CAPTION}${breakEvenWords(this.breakEven)}`);
    const { left, right, top, bottom } = this.frame.box;
    const points = sampledRounds(counts, right - left);
    const low = acceptanceFloor(counts, points);
    this.x = linearScale(1, Math.max(2, counts.rounds), left, right);
    this.y = linearScale(low, 1, bottom, top);
    this.frame.drawLeft(shareTicks(low), this.y);
    this.frame.drawBottom(roundTicks(1, Math.max(1, counts.rounds)), this.x);
    this.frame.svg.classList.toggle("ch-blank", points.length === 0);
    if (points.length) this.paint(counts, points, low);
    return points.length > 0;
  }

  /** @param {RoundCounts} counts @param {number[]} points @param {number} low */
  paint(counts, points, low) {
    /** @param {(round: number) => number} value @returns {[number, number][]} */
    const through = (value) => points.map((i) => [this.x(i), this.y(Math.max(low, value(i)))]);
    const upper = through((i) => bandOf(counts, i)[1]);
    const lower = through((i) => bandOf(counts, i)[0]);
    setAttributes(this.band, { d: `${pathThrough([...upper, ...lower.reverse()])}Z` });
    setAttributes(this.observed, { d: pathThrough(through((i) => counts.accepted[i] / counts.tested[i])) });
    setAttributes(this.expected, { d: pathThrough(through((i) => counts.expected[i] / counts.tested[i])) });
    this.paintBreakEven(low);
    this.paintNames(counts);
    this.frame.describe(acceptanceWords(counts));
  }

  /** The α below which the pair is slower than the target alone, if it is in view. @param {number} low */
  paintBreakEven(low) {
    const { left, right } = this.frame.box;
    const inView = this.breakEven !== null && this.breakEven >= low;
    this.even.classList.toggle("ch-none", !inView);
    const y = this.y(Math.max(low, this.breakEven ?? low));
    setAttributes(this.even, { x1: left, x2: right, y1: y, y2: y });
  }

  /** Labels with values at the ends of both lines. @param {RoundCounts} counts */
  paintNames({ accepted, expected, tested, rounds }) {
    const values = [accepted[rounds] / tested[rounds], expected[rounds] / tested[rounds]];
    const { top, bottom, right } = this.frame.box;
    const places = spreadLabels(values.map(this.y), 30, top + 6, bottom - 14);
    reuseChildren(this.names, "text", 2).forEach((text, i) => {
      const name = i ? "expected" : "observed";
      setAttributes(text, { x: right + 7, y: places[i], class: `ch-of-${name}` });
      stackTexts(text, [name, share(values[i])], right + 7);
    });
  }

  /** @param {number} index */
  mark(index) {
    const x = this.x(index + 1);
    const { top, bottom } = this.frame.box;
    const alpha = alphaOf(this.counts, index + 1);
    setAttributes(this.line, { x1: x, x2: x, y1: top, y2: bottom });
    this.dot.style.display = alpha === null ? "none" : "";
    if (alpha !== null) setAttributes(this.dot, { cx: x, cy: Math.min(bottom, this.y(alpha)), r: 3.5 });
  }

  /** @param {number} at across @returns {number} from 1 */
  roundNear(at) {
    const round = Math.round(1 + (at - this.x(1)) / (this.x(2) - this.x(1)));
    return Math.max(1, Math.min(this.counts.rounds, round));
  }

  /** @param {number} round @returns {Pointed|null} */
  noteAt(round) {
    const { accepted, expected, tested } = this.counts;
    if (!tested[round]) return null;
    const [low, high] = bandOf(this.counts, round);
    const alpha = share(accepted[round] / tested[round]);
    const first = `up to round ${round}: α ${alpha}, ${accepted[round]} accepted of ${tested[round]} tested`;
    const before = share(expected[round] / tested[round]);
    const second = `95 % band ${share(low)} to ${share(high)}; expected ${before}`;
    return { x: this.x(round), text: `${first}\n${second}` };
  }
}

/** @param {number|null} breakEven */
function breakEvenWords(breakEven) {
  if (breakEven === null) return "";
  return ` Below α ${share(breakEven)} (dotted line, if in view), this pair is slower than the target alone.`;
}

/** @param {RoundCounts} counts @param {number} rounds */
function bandOf(counts, rounds) {
  return wilson(counts.accepted[rounds], counts.tested[rounds]);
}

/**
 * The rounds to draw: at most one a pixel, and always the last.
 * @param {RoundCounts} counts @param {number} pixels
 */
function sampledRounds(counts, pixels) {
  const every = Math.max(1, Math.ceil(counts.rounds / Math.max(1, pixels)));
  const rounds = [];
  for (let i = 1; i < counts.rounds; i += every) if (counts.tested[i]) rounds.push(i);
  if (counts.tested[counts.rounds]) rounds.push(counts.rounds);
  return rounds;
}

/**
 * The lower end of the axis, below the bands. Bands of rounds with under 20 tested candidates so far
 * are too wide to count, unless there are no others.
 * @param {RoundCounts} counts @param {number[]} points
 */
function acceptanceFloor(counts, points) {
  const calm = points.filter((i) => counts.tested[i] >= 20);
  const lows = (calm.length ? calm : points).map((i) => bandOf(counts, i)[0]);
  return Math.floor(5 * Math.min(0.6, ...lows)) / 5;
}

/** @param {number} low @returns {Tick[]} */
export function shareTicks(low) {
  const step = low < 0.5 ? 0.2 : 0.1;
  const count = Math.round((1 - low) / step);
  return Array.from({ length: count + 1 }, (_, i) => {
    const at = low + i * step;
    return { at, text: at > 0.999 ? "1" : at < 0.001 ? "0" : share(at, 1) };
  });
}

/** Write lines of text below each other. @param {Element} text @param {string[]} words @param {number} x */
function stackTexts(text, words, x) {
  reuseChildren(text, "tspan", words.length).forEach((line, i) => {
    setAttributes(line, { x, dy: i ? "1.13em" : 0 });
    setText(line, words[i]);
  });
}

/** @param {RoundCounts} counts */
function acceptanceWords(counts) {
  const { accepted, expected, tested, rounds } = counts;
  const [low, high] = bandOf(counts, rounds).map((each) => share(each));
  const alpha = share(accepted[rounds] / tested[rounds]);
  const before = share(expected[rounds] / tested[rounds]);
  return `After ${rounds} rounds α is ${alpha}, 95 % band ${low} to ${high}; expected ${before}.`;
}
