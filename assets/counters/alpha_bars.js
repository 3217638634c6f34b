// α by position: bars for recent values, marks for values over the whole time.

import { make, makeSvg, setText } from "../player/elements.js";

/** @typedef {{recent: number|null, began: number|null}} Alpha */

const HEIGHT = 190;
const ABOVE = 22;
const BELOW = 24;
const LEFT = 34;

export class AlphaBars {
  constructor() {
    this.plot = makeSvg("svg", { class: "plot", role: "img" });
    this.recent = make("span", "name bar", {});
    this.began = make("span", "name mark", {});
    const caption = make("div", "caption", {}, [make("b", "", {}, ["acceptance rate α by position"]), this.recent, this.began]);
    this.element = make("div", "chart alphas", {}, [caption, this.plot]);
  }

  /** @param {Alpha[]} alphas @param {{recent: string, began: string}} legend @param {number} width */
  draw(alphas, legend, width) {
    setText(this.recent, legend.recent);
    setText(this.began, legend.began);
    this.began.hidden = !alphas.some((each) => each.recent !== null && each.began !== null);
    if (width < 80) return;
    this.plot.setAttribute("viewBox", `0 0 ${width} ${ABOVE + HEIGHT + BELOW}`);
    this.plot.setAttribute("aria-label", words(alphas));
    const column = (width - LEFT) / Math.max(1, alphas.length);
    this.plot.replaceChildren(...grid(width), ...alphas.flatMap((each, place) => bar(each, place, column)));
  }
}

/** @param {Alpha[]} alphas */
function words(alphas) {
  const parts = alphas.map(({ recent, began }, place) => {
    const value = recent ?? began;
    return `${place + 1}: ${value === null ? "not known" : value.toFixed(3)}`;
  });
  return parts.length ? `acceptance rate α by position, ${parts.join(", ")}` : "acceptance rate α by position: not known yet";
}

/** @param {number} value */
const y = (value) => ABOVE + HEIGHT * (1 - value);

/** @param {number} width */
function grid(width) {
  return [0, 0.5, 1].flatMap((value) => {
    const label = makeSvg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" });
    setText(label, value.toString());
    return [makeSvg("line", { class: "grid", x1: LEFT, x2: width, y1: y(value), y2: y(value) }), label];
  });
}

/** @param {Alpha} alpha @param {number} place @param {number} column */
function bar({ recent, began }, place, column) {
  const middle = LEFT + column * (place + 0.5);
  const thick = Math.min(46, column * 0.62);
  const value = recent ?? began;
  const parts = [];
  if (value !== null) {
    const kind = recent === null ? "bar-began" : "bar";
    parts.push(makeSvg("rect", { class: kind, x: middle - thick / 2, y: y(value), width: thick, height: HEIGHT * value, rx: 2 }));
    const base = HEIGHT * value >= 24 ? y(0) : y(Math.max(value, began ?? 0)); // where the text does not cover the mark
    if (column >= 34) parts.push(label(middle, base - 8, value.toFixed(2), "value"));
  }
  if (recent !== null && began !== null)
    parts.push(makeSvg("line", { class: "mark", x1: middle - thick / 2 - 4, x2: middle + thick / 2 + 4, y1: y(began), y2: y(began) }));
  if (column >= 18 || place % 2 === 0) parts.push(label(middle, ABOVE + HEIGHT + 18, String(place + 1), "position"));
  return parts;
}

/** @param {number} x @param {number} at @param {string} text @param {string} kind */
function label(x, at, text, kind) {
  const element = makeSvg("text", { class: kind, x, y: at, "text-anchor": "middle" });
  setText(element, text);
  return element;
}
