// The board of an engine's counters: large numbers, α by position, and lines over the last minutes.
// Python sends each point once; this file appends points and requests missing ones again.

import { onceAtRest } from "../player/at_rest.js";
import { make, setText } from "../player/elements.js";
import { mount } from "../player/mounting.js";
import { AlphaBars } from "./alpha_bars.js";
import { LineChart } from "./line_chart.js";

/** @import { Alpha } from "./alpha_bars.js" */
/** @typedef {{at: number, tau: number|null, drafted: number|null, accepted: number|null, anew: boolean}} Point */
/** @typedef {{id: string, label: string, shown: string, note: string}} Figure */
/**
 * The data from Python: points from number ``from`` on; points before ``first`` are dropped.
 * @typedef {{
 *   id: string, live: boolean, points: {first: number, from: number, items: Point[], total: number},
 *   alphas: Alpha[], legend: {recent: string, began: string}, figures: Figure[], notes: string[],
 * }} BoardData
 */

const WISH_EVERY = 1500; // milliseconds between two requests
const MINUTES = 4; // the time that the lines cover

/** @type {WeakMap<HTMLElement, Board>} */
const places = new WeakMap();

class Board {
  /** @param {HTMLElement} parent */
  constructor(parent) {
    this.generation = 0;
    this.id = "";
    /** @type {Point[]} */
    this.points = [];
    this.first = 0; // the number of the first point
    this.wished = 0;
    this.width = 0;
    /** @type {BoardData|null} */
    this.data = null;
    /** @type {((name: string, value: unknown) => void)|null} */
    this.setState = null;
    this.figures = make("div", "figures");
    this.notes = make("div", "notes", { role: "status" });
    this.alphas = new AlphaBars();
    this.lengths = new LineChart({ title: "Tokens per round, τ", kinds: ["tau"], words: [] });
    this.rates = new LineChart({ title: "Per second", kinds: ["drafted", "accepted"], words: ["drafted", "accepted"] });
    this.lines = make("div", "lines", {}, [this.lengths.element, this.rates.element]);
    this.charts = make("div", "charts", {}, [this.alphas.element, this.lines]);
    this.element = make("div", "counters", { "data-testid": "counters" }, [this.notes, this.figures, this.charts]);
    parent.append(this.element);
    this.observer = new ResizeObserver(() => this.paint());
    this.observer.observe(this.charts);
  }

  /** @param {BoardData} data */
  take(data) {
    if (data.id !== this.id) {
      this.id = data.id;
      this.points = [];
      this.first = data.points.first;
    }
    this.data = data;
    this.append(data);
    this.paint();
  }

  get next() {
    return this.first + this.points.length;
  }

  /** @param {BoardData} data */
  append({ points }) {
    if (points.total < this.next) {
      this.points = []; // the counters were reset
      this.first = points.first;
    }
    if (points.from > Math.max(this.next, points.first)) return this.wish();
    const known = points.items.slice(Math.max(0, this.next - points.from));
    if (points.from > this.next) {
      this.points = [];
      this.first = points.from;
    }
    this.points.push(...known);
    const old = Math.max(0, points.first - this.first);
    this.points.splice(0, old);
    this.first += old;
  }

  wish() {
    const now = Date.now();
    if (now - this.wished < WISH_EVERY) return;
    this.wished = now;
    onceAtRest(() => this.setState?.("wish", { run: this.id, start: this.next, number: now }));
  }

  paint() {
    const data = this.data;
    if (!data) return;
    this.element.dataset.points = String(this.points.length);
    this.showWords(data);
    this.alphas.draw(data.alphas, data.legend, this.alphas.plot.clientWidth);
    this.lines.hidden = this.points.length < 2 && !data.live;
    const span = this.span(data.live);
    const width = this.lengths.plot.clientWidth;
    this.lengths.draw(this.readings((each) => [each.tau]), span, width);
    this.rates.draw(this.readings((each) => [each.drafted, each.accepted]), span, width);
  }

  /** @param {boolean} live */
  span(live) {
    const last = this.points.at(-1)?.at ?? 0;
    if (live) return { from: last - 60 * MINUTES, to: last, now: true, apart: 5 };
    return { from: this.points[0]?.at ?? 0, to: last, now: false, apart: Infinity };
  }

  /** @param {(point: Point) => (number|null)[]} values */
  readings(values) {
    return this.points.map((each) => ({ at: each.at, values: values(each), restarted: each.anew }));
  }

  /** @param {BoardData} data */
  showWords({ figures, notes }) {
    while (this.figures.children.length < figures.length) this.figures.append(figureBox());
    figures.forEach(({ id, label, shown, note }, place) => {
      const box = /** @type {HTMLElement} */ (this.figures.children[place]);
      box.dataset.testid = `counter-${id}`;
      [label, shown, note].forEach((text, part) => setText(box.children[part], text));
    });
    setText(this.notes, notes.join(" "));
    this.notes.hidden = notes.length === 0;
  }

  close() {
    this.observer.disconnect();
    this.element.remove();
  }
}

function figureBox() {
  return make("div", "figure", {}, [make("div", "label"), make("div", "shown"), make("div", "note")]);
}

/** @param {{data: BoardData, parentElement: HTMLElement, setStateValue: (name: string, value: unknown) => void}} given */
export default function (given) {
  return mount(places, (parent) => new Board(parent), given);
}
