// Chart: the time of a pass by its number of tokens, and the time to read the model's bytes. As long
// as a pass is memory-bound, verifying more tokens is free.

import { ChartFrame, linearScale, MARGINS, pathThrough, reuseChildren, setAttributes } from "./chart_frame.js";
import { legendEntry, setText } from "./elements.js";
import { milliseconds, percent } from "./number_words.js";

/** @import { Pointed } from "./chart_frame.js" */
/** @import { Charts, MeasuredPass, Roofline } from "./payload.d.ts" */
/** @import { RoundCounts } from "./round_counts.js" */

const NAME_BELOW = 15; // pixels from a line to the baseline of its label
const NAME_ABOVE = 6;
const TICKS_EVERY = 4; // tokens

export class RooflineChart {
  constructor() {
    const margins = { ...MARGINS, top: 24 };
    this.frame = new ChartFrame("roofline", "Roofline: passes against memory", margins);
    this.free = this.frame.layer("ch-free", "rect");
    this.limit = this.frame.layer("ch-limit", "line");
    this.floor = this.frame.layer("ch-floor", "line");
    this.draftFloor = this.frame.layer("ch-floor ch-of-draft", "line");
    this.line = this.frame.layer("ch-passes", "path");
    this.whiskers = this.frame.layer("ch-pass-ends", "path");
    this.draftEnds = this.frame.layer("ch-pass-ends ch-of-draft", "path");
    this.dots = this.frame.layer("ch-pass-dots");
    this.names = this.frame.layer("ch-labels");
    setText(this.frame.empty, "This chart appears when the step costs have been measured.");
    /** @type {Roofline|null} */
    this.shown = null;
    this.x = linearScale(0, 1, 0, 1);
    this.y = linearScale(0, 1, 1, 0);
    this.slot = 1;
    this.frame.showNotes((at) => this.noteAt(1 + Math.round((at - this.x(1)) / this.slot)));
  }

  /** @param {RoundCounts} _ @param {Charts|undefined} charts */
  fill(_, charts) {
    this.shown = charts?.roofline ?? null;
    const { shown } = this;
    this.frame.svg.classList.toggle("ch-blank", !shown);
    this.frame.caption.replaceChildren(...captionOf(shown));
    if (shown) this.paint(shown);
    return shown !== null;
  }

  /** @param {Roofline} shown */
  paint(shown) {
    this.paintAxes(shown);
    const { passes, draft } = shown;
    setAttributes(this.line, { d: pathThrough(passes.map((each, i) => [this.x(i + 1), this.y(ms(each))])) });
    setAttributes(this.whiskers, { d: passes.map((each, i) => this.whisker(this.x(i + 1), each)).join("") });
    setAttributes(this.draftEnds, { d: draft ? this.whisker(this.x(1), draft) : "" });
    this.paintDots(shown);
    this.paintLevels(shown);
    this.paintNames(shown);
    this.frame.describe(`${shown.words} ${rooflineWords(shown)}`);
  }

  /** @param {Roofline} shown */
  paintAxes({ passes, draft }) {
    const { left, right } = this.frame.box;
    const all = draft ? [...passes, draft] : passes;
    const highest = Math.max(...all.map((each) => Math.max(ms(each), 1000 * (each.floor ?? 0))));
    this.slot = (right - left) / passes.length;
    this.x = linearScale(1, 2, left + this.slot / 2, left + 1.5 * this.slot);
    this.y = this.frame.drawSteps(1.06 * highest, 5);
    const ticks = passes.map((_, i) => ({ at: i + 1, text: i ? String(i + 1) : "1 token" }));
    this.frame.drawBottom(
      ticks.filter((_, i) => i % TICKS_EVERY === 0),
      this.x,
    );
  }

  /** The path of an error bar, cut off at the top of the chart. @param {number} x @param {MeasuredPass} pass */
  whisker(x, pass) {
    if (pass.error === null) return "";
    const [low, high] = [1 - pass.error, 1 + pass.error].map((share) => this.y(share * ms(pass)));
    const end = Math.max(this.frame.box.top, high);
    return `M${x} ${low}V${end}M${x - 3} ${low}h6${end === high ? `M${x - 3} ${high}h6` : ""}`;
  }

  /** The dot at the run's own γ + 1 tokens is filled; interpolated dots are faint. @param {Roofline} shown */
  paintDots({ passes, draft, gamma, interpolated }) {
    const dots = reuseChildren(this.dots, "circle", passes.length + (draft ? 1 : 0));
    passes.forEach((pass, i) => {
      const kinds = [
        i === gamma ? "ch-own" : "",
        interpolated.includes(i + 1) ? "ch-faint" : "",
      ];
      setAttributes(dots[i], { cx: this.x(i + 1), cy: this.y(ms(pass)), r: 4, class: kinds.join(" ").trim() });
    });
    if (draft) setAttributes(dots[passes.length], { cx: this.x(1), cy: this.y(ms(draft)), r: 4, class: "ch-of-draft" });
  }

  /** Lines at the times to read the bytes and at the limit of "free", and the area of free γ. @param {Roofline} shown */
  paintLevels({ passes, draft, free, limit }) {
    const { left, right, top, bottom } = this.frame.box;
    this.level(this.floor, passes[0].floor, left, right);
    this.level(this.draftFloor, draft?.floor ?? null, left, this.x(1) + this.slot / 2);
    this.level(this.limit, limit * passes[0].seconds, left, right);
    const width = free ? this.slot * (free + 1) : 0;
    setAttributes(this.free, { x: left, width, y: top, height: bottom - top });
  }

  /** @param {Element} line @param {number|null} seconds @param {number} x1 @param {number} x2 */
  level(line, seconds, x1, x2) {
    line.classList.toggle("ch-none", seconds === null);
    const y = this.y(1000 * (seconds ?? 0));
    setAttributes(line, { x1, x2, y1: y, y2: y });
  }

  /** @param {Roofline} shown */
  paintNames({ passes, draft, free }) {
    const { left, right, top, bottom } = this.frame.box;
    const { floor } = passes[0];
    /** @type {[string, Record<string, string|number>][]} */
    const labels = [];
    if (floor !== null) {
      const below = this.y(1000 * floor) + NAME_BELOW;
      const y = below < bottom - 2 ? below : this.y(1000 * floor) - NAME_ABOVE;
      labels.push([`reading the bytes of a step: ${milliseconds(floor)}`, { x: right, y, "text-anchor": "end" }]);
    }
    if (draft) {
      const y = Math.min(this.y(ms(draft)) + 4, bottom - NAME_ABOVE);
      const at = { x: this.x(1) + 9, y, "text-anchor": "start" };
      labels.push([`draft step ${milliseconds(draft.seconds)}`, at]);
    }
    const least = free === passes.length - 1 ? "at least " : "";
    if (free) labels.push([`free ${least}up to γ ${free}`, { x: left, y: top - 8, "text-anchor": "start" }]);
    reuseChildren(this.names, "text", labels.length).forEach((text, i) => {
      setText(text, labels[i][0]);
      setAttributes(text, labels[i][1]);
    });
  }

  /** Mark nothing: the chart is the same in every round. */
  mark() {}

  /** @param {number} tokens @returns {Pointed|null} */
  noteAt(tokens) {
    const { shown } = this;
    const pass = shown?.passes[tokens - 1];
    if (!shown || !pass) return null;
    const lines = [`${tokens} token${tokens === 1 ? "" : "s"}: ${passWords(pass)}`];
    if (tokens > 1) lines.push(`${(pass.seconds / shown.passes[0].seconds).toFixed(2)} target steps`);
    if (shown.interpolated.includes(tokens)) lines.push("not timed: interpolated");
    if (tokens === 1 && shown.draft) lines.push(`draft step: ${passWords(shown.draft)}`);
    return { x: this.x(tokens), text: lines.join("\n") };
  }
}

/** @param {MeasuredPass} pass */
function ms({ seconds }) {
  return 1000 * seconds;
}

/** @param {MeasuredPass} pass */
function passWords({ seconds, error, floor }) {
  const sure = error === null ? "" : ` ± ${percent(error)}`;
  const reached = floor === null ? "" : `, ${percent(floor / seconds)} of the bandwidth`;
  return `${milliseconds(seconds)}${sure}${reached}`;
}

/** @param {Roofline|null} shown @returns {(Node|string)[]} */
function captionOf(shown) {
  const models = [legendEntry("d", "draft"), legendEntry("v", "target")];
  const axes = "The chart shows milliseconds per pass, by number of tokens.";
  if (!shown) return [axes];
  const dashed = shown.passes[0].floor === null ? "" : " Dashed: the time to read the model’s bytes.";
  const lines = `${axes}${dashed} Dotted: ${shown.limit} target steps, up to which a verification counts as free.`;
  return [shown.words, lines, ...models].flatMap((part) => [part, " "]);
}

/** @param {Roofline} shown */
function rooflineWords({ passes, draft }) {
  const last = passes[passes.length - 1];
  const target = `A target step takes ${milliseconds(passes[0].seconds)}, a pass over ${passes.length} tokens ${milliseconds(last.seconds)}.`;
  return draft ? `${target} A draft step takes ${milliseconds(draft.seconds)}.` : target;
}
