// Draws one round as a row of chips, one chip per token.

import { make, makeButton, setTextOrHide } from "./elements.js";
import { sceneAt, tokensIn } from "./round_events.js";
import { childrenOf, isRound, layoutOf, numberOf, placeInRound, shapeOf, titleOf } from "./round_shape.js";
import { chipText, nameSpecial, spokenText } from "./token_text.js";

/** @import { Round } from "./payload.d.ts" */
/** @import { Fate, Scene } from "./round_events.js" */
/** @import { Cell } from "./round_shape.js" */

/** @param {Round} round @param {number} place @returns {string|null} null if an engine does not report it */
function textAt({ candidates, extra, unreported = [] }, place) {
  const after = place - candidates.length;
  return after < 0 ? candidates[place].text : ((extra ?? unreported[after])?.text ?? "");
}

/**
 * The label of a chip for screen readers.
 * @param {Round} round @param {number} index @param {number} place @param {Fate} fate
 */
function chipWords(round, index, place, fate) {
  const drafted = round.candidates.length;
  const after = fate === "unreported" ? "as received" : "from the target";
  const which = place < drafted ? placeInRound(round, place) : after;
  const text = textAt(round, place);
  return `${titleOf(round, index)}, ${which}, ${text === null ? "not reported" : `‘${spokenText(text)}’`}, ${FATE_WORDS[fate] ?? fate}`;
}

/** @type {Record<string, string>} */
const FATE_WORDS = { unreported: "fate not reported" };
const NAMELESS = "The engine does not report this token.";
const NO_ROUND = "Not a round: a step without candidates.";

/** Leading blanks are drawn faint; a token that an engine does not report has no text. @param {HTMLElement} chip @param {string|null} text */
function showChip(chip, text) {
  if (text === null) {
    chip.classList.add("nameless");
    chip.title = NAMELESS;
    return;
  }
  const shown = chipText(text);
  const blanks = /^·*/.exec(shown)?.[0] ?? "";
  chip.replaceChildren(make("i", "", {}, [blanks]), shown.slice(blanks.length));
  nameSpecial(chip, text);
}

/** @type {Record<string, Keyframe[]>} */
const ENTER = {
  drafted: [{ opacity: 0, transform: "translateX(-10px)" }, { opacity: 1, transform: "none" }],
  recovered: [
    { opacity: 0, transform: "translateY(-14px)" },
    { opacity: 1, transform: "none" },
  ],
  bonus: [
    { opacity: 0, transform: "scale(.8)" },
    { opacity: 1, transform: "none" },
  ],
};

/** @type {Record<string, Keyframe[]>} */
const TURN = {
  accepted: [{ transform: "translateY(-3px)" }, { transform: "none" }],
  cut: [{ opacity: 0.35 }, { opacity: 1 }],
  rejected: [
    { transform: "translateX(-3px)" },
    { transform: "translateX(3px)" },
    { transform: "none" },
  ],
  discarded: [{ opacity: 0.35 }, { opacity: 1 }],
};

/** The number of tokens that a round adds, such as +3; empty if it is not known. @param {Round} round */
function gainOf(round) {
  return round.unreported?.some(({ tokens }) => tokens === null) ? "" : `+${tokensIn(round)}`;
}

/** @param {Round} round @param {number} index */
function makeNumber(round, index) {
  if (!isRound(round)) return make("span", "number", { title: NO_ROUND }, ["–"]);
  return make("span", "number", {}, [String(numberOf(round, index))]);
}

/** @param {HTMLElement} element @param {Cell|null} cell null: folded away */
function putAt(element, cell) {
  element.hidden = !cell;
  if (!cell) return;
  element.style.gridArea = `${cell.row + 1} / ${cell.column + 1}`;
  element.style.setProperty("--up", String(cell.up));
  element.classList.toggle("first", cell.up === 0);
  element.classList.toggle("rooted", cell.column === 0);
}

export class RoundRow {
  /** @param {Round} round @param {number} index */
  constructor(round, index) {
    this.round = round;
    this.index = index;
    this.step = -1;
    /** @type {HTMLElement[]} */
    this.chips = [];
    this.tail = make("span", "tail", {}, [make("i", "", { "aria-hidden": "true" }, ["→"])]);
    this.waiting = make("span", "waiting", {}, ["target is verifying…"]);
    this.branched = shapeOf(round).branched;
    this.cells = make("div", this.branched ? "cells branched" : "cells");
    /** In a tree: a box for each candidate. @type {HTMLElement[]} */
    this.nodes = [];
    this.wide = false; // whether lines without a tested candidate are shown even if there are many
    this.more = makeButton("more-lines", "", () => this.toggleLines());
    this.gain = make("span", "gain");
    this.element = make(
      "div",
      "round",
      { role: "listitem", "data-testid": "round", "data-index": String(index) },
      [makeNumber(round, index), this.cells, this.gain],
    );
  }

  /** @param {number} step @param {boolean} lively @returns {boolean} whether the row may have grown */
  update(step, lively) {
    if (step === this.step) return false;
    this.step = step;
    const scene = sceneAt(this.round, step);
    const fates = [...scene.cells, ...scene.last];
    while (this.chips.length > fates.length) this.drop();
    fates.forEach((fate, place) => this.put(place, fate, lively));
    this.dress(scene);
    return true;
  }

  drop() {
    this.chips.pop()?.remove();
    this.nodes.splice(this.chips.length).forEach((node) => node.remove());
  }

  /** @param {number} place @param {Fate} fate @param {boolean} lively */
  put(place, fate, lively) {
    const chip = this.chips[place];
    if (!chip) this.enter(place, fate, lively);
    else if (chip.dataset.state !== fate) this.turn(chip, place, fate, lively);
  }

  /** Show or hide the lines without a tested candidate. */
  toggleLines() {
    this.wide = !this.wide;
    this.layOut();
  }

  /** Place the candidates of a tree and its extra token. */
  layOut() {
    const { cells, extra, hidden } = layoutOf(this.round, this.wide);
    this.nodes.forEach((node, place) => putAt(node, cells[place]));
    putAt(this.tail, extra);
    const { hidden: many } = layoutOf(this.round, false);
    setTextOrHide(this.more, many ? (hidden ? `+ ${many} lines never tested` : "fewer lines") : "");
    this.cells.append(this.more);
  }

  /** The arrow and the extra token stay together when the row wraps. @param {number} place */
  placeOf(place) {
    const { length } = this.round.candidates;
    if (place < length && this.branched) return this.nodeOf(place);
    if (place < length || (!length && this.round.unreported)) return this.cells;
    this.cells.append(this.tail);
    return this.tail;
  }

  /** @param {number} place */
  nodeOf(place) {
    const holds = childrenOf(this.round, place).length ? " holds" : "";
    const node = (this.nodes[place] ??= make("span", `node${holds}`));
    this.cells.append(node);
    return node;
  }

  /** @param {number} place @param {Fate} fate @param {boolean} lively */
  enter(place, fate, lively) {
    const chip = makeButton("chip", "", () => {}, { tabindex: "-1", "data-testid": "token" });
    chip.dataset.place = String(place);
    chip.dataset.state = fate;
    chip.setAttribute("aria-label", chipWords(this.round, this.index, place, fate));
    showChip(chip, textAt(this.round, place));
    this.placeOf(place).append(chip);
    this.chips.push(chip);
    if (lively && ENTER[fate]) chip.animate(ENTER[fate], { duration: 120, easing: "ease-out" });
  }

  /** @param {HTMLElement} chip @param {number} place @param {Fate} fate @param {boolean} lively */
  turn(chip, place, fate, lively) {
    chip.dataset.state = fate;
    chip.setAttribute("aria-label", chipWords(this.round, this.index, place, fate));
    if (lively && TURN[fate]) chip.animate(TURN[fate], { duration: 180, easing: "ease-out" });
  }

  /** @param {Scene} scene */
  dress(scene) {
    this.element.dataset.checking = String(scene.checking);
    if (scene.checking) this.cells.append(this.waiting);
    else this.waiting.remove();
    if (!scene.last.length) this.tail.remove();
    if (this.branched) this.layOut();
    this.gain.textContent = scene.complete ? gainOf(this.round) : "";
  }
}
