// @ts-check
// Elements, token text made safe to see, numbers as people write them, and what a browser keeps.

/**
 * @param {string} tag @param {string} [name] class names
 * @param {Record<string, string>} [attributes] @param {(Node|string)[]} [children]
 * @returns {any}
 */
function make(tag, name = "", attributes = {}, children = []) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/**
 * @param {string} tag @param {Record<string, string|number>} [attributes] @param {(Node|string)[]} [children]
 * @returns {any}
 */
function draw(tag, attributes = {}, children = []) {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.append(...children);
  return element;
}

// Bidirectional marks, zero-width and other invisible characters would hide or reorder what
// stands beside them; each is shown as its code.
const UNSEEN =
  /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

/** @param {string} text */
function seen(text) {
  return text.replace(UNSEEN, (mark) => {
    const code = mark.codePointAt(0)?.toString(16) ?? "";
    return mark.length > 1 ? `\\u{${code}}` : `\\u${code.padStart(4, "0")}`;
  });
}

/** A token as a chip shows it: blanks and line ends visible. @param {string} text */
function chipText(text) {
  return seen(text).replace(/ /g, "·").replace(/\n/g, "⏎") || "∅";
}

/** @param {number|null|undefined} value @param {number} [digits] .86 rather than 0.86 */
function share(value, digits = 2) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  return value.toFixed(digits).replace(/^(-?)0\./, "$1.");
}

/** @param {number} value */
function percent(value) {
  const hundred = 100 * value;
  if (hundred > 0 && hundred < 0.1) return "<\u00a00.1\u00a0%";
  return `${hundred.toFixed(hundred < 10 && hundred > 0 ? 1 : 0)}\u00a0%`;
}

/** @param {number} seconds */
function milliseconds(seconds) {
  const ms = 1000 * seconds;
  return `${ms.toFixed(ms < 10 ? 1 : 0)}\u00a0ms`;
}

/** The reader's text size, in pixels. */
function rootSize() {
  return parseFloat(getComputedStyle(document.documentElement).fontSize);
}

/** A colour and what it stands for. @param {string} kind of swatch @param {string} word */
function keyEntry(kind, word) {
  return make("span", "entry", {}, [make("u", `swatch ${kind}`), word]);
}

/** A button. @param {string} name @param {string} text @param {() => void} act @param {Record<string, string>} [attributes] */
function button(name, text, act, attributes = {}) {
  const element = make("button", name, { type: "button", ...attributes }, [text]);
  element.addEventListener("click", act);
  return element;
}

/** @param {string} key @returns {string|null} null too where the browser keeps nothing */
function recall(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/** @param {string} key @param {string} value */
function keep(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // A browser that keeps nothing forgets; the page works all the same.
  }
}

/** Keeps a pane at its end until a person scrolls up; then a button leads back. */
class Follower {
  /** @param {HTMLElement} pane what scrolls @param {() => void} moved */
  constructor(pane, moved) {
    this.pane = pane;
    this.following = true;
    this.top = 0;
    this.back = button("to-newest", "↓ newest", () => this.resume());
    this.back.hidden = true;
    pane.addEventListener("scroll", () => {
      this.scrolled();
      moved();
    });
  }

  scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.pane;
    if (scrollHeight - clientHeight - scrollTop < 12) this.following = true;
    else if (scrollTop < this.top - 1) this.following = false;
    this.top = scrollTop;
    this.back.hidden = this.following;
    this.pane.dataset.scrolled = String(scrollTop > 2);
  }

  /** Call after the pane's content has changed. */
  settle() {
    if (!this.following) return;
    this.pane.scrollTop = this.pane.scrollHeight;
    this.top = this.pane.scrollTop;
  }

  resume() {
    this.following = true;
    this.back.hidden = true;
    this.settle();
  }

  /** Show what stands at these pixels. @param {number} top @param {number} height */
  reveal(top, height) {
    const { scrollTop, clientHeight } = this.pane;
    if (top >= scrollTop && top + height <= scrollTop + clientHeight) return;
    this.following = false;
    this.pane.scrollTop = top < scrollTop ? top - 8 : top + height - clientHeight + 8;
  }
}
