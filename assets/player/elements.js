// Creates DOM elements and sets their text, always as text and never as HTML.

/**
 * Create an HTML element.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag @param {string} [name] class names
 * @param {Record<string, string>} [attributes] @param {(Node|string)[]} [children]
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function make(tag, name = "", attributes = {}, children = []) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/**
 * Create an SVG element.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag @param {Record<string, string|number>} [attributes] @param {(Node|string)[]} [children]
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function makeSvg(tag, attributes = {}, children = []) {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.append(...children);
  return element;
}

/** The user's text size, in pixels. */
export function readersTextSize() {
  return parseFloat(getComputedStyle(document.documentElement).fontSize);
}

/** A colour and its meaning. @param {string} kind of swatch @param {string} word */
export function legendEntry(kind, word) {
  return make("span", "entry", {}, [make("u", `swatch ${kind}`), word]);
}

/**
 * Create a button that calls a function.
 * @param {string} name @param {string} text @param {() => void} act
 * @param {Record<string, string>} [attributes]
 */
export function makeButton(name, text, act, attributes = {}) {
  const element = make("button", name, { type: "button", ...attributes }, [text]);
  element.addEventListener("click", act);
  return element;
}

/**
 * Set the text of an element. A text node is kept if there is one: another one would be an insertion,
 * after which the browser checks every `:has()` of the page's styles again.
 * @param {Element} element @param {string} text
 */
export function setText(element, text) {
  if (element.textContent === text) return;
  const node = element.firstChild;
  if (text && node instanceof Text && node === element.lastChild) node.data = text;
  else element.textContent = text;
}

/** Set the text, or hide the element if there is none. @param {HTMLElement} element @param {string|null|undefined} text */
export function setTextOrHide(element, text) {
  setText(element, text || "");
  element.hidden = !text;
}
