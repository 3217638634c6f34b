// Draws the text of the text pane, in blocks. Tokens are only added or removed at the end.

import { make } from "./elements.js";
import { isEnd, nameSpecial, visibleText } from "./token_text.js";

/** @import { RoleMark } from "./payload.d.ts" */
/** @import { Fate } from "./round_events.js" */

const BLOCK = 160; // tokens in a block, at least

// A blank before such a token may disappear at the end of a line; all other blanks are kept.
const SIMPLE = /^ ?\S+$/;

/**
 * The bottom of the line on which a token ends. A line break belongs to the line that it ends.
 * @param {HTMLElement} token
 */
function lineBottom(token) {
  const pieces = token.getClientRects();
  const ends = token.textContent?.endsWith("\n") || token.classList.contains("end");
  return (pieces[ends ? 0 : pieces.length - 1] ?? token.getBoundingClientRect()).bottom;
}

/**
 * The tokens on the last line of a block, so that the next block can begin with them.
 * @param {HTMLElement[]} tokens @returns {HTMLElement[]}
 */
function lastLine(tokens) {
  const last = tokens[tokens.length - 1];
  const bottom = lineBottom(last);
  let first = tokens.length;
  while (first > 1 && lineBottom(tokens[first - 1]) > bottom - 2) first -= 1;
  return first > tokens.length / 2 ? tokens.slice(first) : []; // not laid out yet, so there are no lines
}

/**
 * Tokens in blocks that end at line ends, so that adding a token lays out one block and not the
 * whole text, and block boundaries are invisible.
 */
export class Column {
  /** @param {HTMLElement} element @param {HTMLElement} caret */
  constructor(element, caret) {
    this.element = element;
    this.caret = caret;
    /** @type {{element: HTMLElement, start: number}[]} */
    this.blocks = [];
    this.count = 0;
    this.gapped = false; // the last token ends with a blank
    this.open([]);
  }

  get last() {
    return this.blocks[this.blocks.length - 1];
  }

  /** @param {HTMLElement[]} tokens the first tokens of the new block */
  open(tokens) {
    const element = make("div", "block", {}, [...tokens, this.caret]);
    this.element.append(element);
    this.blocks.push({ element, start: this.count - tokens.length });
  }

  /** @param {string} text @param {Fate} fate */
  push(text, fate) {
    if (this.count - this.last.start >= BLOCK) this.open(lastLine(this.tokens));
    const name = this.gapped || !SIMPLE.test(text) ? "word spaced" : "word";
    const token = make("span", name, { "data-testid": "token", "data-state": fate });
    token.textContent = visibleText(text);
    this.gapped = /\s$/.test(text);
    nameSpecial(token, text);
    token.classList.toggle("end", isEnd(text)); // a line break follows
    token.dataset.at = String(this.count);
    this.last.element.insertBefore(token, this.caret);
    this.count += 1;
  }

  /** The role of the message that follows, in a line of its own. @param {RoleMark} mark */
  pushRole({ role, text }) {
    const name = make("span", "word role", { "data-testid": "role", "data-role": role, "data-at": String(this.count) }, [role]);
    if (text) name.title = visibleText(text);
    this.gapped = true;
    this.last.element.insertBefore(name, this.caret);
    this.count += 1;
  }

  /** The tokens of the last block. @returns {HTMLElement[]} */
  get tokens() {
    return /** @type {HTMLElement[]} */ ([...this.last.element.children].slice(0, -1));
  }

  /** @param {number} count */
  cut(count) {
    if (count >= this.count) return;
    while (this.last.start > count) this.blocks.pop()?.element.remove();
    const { element, start } = this.last;
    const kept = /** @type {HTMLElement[]} */ ([...element.children]).slice(0, count - start);
    element.replaceChildren(...kept, this.caret);
    this.count = count;
    this.gapped = /\s$/.test(kept[kept.length - 1]?.textContent ?? "");
  }

  /** @param {number} index @returns {HTMLElement|undefined} */
  at(index) {
    let order = this.blocks.length - 1;
    while (order > 0 && this.blocks[order].start > index) order -= 1;
    const { element, start } = this.blocks[order];
    const token = element.children[index - start];
    return token === this.caret ? undefined : /** @type {HTMLElement|undefined} */ (token);
  }
}
