// Parts shared by all charts: a card with a drawing of known size, scales, axes, labels that do not
// overlap, and a tooltip at the pointer.

import { make, makeSvg, setText } from "./elements.js";

/** @import { Store } from "./base_store.js" */

/** @typedef {{left: number, right: number, top: number, bottom: number}} Margins */
/** @typedef {{at: number, text: string}} Tick */
/** @typedef {{x: number, text: string, y?: number}} Pointed */
/** @typedef {{x: number, y: number}} Place */

const CHART_HEIGHT = 196;

/** @param {number} low @param {number} high @param {number} from @param {number} to */
export function linearScale(low, high, from, to) {
  const ratio = (to - from) / (high - low || 1);
  return (/** @type {number} */ value) => from + (value - low) * ratio;
}

/**
 * Tick values in round steps, from 0 to at least `top`.
 * @param {number} top @param {number} count about how many steps
 */
export function roundSteps(top, count) {
  const rough = Math.max(top, 1e-9) / count;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step =
    unit * /** @type {number} */ ([1, 2, 2.5, 5, 10].find((each) => each * unit >= rough * 0.999));
  return Array.from({ length: Math.ceil(top / step - 1e-9) + 1 }, (_, i) => i * step);
}

/** A number with about two digits. @param {number} value */
export function shortNumber(value) {
  const digits = Math.abs(value) < 1 ? 2 : Math.abs(value) < 10 ? 1 : 0;
  return String(Number(value.toFixed(digits)));
}

/**
 * Every tick or, if ticks would be less than 20 pixels apart, every second, third or later one.
 * @param {Tick[]} ticks @param {number} slot pixels from one to the next
 */
export function legibleTicks(ticks, slot) {
  const every = Math.ceil(20 / slot);
  return ticks.filter((_, i) => i % every === 0);
}

/** @param {Element} element @param {Record<string, string|number>} attributes */
export function setAttributes(element, attributes) {
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
}

/**
 * The children of an element, added or removed until there are `count`.
 * @param {Element} layer @param {keyof SVGElementTagNameMap} tag @param {number} count @returns {Element[]}
 */
export function reuseChildren(layer, tag, count) {
  while (layer.childElementCount > count) layer.lastElementChild?.remove();
  while (layer.childElementCount < count) layer.append(makeSvg(tag));
  return [...layer.children];
}

/** @param {[number, number][]} points */
export function pathThrough(points) {
  return points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}

/**
 * A box as part of a path.
 * @param {number} x @param {number} y @param {number} width @param {number} height
 */
export function boxPath(x, y, width, height) {
  return `M${x.toFixed(1)} ${y.toFixed(1)}h${width.toFixed(1)}v${height.toFixed(1)}h${(-width).toFixed(1)}z`;
}

/**
 * Positions for labels with a gap between them, as near as possible to the wanted positions.
 * @param {number[]} wanted @param {number} gap @param {number} low @param {number} high
 */
export function spreadLabels(wanted, gap, low, high) {
  const order = wanted.map((_, i) => i).sort((one, other) => wanted[one] - wanted[other]);
  const placed = [...wanted];
  order.forEach((i, rank) => {
    const floor = rank ? placed[order[rank - 1]] + gap : low;
    placed[i] = Math.max(placed[i], floor);
  });
  order.reverse().forEach((i, rank) => {
    const ceiling = rank ? placed[order[rank - 1]] - gap : high;
    placed[i] = Math.min(placed[i], ceiling);
  });
  return placed;
}

/** A card with a title, a line of explanation and a drawing. */
export class ChartFrame {
  /** @param {string} name @param {string} title @param {Margins} margins */
  constructor(name, title, margins) {
    this.name = name;
    this.title = title;
    this.margins = margins;
    this.width = 0;
    this.height = CHART_HEIGHT;
    this.svg = makeSvg("svg", { role: "img", "aria-label": title });
    this.caption = make("p", "ch-caption");
    this.empty = make("p", "ch-empty", {}, ["This chart fills as rounds arrive."]);
    this.tip = make("div", "ch-tip", { "aria-hidden": "true" });
    this.tip.hidden = true;
    this.plot = make("div", "ch-plot", {}, [this.svg, this.empty, this.tip]);
    const head = make("h3", "", {}, [title]);
    this.element = make("article", `ch-card ch-${name}`, {}, [head, this.caption, this.plot]);
    this.grid = this.layer("ch-grid");
    this.left = this.layer("ch-left");
    this.bottom = this.layer("ch-bottom");
  }

  /** @param {string} name @param {keyof SVGElementTagNameMap} [tag] */
  layer(name, tag = "g") {
    const layer = makeSvg(tag, { class: name });
    this.svg.append(layer);
    return layer;
  }

  /** The area inside the axes. */
  get box() {
    const { left, right, top, bottom } = this.margins;
    return { left, top, right: this.width - right, bottom: this.height - bottom };
  }

  /** @param {number} width */
  resize(width) {
    this.width = width;
    setAttributes(this.svg, { viewBox: `0 0 ${width} ${this.height}`, width, height: this.height });
  }

  /** @param {Tick[]} ticks @param {(value: number) => number} scale */
  drawLeft(ticks, scale) {
    const { left, right } = this.box;
    const lines = reuseChildren(this.grid, "line", ticks.length);
    const texts = reuseChildren(this.left, "text", ticks.length);
    ticks.forEach(({ at, text }, i) => {
      setAttributes(lines[i], { x1: left, x2: right, y1: scale(at), y2: scale(at) });
      setAttributes(texts[i], { x: left - 7, y: scale(at) + 4, "text-anchor": "end" });
      setText(texts[i], text);
    });
  }

  /**
   * Draw the left axis from 0 to at least `top`, in round steps.
   * @param {number} top @param {number} count about how many steps
   * @param {(value: number) => string} [words] the text of a step
   */
  drawSteps(top, count, words = shortNumber) {
    const steps = roundSteps(top, count);
    const scale = linearScale(0, steps[steps.length - 1], this.box.bottom, this.box.top);
    const ticks = steps.map((at) => ({ at, text: words(at) }));
    this.drawLeft(ticks, scale);
    return scale;
  }

  /** @param {Tick[]} ticks @param {(value: number) => number} scale */
  drawBottom(ticks, scale) {
    const texts = reuseChildren(this.bottom, "text", ticks.length);
    ticks.forEach(({ at, text }, i) => {
      setAttributes(texts[i], { x: scale(at), y: this.box.bottom + 17, "text-anchor": "middle" });
      setText(texts[i], text);
    });
  }

  /** @param {string} words description of the drawing for screen readers */
  describe(words) {
    setAttributes(this.svg, { "aria-label": `${this.title}. ${words}` });
  }

  /** @param {Pointed|null} pointed */
  showNote(pointed) {
    this.tip.hidden = !pointed;
    if (!pointed) return;
    setText(this.tip, pointed.text);
    const half = this.tip.offsetWidth / 2;
    const x = Math.max(half, Math.min(this.width - half, pointed.x));
    const y = pointed.y ?? this.box.top;
    this.tip.style.transform = `translate(calc(${x}px - 50%), calc(${y}px - 100%))`;
  }

  /** @param {(x: number) => Pointed|null} find returns the tooltip for a horizontal position */
  showNotes(find) {
    this.svg.addEventListener("pointermove", (/** @type {PointerEvent} */ event) =>
      this.showNote(find(event.clientX - this.svg.getBoundingClientRect().left)),
    );
    this.svg.addEventListener("pointerleave", () => this.showNote(null));
  }
}

export const MARGINS = { left: 36, right: 14, top: 14, bottom: 26 };

/**
 * On a chart over rounds, a click moves the cursor to the end of the clicked round.
 * @param {ChartFrame} frame @param {Store} store @param {(at: number) => number} roundAt from 1
 */
export function seekOnClick(frame, store, roundAt) {
  frame.svg.classList.add("ch-seeks");
  frame.svg.addEventListener("click", (/** @type {MouseEvent} */ event) => {
    const round = roundAt(event.clientX - frame.svg.getBoundingClientRect().left);
    const { starts } = store.recording;
    if (round >= 1 && round < starts.length) store.seek(starts[round]);
  });
}

/** @param {number} first @param {number} last @returns {Tick[]} */
export function roundTicks(first, last) {
  const ends = [
    { at: first, text: `round ${first}` },
    { at: last, text: String(last) },
  ];
  return last > first ? ends : ends.slice(0, 1);
}
