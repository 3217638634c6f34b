// Chart: the time of each round, divided into draft, target and other.

import { boxPath, ChartFrame, linearScale, MARGINS, roundTicks, seekOnClick, setAttributes } from "./chart_frame.js";
import { legendEntry, makeSvg } from "./elements.js";
import { milliseconds, percent } from "./number_words.js";
import { quantile, RoundCounts, wastedShare } from "./round_counts.js";
import { nameOf, numberOf } from "./round_shape.js";
import { phasesOf, secondsOf } from "./round_times.js";

/** @import { Store } from "./base_store.js" */
/** @import { Pointed } from "./chart_frame.js" */
/** @import { Round } from "./payload.d.ts" */

const WINDOW = 60; // rounds in view
const LEAST_SLOTS = 24; // with fewer, the bars of a few rounds would be very wide

export class TimesChart {
  /** @param {Store} store */
  constructor(store) {
    this.frame = new ChartFrame("times", "Time per round", MARGINS);
    this.now = this.frame.layer("ch-now-slot", "rect");
    this.layers = Object.fromEntries(
      ["draft", "verify", "other", "whole", "waste", "over"].map((name) => [
        name,
        this.frame.layer(`ch-time-${name}`, "path"),
      ]),
    );
    this.layers.waste.style.fill = hatch(this.frame);
    this.counts = new RoundCounts(store.recording);
    this.first = 0; // the index of the first round in view
    this.slot = 1;
    this.y = linearScale(0, 1, 1, 0);
    this.divided = true; // whether the caption shows phases
    this.frame.caption.append(...timesCaption(true));
    seekOnClick(this.frame, store, (at) => this.indexAt(at) + 1);
    this.frame.showNotes((at) => this.noteAt(this.indexAt(at)));
  }

  /** The left edge of a round's bar. @param {number} index */
  x(index) {
    return this.frame.box.left + (index - this.first) * this.slot;
  }

  /** @param {number} at across */
  indexAt(at) {
    const index = this.first + Math.floor((at - this.frame.box.left) / this.slot);
    return Math.max(0, Math.min(this.counts.rounds - 1, index));
  }

  /** @param {RoundCounts} counts */
  fill(counts) {
    this.counts = counts;
    this.first = this.startFor(this.first + WINDOW / 2);
    const { left, right } = this.frame.box;
    this.slot = (right - left) / Math.min(WINDOW, Math.max(LEAST_SLOTS, counts.rounds));
    const usual = counts.rounds ? 1000 * quantile(counts.seconds, 0.95) : 5;
    this.y = this.frame.drawSteps(Math.max(usual * 1.03, 0.1), 5);
    this.frame.svg.classList.toggle("ch-blank", counts.rounds === 0);
    if (counts.rounds) this.paint();
    this.showCaption(counts.divided);
    return counts.rounds > 0;
  }

  /** @param {boolean} divided */
  showCaption(divided) {
    if (divided === this.divided) return;
    this.divided = divided;
    this.frame.caption.replaceChildren(...timesCaption(divided));
  }

  paint() {
    const rounds = this.counts.recording.rounds.slice(this.first, this.first + WINDOW);
    const paths = { draft: "", verify: "", other: "", whole: "", waste: "", over: "" };
    rounds.forEach((round, i) => this.addBar(paths, round, this.x(this.first + i)));
    for (const [name, d] of Object.entries(paths)) setAttributes(this.layers[name], { d });
    this.paintNumbers(rounds);
    this.frame.describe(timesWords(this.counts));
  }

  /** The numbers of the first and the last round in view. @param {Round[]} rounds */
  paintNumbers(rounds) {
    const known = rounds.flatMap((round, i) => {
      const number = numberOf(round, this.first + i);
      return number === null ? [] : [{ number, x: this.x(this.first + i + 0.5) }];
    });
    const [first, last] = [known[0], known[known.length - 1]];
    const ticks = first ? roundTicks(first.number, last.number) : [];
    this.frame.drawBottom(ticks, (number) => (number === first.number ? first.x : last.x));
  }

  /**
  * Add a round's bar to the paths. A bar that is too long is cut off and marked.
   * @param {Record<string, string>} paths @param {Round} round @param {number} x
   */
  addBar(paths, round, x) {
    const [left, width, top] = [x + 0.14 * this.slot, 0.72 * this.slot, this.frame.box.top];
    let from = this.y(0);
    let ms = 0;
    for (const { phase, seconds } of phasesOf(round.times)) {
      ms += 1000 * seconds;
      const to = Math.max(top, this.y(ms));
      paths[phase] += boxPath(left, to, width, from - to);
      if (phase === "draft") paths.waste += boxPath(left, to, width, (from - to) * wastedShare(round));
      from = to;
    }
    const fits = this.y(ms) >= top;
    if (!fits) paths.over += `M${left} ${top - 2}h${width}l${-width / 2} -5z`;
  }

  /** The first round in view when the given round is in the middle. @param {number} index */
  startFor(index) {
    return Math.max(0, Math.min(this.counts.rounds - WINDOW, index - WINDOW / 2));
  }

  /** @param {number} index */
  mark(index) {
    const first = this.startFor(index);
    if (first !== this.first) {
      this.first = first;
      this.paint();
    }
    const { top, bottom } = this.frame.box;
    setAttributes(this.now, { x: this.x(index), width: this.slot, y: top, height: bottom - top });
  }

  /** @param {number} index @returns {Pointed|null} */
  noteAt(index) {
    const round = this.counts.recording.rounds[index];
    if (!round) return null;
    const lines = [`${nameOf(round, index)}: ${milliseconds(secondsOf(round.times))}`, ...partWords(round)];
    return { x: this.x(index + 0.5), text: lines.join("\n") };
  }
}

/** The tooltip of a round: its time by phase. @param {Round} round */
function partWords(round) {
  const { times } = round;
  if ("whole" in times) return ["the engine does not report its phases"];
  const { draft, verify, other } = times;
  return [
    `draft ${milliseconds(draft)}, target ${milliseconds(verify)}, other ${milliseconds(other)}`,
    `${percent(wastedShare(round))} of the drafting discarded`,
  ];
}

/** @param {boolean} divided @returns {(Node|string)[]} */
function timesCaption(divided) {
  if (!divided) return ["Milliseconds between two arrivals. ", legendEntry("w", "undivided: the phases are not reported")];
  const parts = [
    legendEntry("d", "draft"),
    legendEntry("v", "target"),
    legendEntry("o", "other"),
    legendEntry("d wasted", "drafting of discarded candidates"),
  ];
  return ["Milliseconds.", ...parts].flatMap((part) => [part, " "]);
}

let hatchesMade = 0;

/** @param {ChartFrame} frame @returns {string} a hatched fill */
function hatch(frame) {
  const id = `sv-hatch-${(hatchesMade += 1)}`;
  const line = makeSvg("path", { d: "M-1 1l2 -2M0 5l5 -5M4 6l2 -2", class: "ch-hatch" });
  const size = { width: 5, height: 5, patternUnits: "userSpaceOnUse" };
  frame.svg.prepend(makeSvg("defs", {}, [makeSvg("pattern", { id, ...size }, [line])]));
  return `url(#${id})`;
}

/** @param {RoundCounts} counts */
function timesWords({ phases, numbered, divided }) {
  /** @param {number} seconds */
  const mean = (seconds) => milliseconds(seconds / (numbered || 1));
  if (!divided) return `On average a round took ${mean(phases.whole)}.`;
  const [draft, verify, other] = [mean(phases.draft), mean(phases.verify), mean(phases.other)];
  return `On average a round took ${draft} to draft, ${verify} to verify and ${other} for the rest.`;
}
