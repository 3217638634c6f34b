// The pictures of the lesson's steps: times as bars on one scale, and the weights that stream from
// memory. Python sends the values and all texts; token text is set only as text.

import { legendEntry, make, makeSvg } from "../player/elements.js";
import { redrawnFrom } from "../player/redrawn.js";
import { labelText } from "../player/token_text.js";

/** @typedef {{text: string, state: string}} Token */
/** A part of a bar. @typedef {{kind: string, size: number}} Part */
/**
 * A bar with its name and its length in words. ``outline`` is a length to compare it with;
 * ``squares`` is a number of tokens, drawn below the bar.
 * @typedef {{
 *   label: string, note: string, parts: Part[], outline: number, squares: number, tokens: Token[],
 * }} Row
 */
/**
 * A picture row: passes of the target over all weights, and the tokens they emit or check.
 * @typedef {{label: string, note: string, passes: number, tokens: Token[]}} Stream
 */
/**
 * The data from Python: rows of bars with lengths up to ``scale``, or streams of weights from memory.
 * @typedef {{
 *   alt: string, caption: string, memory: string, legend: {kind: string, word: string}[],
 *   scale: number, rows: Row[], streams: Stream[],
 * }} PictureData
 */

const BAR = 22; // height of a bar
const SQUARE = 12; // side of a token's square
const PITCH = 1.75; // from one token of a stream to the next, in rem

/** @param {number} share */
const percent = (share) => `${(100 * share).toFixed(3)}%`;

/** @param {Row} row @param {number} scale */
function bar(row, scale) {
  const track = makeSvg("svg", { class: "track", height: BAR });
  if (row.outline) track.append(makeSvg("rect", { class: "outline", x: 0, y: 0.5, width: percent(row.outline / scale), height: BAR - 1 }));
  let from = 0;
  for (const { kind, size } of row.parts) {
    track.append(makeSvg("rect", { class: `part ${kind}`, x: percent(from / scale), y: 0, width: percent(size / scale), height: BAR }));
    from += size;
  }
  return track;
}

/** One square for each token; the last may be a part of one. @param {number} tokens */
function squares(tokens) {
  const sides = Array.from({ length: Math.ceil(tokens) }, (_, index) => Math.min(1, tokens - index) * SQUARE);
  return makeSvg("svg", { class: "squares", height: SQUARE }, sides.map((width, index) =>
    makeSvg("rect", { class: "square", x: index * (SQUARE + 3), y: 0, width: width.toFixed(2), height: SQUARE, rx: 2 })));
}

/** @param {Token} token */
const chip = ({ text, state }) => make("span", "chip", { "data-state": state }, [labelText(text)]);

/** @param {Row} row @param {number} scale */
function rowOf(row, scale) {
  const line = make("div", "line", {}, [make("span", "label", {}, [row.label]), make("span", "note", {}, [row.note])]);
  const element = make("div", "row", {}, [line, bar(row, scale)]);
  if (row.squares) element.append(squares(row.squares));
  if (row.tokens.length) {
    element.append(make("div", "chips", {}, row.tokens.map(chip)));
  }
  return element;
}

/** The lines along which the weights flow from memory to the tokens. @param {Stream} stream */
function flow(stream) {
  const count = stream.tokens.length;
  const middleOf = (/** @type {number} */ index) => percent((index + 0.5) / count);
  const element = makeSvg("svg", { class: "flow", style: `height: ${count * PITCH}rem` });
  if (stream.passes > 1) {
    stream.tokens.forEach((_, index) => element.append(pass(index, middleOf(index), "100%")));
    return element;
  }
  element.append(pass(0, "50%", "62%"));
  stream.tokens.forEach((_, index) => element.append(makeSvg("line", { class: "answer", x1: "62%", y1: "50%", x2: "100%", y2: middleOf(index) })));
  return element;
}

/** One pass: all weights, read once. @param {number} index @param {string} y @param {string} end */
function pass(index, y, end) {
  return makeSvg("line", { class: "pass", x1: 0, y1: y, x2: end, y2: y, style: `--turn: ${index}` });
}

/** @param {Stream} stream @param {string} memory */
function streamOf(stream, memory) {
  const tokens = stream.tokens.map((token, index) => {
    const element = chip(token);
    element.style.setProperty("--turn", String(stream.passes > 1 ? index : 0));
    return element;
  });
  const picture = make("div", "stream", {}, [make("div", "memory", {}, [memory]), flow(stream), make("div", "tokens", {}, tokens)]);
  return make("div", "panel", {}, [make("div", "label", {}, [stream.label]), picture, make("div", "note", {}, [stream.note])]);
}

/** @param {PictureData} data */
function drawn(data) {
  const parts = data.streams.length
    ? [make("div", "panels", {}, data.streams.map((stream) => streamOf(stream, data.memory)))]
    : data.rows.map((row) => rowOf(row, data.scale));
  const legend = data.legend.map(({ kind, word }) => legendEntry(kind, word));
  if (legend.length) parts.push(make("div", "key", {}, legend));
  const image = make("div", "image", { role: "img", "aria-label": data.alt }, parts);
  return make("figure", "lesson-picture", { "data-testid": "lesson-picture" }, [image, make("figcaption", "", {}, [data.caption])]);
}

const draw = redrawnFrom(drawn);

/** @param {{data: PictureData, parentElement: HTMLElement}} given */
export default function (given) {
  return draw(given);
}
