// A component with two distributions over a few tokens, side by side. The top of a bar can be dragged
// or moved by keys; the other bars of its model shrink or grow in proportion, so that each model
// sums to 1.

import { legendEntry, make, makeButton, makeSvg } from "../player/elements.js";
import { mount } from "../player/mounting.js";
import { labelText, spokenText, visibleText } from "../player/token_text.js";

const SEND_EVERY = 250; // milliseconds between two values sent during a drag
const HEIGHT = 220; // of the plot, in pixels
const ABOVE = 26; // space for a value above the tallest bar
const REACH = 16; // how far above and below its top a bar can be grabbed
/** @type {Record<string, number>} */
const STEPS = {
  ArrowUp: 0.01, ArrowRight: 0.01, ArrowDown: -0.01, ArrowLeft: -0.01, PageUp: 0.1, PageDown: -0.1, Home: -1, End: 1,
};

/** @typedef {"draft"|"target"} Model */
/** @typedef {{draft: number[], target: number[]}} Distributions */
/**
 * The data from Python; a new id resets the bars.
 * @typedef {{id: string, labels: string[], start: Distributions, now: Distributions}} BarsData
 */
/** One bar. @typedef {ReturnType<Bars["bar"]>} Shape */

/** @type {Model[]} */
const MODELS = ["draft", "target"];

/** @type {WeakMap<HTMLElement, Bars>} */
const places = new WeakMap();

/**
 * Set one probability; the others keep their proportions.
 * @param {number[]} distribution @param {number} at @param {number} value
 */
function withChance(distribution, at, value) {
  const rest = distribution.reduce((sum, each, index) => (index === at ? sum : sum + each), 0);
  const others = distribution.length - 1;
  return distribution.map((each, index) => {
    if (index === at) return others ? value : 1;
    return rest > 0 ? (each / rest) * (1 - value) : (1 - value) / others;
  });
}

/** @param {Distributions} pair @returns {Distributions} */
const copied = (pair) => ({ draft: [...pair.draft], target: [...pair.target] });

class Bars {
  /** @param {HTMLElement} parent */
  constructor(parent) {
    this.generation = 0;
    this.timer = 0;
    this.sent = 0;
    this.id = "";
    this.top = 1; // the probability at the plot's upper edge
    this.width = 0;
    /** @type {string[]} */
    this.labels = [];
    /** @type {Distributions} */
    this.start = { draft: [], target: [] };
    /** @type {Distributions} */
    this.shown = { draft: [], target: [] };
    /**
    * The bar that is being moved, and its model's distribution before the move.
     * @type {{model: Model, at: number, base: number[]}|null}
     */
    this.grip = null;
    this.dragging = false;
    /** @type {((name: string, value: unknown) => void)|null} */
    this.setState = null;
    this.plot = makeSvg("svg", { class: "plot", role: "group", "aria-label": "Probability of each token, by draft and target" });
    this.plot.append(patterns());
    this.grid = makeSvg("g", { class: "grid" });
    this.names = make("div", "names", { lang: "en" }); // for hyphenation
    this.reset = makeButton("reset", "Reset", () => this.restore(), { "aria-label": "Reset the bars" });
    this.element = make("div", "bars", { "data-testid": "bars" }, [this.head(), this.plot, this.names]);
    parent.append(this.element);
    this.observer = new ResizeObserver(([entry]) => this.resized(entry.contentRect.width));
    this.observer.observe(this.plot);
  }

  head() {
    const entries = [
      ["draft", "draft"], ["target", "target"], ["surplus", "only the draft's"], ["residual", "only the target's"],
    ];
    const key = entries.map(([kind, word]) => legendEntry(kind, word));
    return make("div", "head", {}, [make("div", "key", {}, key), this.reset]);
  }

  /** @param {BarsData} data from Python */
  take(data) {
    if (data.id === this.id) return;
    this.id = data.id;
    this.labels = data.labels;
    this.start = copied(data.start);
    this.shown = copied(data.now);
    this.build();
    this.settle();
  }

  build() {
    for (const old of this.plot.querySelectorAll("g")) old.remove();
    this.grid = makeSvg("g", { class: "grid" });
    this.shapes = this.labels.map((label, at) => ({ draft: this.bar("draft", label, at), target: this.bar("target", label, at) }));
    const groups = this.shapes.flatMap((pair) => [pair.draft.group, pair.target.group]);
    this.plot.append(this.grid, ...groups);
    this.names.replaceChildren(...this.labels.map((label) => make("span", "", { title: visibleText(label) }, [labelText(label)])));
    this.names.style.gridTemplateColumns = `repeat(${this.labels.length}, minmax(0, 1fr))`;
  }

  /** @param {Model} model @param {string} label @param {number} at */
  bar(model, label, at) {
    const shared = makeSvg("rect", { class: `shared ${model}` });
    const extra = makeSvg("rect", { class: `extra ${model}` });
    const ground = makeSvg("rect", { class: "ground" });
    const value = makeSvg("text", { class: "value", "text-anchor": "middle" });
    const handle = makeSvg("rect", {
      class: `handle ${model}`, rx: 3, tabindex: 0, role: "slider", "data-testid": `${model}-${at}`,
      "aria-label": `${model} probability of ${spokenText(label)}`, "aria-orientation": "vertical", "aria-valuemin": 0, "aria-valuemax": 1,
    });
    const grab = makeSvg("rect", { class: "grab" });
    const group = makeSvg("g", { class: "bar" }, [ground, shared, extra, value, handle, grab]);
    group.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
      // A touch on the rest of a bar scrolls the page.
      if (event.button === 0 && (event.pointerType !== "touch" || event.target === grab)) this.seize(event, model, at, group, handle);
    });
    handle.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.pressed(event, model, at));
    return { group, shared, extra, ground, value, handle, grab };
  }

  /**
   * @param {PointerEvent} event @param {Model} model @param {number} at @param {SVGElement} group
   * @param {SVGElement} handle
   */
  seize(event, model, at, group, handle) {
    event.preventDefault();
    handle.focus({ preventScroll: true });
    group.setPointerCapture(event.pointerId);
    this.dragging = true;
    const offset = this.chanceAt(event) - this.shown[model][at];
    const near = Math.abs(offset) * HEIGHT <= REACH * this.top; // a bar grabbed near its top does not jump
    this.grip = { model, at, base: [...this.shown[model]] };
    const moved = (/** @type {PointerEvent} */ now) => this.set(model, at, Math.min(this.top, this.chanceAt(now) - (near ? offset : 0)));
    const ended = () => {
      group.removeEventListener("pointermove", moved);
      for (const name of ["pointerup", "pointercancel"]) group.removeEventListener(name, ended);
      this.dragging = false;
      this.grip = null;
      this.settle();
      this.send();
    };
    group.addEventListener("pointermove", moved);
    for (const name of ["pointerup", "pointercancel"]) group.addEventListener(name, ended);
    if (!near) moved(event);
  }

  /** @param {KeyboardEvent} event @param {Model} model @param {number} at */
  pressed(event, model, at) {
    const step = STEPS[event.key];
    if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    const held = this.grip;
    // The other bars keep the proportions that they had before the move, even after the bar was at 1
    // and the others at 0.
    if (held?.model !== model || held.at !== at) this.grip = { model, at, base: [...this.shown[model]] };
    this.set(model, at, Math.round((this.shown[model][at] + step) * 1000) / 1000);
    this.settle();
  }

  /** @param {PointerEvent} event */
  chanceAt(event) {
    const { top } = this.plot.getBoundingClientRect();
    return ((ABOVE + HEIGHT - (event.clientY - top)) / HEIGHT) * this.top;
  }

  /** @param {Model} model @param {number} at @param {number} value */
  set(model, at, value) {
    const base = this.grip?.base ?? this.shown[model];
    this.shown[model] = withChance(base, at, Math.min(1, Math.max(0, value)));
    this.paint();
    this.sendSoon();
  }

  restore() {
    this.shown = copied(this.start);
    this.grip = null;
    this.settle();
    this.send();
  }

  /** The scale follows the tallest bar, but not during a drag. */
  settle() {
    const tallest = Math.max(...this.shown.draft, ...this.shown.target);
    this.top = Math.min(1, Math.ceil((tallest + 0.1) * 5 - 1e-9) / 5);
    this.paint();
  }

  /** @param {number} width */
  resized(width) {
    if (Math.abs(width - this.width) < 0.5) return;
    this.width = width;
    this.paint();
  }

  paint() {
    if (!this.width || !this.shapes) return;
    this.plot.setAttribute("viewBox", `0 0 ${this.width} ${ABOVE + HEIGHT + 1}`);
    const column = this.width / this.labels.length;
    const thick = Math.min(46, column * 0.38);
    this.paintGrid();
    this.shapes.forEach((pair, at) => {
      const middle = column * (at + 0.5);
      for (const model of MODELS) this.paintBar(pair[model], model, at, model === "draft" ? middle - thick - 1 : middle + 1, thick);
    });
    this.element.dataset.sums = MODELS.map((model) => this.shown[model].reduce((sum, each) => sum + each, 0).toFixed(9)).join(" ");
  }

  /**
   * @param {Shape} shape @param {Model} model @param {number} at @param {number} x
   * @param {number} thick
   */
  paintBar(shape, model, at, x, thick) {
    const chance = this.shown[model][at];
    const common = Math.min(this.shown.draft[at], this.shown.target[at]);
    const y = (/** @type {number} */ each) => ABOVE + HEIGHT * (1 - Math.min(1, each / this.top));
    place(shape.ground, x, 0, thick, ABOVE + HEIGHT);
    place(shape.shared, x, y(common), thick, ABOVE + HEIGHT - y(common));
    place(shape.extra, x, y(chance), thick, y(common) - y(chance));
    const reach = Math.min(26, thick);
    place(shape.handle, x + (thick - reach) / 2, y(chance) - 3, reach, 6);
    place(shape.grab, x, y(chance) - REACH, thick, 2 * REACH);
    shape.value.textContent = `${(100 * chance).toFixed(0)}${thick < 25 ? "" : "\u00a0%"}`;
    shape.value.setAttribute("x", String(x + thick / 2));
    shape.value.setAttribute("y", String(y(chance) - 8));
    shape.handle.setAttribute("aria-valuenow", chance.toFixed(4));
    shape.handle.setAttribute("aria-valuetext", `${(100 * chance).toFixed(1)} %`);
  }

  paintGrid() {
    const lines = [];
    for (let chance = 0; chance <= this.top + 1e-9; chance += 0.2) {
      const y = ABOVE + HEIGHT * (1 - chance / this.top);
      lines.push(makeSvg("line", { x1: 0, x2: this.width, y1: y, y2: y }));
    }
    this.grid.replaceChildren(...lines);
  }

  sendSoon() {
    if (this.timer) return;
    const wait = Math.max(0, this.sent + SEND_EVERY - performance.now());
    this.timer = window.setTimeout(() => this.send(), wait);
  }

  send() {
    clearTimeout(this.timer);
    this.timer = 0;
    this.sent = performance.now();
    this.setState?.("laws", { id: this.id, ...copied(this.shown) });
  }

  close() {
    clearTimeout(this.timer);
    this.observer.disconnect();
    this.element.remove();
  }
}

/**
 * @param {SVGElement} rect @param {number} x @param {number} y @param {number} width
 * @param {number} height
 */
function place(rect, x, y, width, height) {
  for (const [name, value] of Object.entries({ x, y, width, height: Math.max(0, height) })) rect.setAttribute(name, value.toFixed(2));
}

/** Hatching for mass that only one model has, in one direction per model: readable without colour. */
function patterns() {
  const hatch = (/** @type {string} */ model, /** @type {number} */ angle) =>
    makeSvg("pattern", { id: `bars-${model}`, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: `rotate(${angle})` }, [
      makeSvg("rect", { class: `hatch-ground ${model}`, width: 6, height: 6 }),
      makeSvg("rect", { class: `hatch-line ${model}`, width: 2, height: 6 }),
    ]);
  return makeSvg("defs", {}, [hatch("draft", 45), hatch("target", -45)]);
}

/** @param {{data: BarsData, parentElement: HTMLElement, setStateValue: (name: string, value: unknown) => void}} given */
export default function (given) {
  return mount(places, (parent) => new Bars(parent), given);
}
