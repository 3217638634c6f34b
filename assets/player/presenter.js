// Presenter mode shows only the result, the player, its verdict and the race, in large type. The address
// contains the mode, so that a link opens it: `present=1` in the query of the dashboard, `#present` in a
// replay file.

import { makeButton, setText } from "./elements.js";

/** @import { RunStore } from "./run_store.js" */

/** How the address stores presenter mode. @typedef {{part: "search"|"hash", sign: "?"|"#", word: string}} Mark */

/** @type {Mark} */
export const IN_QUERY = { part: "search", sign: "?", word: "present=1" };
/** @type {Mark} */
export const IN_HASH = { part: "hash", sign: "#", word: "present" };

/** The words in the part of the address that stores the mark. @param {Mark} mark */
function wordsOf({ part }) {
  return window.location[part].slice(1).split("&").filter(Boolean);
}

/** @param {Mark} mark */
function isMarked(mark) {
  return wordsOf(mark).includes(mark.word);
}

/** Update the address: Streamlit reads it at every run and keeps unknown parameters. @param {Mark} mark @param {boolean} on */
function writeMark(mark, on) {
  const others = wordsOf(mark).filter((word) => word !== mark.word);
  const words = on ? [...others, mark.word] : others;
  const { pathname, search, hash } = window.location;
  const changed = { search, hash, [mark.part]: words.length ? mark.sign + words.join("&") : "" };
  window.history.replaceState(window.history.state, "", pathname + changed.search + changed.hash);
}

/** The presenters of all players that are not closed yet. @type {Set<Presenter>} */
const presenters = new Set();

export const REPLACED_MS = 5000; // milliseconds: a page that replaces a player creates the new one well within this time

export class Presenter {
  /**
   * @param {HTMLElement} root of the player @param {Mark} mark where the address stores the mode
   * @param {Presenter} [replaced] of the player that this one replaces: Streamlit may have written an
   *   older address
   */
  constructor(root, mark, replaced) {
    this.root = root;
    this.mark = mark;
    /** @type {boolean} */
    this.asked = replaced ? replaced.asked : isMarked(mark);
    /** The presented run; races cannot be presented. @type {RunStore|null} */
    this.store = null;
    this.handleAddress = () => this.present(isMarked(this.mark));
    window.addEventListener("hashchange", this.handleAddress);
    presenters.add(this);
  }

  /** Whether the page is in presenter mode. */
  get on() {
    return this.asked && this.store !== null;
  }

  /** @param {RunStore|null} store */
  show(store) {
    this.store = store;
    this.dress();
  }

  /** Leaving ends the mode in all players, because Streamlit may be about to remove the player that receives the key. @param {boolean} on */
  present(on) {
    for (const each of on ? [this] : presenters) each.turn(on);
  }

  /** @param {boolean} on */
  turn(on) {
    this.asked = on && this.store !== null;
    const { activeElement } = document; // an element outside the player would be hidden but still receive the keys
    if (this.on && activeElement instanceof HTMLElement && !this.root.contains(activeElement)) activeElement.blur();
    this.keepAddress();
    this.dress();
    this.store?.changed();
  }

  toggle() {
    this.present(!this.on);
  }

  /** Write the mode to the address again: Streamlit may have written an older state to it. */
  keepAddress() {
    if (this.store && isMarked(this.mark) !== this.asked) writeMark(this.mark, this.asked);
  }

  dress() {
    this.root.dataset.presenting = String(this.on);
    const isAnywhere = document.querySelector('.sv[data-presenting="true"]') !== null;
    document.documentElement.toggleAttribute("data-presenting", isAnywhere);
  }

  close() {
    presenters.delete(this);
    window.removeEventListener("hashchange", this.handleAddress);
    this.show(null);
    if (this.asked) this.awaitEscape();
  }

  /** Let Esc leave the mode also after this player is closed and before another one replaces it. */
  awaitEscape() {
    /** @param {KeyboardEvent} event */
    const leave = (event) => {
      if (event.key === "Escape") this.asked = false;
    };
    document.addEventListener("keydown", leave, true);
    setTimeout(() => document.removeEventListener("keydown", leave, true), REPLACED_MS);
  }
}

/** The button that enters and leaves presenter mode. @param {Presenter} presenter */
export function makePresentButton(presenter) {
  const element = makeButton("present", "Present", () => presenter.toggle(), { "data-testid": "present" });
  return {
    element,
    draw() {
      if (presenter.on) presenter.dress(); // the replaced player may have closed since then, and removed the mode from the page
      setText(element, presenter.on ? "Leave" : "Present");
      element.title = presenter.on ? "Leave presenter mode (P or Esc)" : "The result, the player, its verdict and the race, in large type (P)";
    },
    close() {},
  };
}
