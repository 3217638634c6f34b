// Paints time lanes on a canvas: bars of work, marks of emitted tokens, a line at the current time,
// and the scale below.

import { legendEntry, make, readersTextSize } from "./elements.js";
import { countUpTo } from "./lane_clock.js";
import { timeIn, unitFor } from "./number_words.js";
import { phasesOf } from "./round_times.js";

/** @import { LaneClock } from "./lane_clock.js" */

/** The step of a scale: 1, 2 or 5 times a power of ten. @param {number} least */
function scaleStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * ([1, 2, 5].find((each) => each * power >= least) ?? 10);
}

/**
 * A canvas as sharp as the screen, in CSS pixels.
 * @param {HTMLCanvasElement} canvas @param {number} width @param {number} height
 */
function cleanPen(canvas, width, height) {
  const sharpness = window.devicePixelRatio || 1;
  const wide = Math.round(width * sharpness);
  const high = Math.round(height * sharpness);
  if (canvas.width !== wide) canvas.width = wide;
  if (canvas.height !== high) canvas.height = high;
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  pen.setTransform(sharpness, 0, 0, sharpness, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

/**
 * The part of the clock that is in view; `height` is that of a lane, `bar` the place of its bars.
 * @typedef {{from: number, span: number, width: number, height: number, scaleHeight: number,
 *   bar: {top: number, height: number}, now: number, unit: "s"|"ms", ink: Record<string, string>}} ClockWindow
 */

/** @param {ClockWindow} view @param {number} seconds */
export function xAt(view, seconds) {
  return ((seconds - view.from) / view.span) * view.width;
}

/**
 * Paint a bar of time: solid up to the current time, faint after it.
 * @param {CanvasRenderingContext2D} pen @param {ClockWindow} view
 * @param {number} from @param {number} to @param {string} colour
 */
function paintStretch(pen, view, from, to, colour) {
  const left = xAt(view, from);
  const right = xAt(view, to);
  const now = Math.max(left, Math.min(right, xAt(view, view.now)));
  const gap = right - left > 3 ? 0.75 : 0;
  pen.fillStyle = colour;
  pen.fillRect(left, view.bar.top, Math.max(0, now - left - (now === right ? gap : 0)), view.bar.height);
  if (now === right) return;
  pen.globalAlpha = Number(view.ink.ahead);
  pen.fillRect(now, view.bar.top, Math.max(0, right - now - gap), view.bar.height);
  pen.globalAlpha = 1;
}

/**
 * Paint a mark where tokens are emitted, faint where marks are dense.
 * @param {CanvasRenderingContext2D} pen @param {ClockWindow} view @param {number} from
 * @param {number} at @param {number} share of the lane's height
 */
function paintLanding(pen, view, from, at, share) {
  if (at > view.now * (1 + 1e-9)) return;
  pen.globalAlpha = xAt(view, at) - xAt(view, from) < 3 ? 0.3 : 0.85;
  pen.fillStyle = view.ink.ink;
  const middle = view.bar.top + view.bar.height / 2;
  const height = share * view.height;
  pen.fillRect(xAt(view, at) - 0.75, middle - height / 2, 1.5, height);
  pen.globalAlpha = 1;
}

/**
 * Paint the line at the current time.
 * @param {CanvasRenderingContext2D} pen @param {ClockWindow} view @param {number} height
 */
export function paintPresent(pen, view, height) {
  pen.fillStyle = view.ink.accent;
  pen.fillRect(Math.min(view.width - 2, Math.max(0, xAt(view, view.now) - 1)), 0, 2, height);
}

/** @param {CanvasRenderingContext2D} pen @param {ClockWindow} view @param {LaneClock} clock */
export function paintSpeculative(pen, view, clock) {
  const { recording, parts, seconds } = clock;
  const first = Math.max(0, countUpTo(seconds, view.from) - 1);
  for (let index = first; index < parts.length; index++) {
    const start = seconds[index];
    const end = seconds[index + 1];
    if (start > view.from + view.span) return;
    let from = start;
    for (const { phase, seconds: length } of phasesOf(parts[index])) {
      const to = phase === "draft" || phase === "verify" ? from + length : end;
      paintStretch(pen, view, from, to, view.ink[phase]);
      from = to;
    }
    paintLanding(pen, view, start, end, 0.8);
    paintCount(pen, view, start, end, recording.tokens[index + 1] - recording.tokens[index]);
  }
}

/**
 * Paint the number of a round's tokens, where there is space.
 * @param {CanvasRenderingContext2D} pen @param {ClockWindow} view @param {number} from
 * @param {number} to @param {number} tokens
 */
function paintCount(pen, view, from, to, tokens) {
  if (xAt(view, to) - xAt(view, from) < 26 || to > view.now) return;
  pen.fillStyle = view.ink.soft;
  pen.fillText(`+${tokens}`, xAt(view, to) - 3, view.height - 0.5);
}

/** @param {CanvasRenderingContext2D} pen @param {ClockWindow} view @param {number[]} sums */
export function paintTarget(pen, view, sums) {
  const first = Math.max(0, countUpTo(sums, view.from) - 1);
  for (let index = first; index < sums.length - 1; index++) {
    if (sums[index] > view.from + view.span) return;
    paintStretch(pen, view, sums[index], sums[index + 1], view.ink.verify);
    paintLanding(pen, view, sums[index], sums[index + 1], 0.6);
  }
}

/**
 * Paint the time at a lane's end, once the end is reached.
 * @param {CanvasRenderingContext2D} pen @param {ClockWindow} view @param {number} total
 */
export function paintFinish(pen, view, total) {
  const left = xAt(view, total) + 8;
  if (total === 0 || total > view.now * (1 + 1e-9) || left > view.width - 48) return;
  const time = timeIn(total, view.unit);
  const words = left < 8 ? `done at ${time}` : time;
  pen.fillStyle = view.ink.ink;
  pen.textAlign = "left";
  pen.fillText(words, Math.max(0, left), view.bar.top + 0.75 * view.bar.height);
  pen.textAlign = "right";
}

/** @param {CanvasRenderingContext2D} pen @param {ClockWindow} view */
function paintScale(pen, view) {
  if (view.now === 0 && view.span <= 1e-3) return;
  const step = scaleStep((view.span * 76) / view.width);
  pen.fillStyle = view.ink.soft;
  const factor = view.unit === "s" ? 1 : 1000;
  for (let at = Math.ceil(view.from / step) * step; at <= view.from + view.span; at += step) {
    const left = xAt(view, at);
    pen.fillRect(left, 0, 1, 3);
    const words = `${Number((at * factor).toFixed(3))} ${view.unit}`;
    pen.textAlign = left < 8 ? "left" : left > view.width - 24 ? "right" : "center";
    pen.fillText(words, left, view.scaleHeight - 1);
  }
}

/**
 * The part to show: the whole clock if a token is then wide enough, else a part around the current time.
 * @param {{total: number, now: number, tokens: number, step: number, width: number, element: Element}} given
 *   `step`: the least pixels for one token
 * @returns {ClockWindow}
 */
export function windowAround({ total, now, tokens, step, width, element }) {
  const span = Math.min(total, (total * width) / (step * (tokens || 1))) || 1e-3;
  const from = Math.max(0, Math.min(now - 0.62 * span, total - span));
  const ink = laneInk(element);
  const height = parseFloat(ink.lane);
  const bar = { top: height / 6, height: height / 2 };
  return { from, span, width, height, scaleHeight: parseFloat(ink.scale), bar, now, unit: unitFor(total), ink };
}

/**
 * A canvas prepared for a lane.
 * @param {HTMLCanvasElement} canvas @param {ClockWindow} view @param {number} height
 */
export function penFor(canvas, view, height) {
  const pen = cleanPen(canvas, view.width, height);
  pen.font = view.ink.font;
  pen.textAlign = "right";
  return pen;
}

/**
 * Paint the strip that shows which part of the whole clock is in view.
 * @param {HTMLCanvasElement} strip @param {ClockWindow} view @param {number} total
 */
function paintStrip(strip, view, total) {
  const part = view.span / (total || 1);
  strip.hidden = part > 0.999 || total === 0;
  if (strip.hidden) return;
  const pen = cleanPen(strip, view.width, 6);
  pen.fillStyle = view.ink.line;
  pen.fillRect(0, 1, view.width, 4);
  pen.fillStyle = view.ink.soft;
  const left = (view.from / total) * view.width;
  pen.fillRect(left, 1, Math.max(3, part * view.width), 4);
  pen.fillStyle = view.ink.accent;
  pen.fillRect((view.now / total) * view.width - 1, 0, 2, 6);
}

/** Below the lanes: the scale, and a strip of the whole clock on which a click seeks. */
export class LaneFoot {
  /** @param {(share: number) => void} seek receives the share of the whole time */
  constructor(seek) {
    this.scale = make("canvas", "", { "aria-hidden": "true" });
    this.strip = make("canvas", "strip", { "aria-hidden": "true" });
    this.strip.addEventListener("click", (/** @type {MouseEvent} */ event) =>
      seek(event.offsetX / this.strip.clientWidth),
    );
    this.track = make("div", "track", {}, [this.scale, this.strip]);
  }

  /** @param {ClockWindow} view @param {number} total */
  paint(view, total) {
    paintScale(penFor(this.scale, view, view.scaleHeight), view);
    paintStrip(this.strip, view, total);
  }
}

/** The colours of the current theme. @param {Element} element @returns {Record<string, string>} */
function laneInk(element) {
  const style = getComputedStyle(element);
  /** @param {string} name */
  const read = (name) => style.getPropertyValue(name).trim();
  return {
    draft: read("--seg-d"),
    verify: read("--seg-v"),
    other: read("--seg-o"),
    whole: read("--seg-w"),
    ink: read("--ink"),
    soft: read("--soft"),
    line: read("--line"),
    accent: read("--accent"),
    ahead: read("--ahead"),
    lane: read("--lane-height"),
    scale: read("--scale-height"),
    font: `${0.8125 * readersTextSize()}px ${style.fontFamily}`,
  };
}

/** The legend, for the kinds of rounds present, with or without the target alone. @param {{divided: boolean, undivided: boolean, alone: boolean}} has */
export function laneKey({ divided, undivided, alone }) {
  return [
    ...(divided ? [legendEntry("d", "draft"), legendEntry("v", "target"), legendEntry("o", "other")] : []),
    ...(!divided && alone ? [legendEntry("v", "target")] : []),
    ...(undivided ? [legendEntry("w", "undivided: draft and target are not reported separately")] : []),
    legendEntry("t", "tokens emitted"),
  ];
}
