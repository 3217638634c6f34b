// A small chart of one or two quantities over time. A line breaks at unknown values, at missing
// readings, and where the engine was restarted.

import { make, makeSvg, setText } from "../player/elements.js";

/** @typedef {{at: number, values: (number|null)[], restarted: boolean}} Reading */
/** @typedef {{title: string, kinds: string[], words: string[]}} Look */
/** @typedef {{from: number, to: number, now: boolean, apart: number}} Span */

const HEIGHT = 120; // of the plot, in pixels
const LEFT = 44;
const BELOW = 24;
const ABOVE = 10;

/** The next larger round number. @param {number} value */
function above(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return (([1, 1.5, 2, 3, 4, 5, 6, 8].find((each) => each * power >= value)) ?? 10) * power;
}

/** @param {number} value */
const written = (value) => (value >= 100 ? value.toFixed(0) : value.toFixed(Number.isInteger(value) ? 0 : 1));

/** A label for seconds in the past. @param {number} seconds @param {boolean} now */
function moment(seconds, now) {
  if (now && Math.abs(seconds) < 0.5) return "now";
  const sign = now && seconds < 0 ? "−" : "";
  const whole = Math.abs(seconds);
  if (whole < 90) return `${sign}${whole.toFixed(0)} s`;
  return whole < 5400 ? `${sign}${(whole / 60).toFixed(0)} min` : `${sign}${(whole / 3600).toFixed(1)} h`;
}

export class LineChart {
  /** @param {Look} look */
  constructor(look) {
    this.look = look;
    this.plot = makeSvg("svg", { class: "plot", role: "img" });
    const names = look.words.map((word, place) => make("span", `name ${look.kinds[place]}`, {}, [word]));
    this.element = make("div", "chart", {}, [make("div", "caption", {}, [make("b", "", {}, [look.title]), ...names]), this.plot]);
  }

  /** @param {Reading[]} readings @param {Span} span @param {number} width */
  draw(readings, span, width) {
    if (width < 80) return;
    const known = readings.flatMap((each) => each.values.filter((value) => value !== null));
    const top = above(Math.max(0, ...known));
    const x = (/** @type {number} */ at) => LEFT + ((at - span.from) / Math.max(1e-9, span.to - span.from)) * (width - LEFT - 6);
    const y = (/** @type {number} */ value) => ABOVE + HEIGHT * (1 - value / top);
    this.plot.setAttribute("viewBox", `0 0 ${width} ${ABOVE + HEIGHT + BELOW}`);
    this.plot.setAttribute("aria-label", this.words(readings));
    this.plot.replaceChildren(
      ...this.grid(top, y, width),
      ...this.times(span, x),
      ...readings.filter((each) => each.restarted).map((each) => restartMark(x(each.at))),
      ...this.look.kinds.map((kind, place) => makeSvg("path", { class: `line ${kind}`, d: path(readings, place, span.apart, x, y) })),
    );
  }

  /** The description for screen readers. @param {Reading[]} readings */
  words(readings) {
    const last = readings.at(-1);
    const now = this.look.kinds.map((_, place) => {
      const value = last?.values[place] ?? null;
      return `${this.look.words[place] ?? this.look.title} ${value === null ? "not known" : value.toFixed(2)}`;
    });
    return `${this.look.title} over time; at the end ${now.join(", ")}`;
  }

  /** @param {number} top @param {(value: number) => number} y @param {number} width */
  grid(top, y, width) {
    return [0, top / 2, top].flatMap((value) => {
      const label = makeSvg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" });
      setText(label, written(value));
      return [makeSvg("line", { class: "grid", x1: LEFT, x2: width - 6, y1: y(value), y2: y(value) }), label];
    });
  }

  /** @param {Span} span @param {(at: number) => number} x */
  times(span, x) {
    return [0, 0.5, 1].map((share) => {
      const at = span.from + share * (span.to - span.from);
      const anchor = ["start", "middle", "end"][2 * share];
      const label = makeSvg("text", { x: x(at), y: ABOVE + HEIGHT + 18, "text-anchor": anchor });
      setText(label, moment(span.now ? at - span.to : at - span.from, span.now));
      return label;
    });
  }
}

/** @param {number} x */
function restartMark(x) {
  return makeSvg("line", { class: "anew", x1: x, x2: x, y1: ABOVE, y2: ABOVE + HEIGHT });
}

/**
 * The path of a line.
 * @param {Reading[]} readings @param {number} place @param {number} apart the longest time, in
 * seconds, between two readings that are joined
 * @param {(at: number) => number} x @param {(value: number) => number} y
 */
function path(readings, place, apart, x, y) {
  let drawn = "", pen = false, before = -Infinity;
  for (const { at, values, restarted } of readings) {
    const value = values[place];
    const joined = pen && !restarted && at - before <= apart;
    if (value !== null) {
      // An isolated point is a dot.
      drawn += joined ? `L${x(at).toFixed(1)} ${y(value).toFixed(1)}` : `M${x(at).toFixed(1)} ${y(value).toFixed(1)}h0`;
    }
    pen = value !== null;
    before = at;
  }
  return drawn;
}
