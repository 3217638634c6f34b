// The wall view of a load sweep: large numbers of the block in progress and a cell for each user.

import { legendEntry, make, makeButton, setText } from "../player/elements.js";
import { mount } from "../player/mounting.js";

/** @typedef {"idle"|"prefill"|"decoding"|"pausing"} State */
/** @typedef {{id: string, label: string, shown: string, alert: boolean}} Figure */
/**
 * The data from Python. ``users`` holds the state of each user, and ``counts`` the number of users
 * in each state in words. ``done`` is the share of the block that is over.
 * @typedef {{
 *   lane: string, level: string, block: string, done: number, figures: Figure[], users: State[],
 *   counts: string,
 * }} WallData
 */

/** @type {State[]} */
const STATES = ["prefill", "decoding", "pausing", "idle"];
const MOST_COLUMNS = 16;

/** @type {WeakMap<HTMLElement, Wall>} */
const places = new WeakMap();

class Wall {
  /** @param {HTMLElement} parent */
  constructor(parent) {
    this.generation = 0;
    /** @type {((name: string, value: unknown) => void)|null} */
    this.setState = null;
    this.lane = make("span", "lane");
    this.level = make("span", "level");
    this.block = make("span", "block");
    this.full = makeButton("full", "Full screen", () => this.element.requestFullscreen?.());
    const head = make("div", "head", {}, [this.lane, this.level, this.block, this.full]);
    this.bar = make("i");
    this.figures = make("div", "figures");
    this.users = make("div", "users", { role: "img" });
    const legend = make("div", "legend", { "aria-hidden": "true" }, STATES.map((each) => legendEntry(each, each)));
    this.crowd = make("div", "crowd", {}, [this.users, legend]);
    this.element = make("section", "load-wall", { "data-testid": "load-wall", "aria-label": "Block in progress" }, [
      head, make("div", "bar", { "aria-hidden": "true" }, [this.bar]), make("div", "sides", {}, [this.figures, this.crowd]),
    ]);
    parent.append(this.element);
  }

  /** @param {WallData} data */
  take({ lane, level, block, done, figures, users, counts }) {
    setText(this.lane, lane);
    setText(this.level, level);
    setText(this.block, block);
    this.bar.style.width = `${100 * done}%`;
    while (this.figures.children.length < figures.length) this.figures.append(figureBox());
    figures.forEach(({ id, label, shown, alert }, place) => {
      const box = /** @type {HTMLElement} */ (this.figures.children[place]);
      box.className = `figure ${id}${alert ? " alert" : ""}`;
      [shown, label].forEach((text, part) => setText(box.children[part], text));
    });
    this.crowd.hidden = users.length === 0;
    this.drawUsers(users);
    this.users.setAttribute("aria-label", counts);
  }

  /** @param {State[]} users */
  drawUsers(users) {
    const columns = Math.min(MOST_COLUMNS, Math.max(4, 2 ** Math.ceil(Math.log2(2 * users.length) / 2)));
    this.users.style.setProperty("--columns", String(columns));
    while (this.users.children.length > users.length) this.users.lastChild?.remove();
    while (this.users.children.length < users.length) this.users.append(make("u"));
    users.forEach((state, place) => {
      const cell = this.users.children[place];
      if (cell.className !== state) cell.className = state;
    });
  }

  close() {
    this.element.remove();
  }
}

function figureBox() {
  return make("div", "figure", {}, [make("b"), make("span")]);
}

/** @param {{data: WallData, parentElement: HTMLElement, setStateValue: (name: string, value: unknown) => void}} given */
export default function (given) {
  return mount(places, (parent) => new Wall(parent), given);
}
