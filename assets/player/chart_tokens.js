// Chart: the distribution of tokens per round, compared with the one that would follow if all
// candidates had the same acceptance probability.

import { ChartFrame, legibleTicks, linearScale, MARGINS, reuseChildren, setAttributes } from "./chart_frame.js";
import { setText } from "./elements.js";
import { percent, share } from "./number_words.js";
import { emittedShare, predictedShare, geometricShare, isWhole, RoundCounts } from "./round_counts.js";
import { tokensIn } from "./round_events.js";

/** @import { Store } from "./base_store.js" */
/** @import { Pointed } from "./chart_frame.js" */
/** @import { Charts, Throughput } from "./payload.d.ts" */

export class TokensChart {
  /** @param {Store} store */
  constructor(store) {
    this.frame = new ChartFrame("tokens", "Tokens per round", MARGINS);
    this.bars = this.frame.layer("ch-bars");
    this.marks = this.frame.layer("ch-marks", "path");
    this.pointer = this.frame.layer("ch-pointer");
    this.counts = new RoundCounts(store.recording);
    this.store = store;
    this.geometric = this.sharesOf(this.counts, null);
    this.slot = 1;
    this.x = linearScale(0, 1, 0, 1);
    this.frame.showNotes((at) => this.noteAt(Math.round(1 + (at - this.x(1)) / this.slot)));
  }

  /** @param {RoundCounts} counts @param {Charts|undefined} charts */
  fill(counts, charts) {
    this.counts = counts;
    this.geometric = this.sharesOf(counts, charts?.throughput ?? null);
    const { left, right } = this.frame.box;
    const most = this.mostOf(counts);
    const sizes = Array.from({ length: most }, (_, i) => i + 1);
    this.slot = (right - left) / most;
    this.x = linearScale(1, 2, left + this.slot / 2, left + 1.5 * this.slot);
    const ticks = sizes.map((at) => ({ at, text: String(at) }));
    this.frame.drawBottom(legibleTicks(ticks, this.slot), this.x);
    this.paint(counts, sizes);
    setText(this.frame.caption, tokensCaption(this.geometric));
    this.frame.svg.classList.toggle("ch-blank", counts.whole === 0);
    this.frame.svg.classList.toggle("ch-predicts", this.geometric.predicted);
    this.frame.svg.classList.toggle("ch-stale", this.geometric.stale);
    this.frame.describe(tokensWords(counts, sizes));
    return counts.whole > 0;
  }

  /**
  * The geometric distribution: with this run's γ and observed α or, if another γ is chosen now, with
  * that γ and the expected α.
   * @param {RoundCounts} counts @param {Throughput|null} shown @returns {TokensShares}
   */
  sharesOf(counts, shown) {
    const { alphaExpected } = counts;
    const alpha = this.store.data.run?.has_alpha === false ? null : counts.alpha;
    const gamma = shown?.chosen?.gamma ?? null;
    if (gamma === null || gamma === this.store.data.run?.gamma || alphaExpected === null || alpha === null) {
      const share = (/** @type {number} */ size) => (alpha === null ? 0 : geometricShare(counts, size));
      const drafted = Math.max(0, counts.drafts.length - 1);
      return { gamma: drafted, alpha, predicted: false, stale: false, share };
    }
    const share = (/** @type {number} */ size) => predictedShare(alphaExpected, gamma, size);
    return { gamma, alpha: alphaExpected, predicted: true, stale: Boolean(shown?.stale), share };
  }

  /** The largest number of tokens that has a bar. @param {RoundCounts} counts */
  mostOf(counts) {
    return Math.max(counts.drafts.length, this.geometric.gamma + 1, counts.emitted.length - 1);
  }

  /** @param {RoundCounts} counts @param {number[]} sizes */
  paint(counts, sizes) {
    const { bottom } = this.frame.box;
    const parts = sizes.map((size) => emittedShare(counts, size));
    const shares = sizes.map((size) => this.geometric.share(size));
    const y = this.frame.drawSteps(Math.max(0.1, ...parts, ...shares), 3, (at) => `${Math.round(100 * at)} %`);
    const width = Math.min(44, 0.62 * this.slot);
    reuseChildren(this.bars, "rect", sizes.length).forEach((bar, i) => {
      const left = this.x(sizes[i]) - width / 2;
      setAttributes(bar, { x: left, width, y: y(parts[i]), height: bottom - y(parts[i]), rx: 2 });
      bar.classList.toggle("ch-full", sizes[i] === counts.drafts.length);
    });
    const reach = width / 2 + 4;
    const marks = shares.map((share, i) => `M${this.x(sizes[i]) - reach} ${y(share)}h${2 * reach}`);
    setAttributes(this.marks, { d: this.geometric.alpha === null ? "" : marks.join("") });
  }

  /** @param {number} index */
  mark(index) {
    const round = this.counts.recording.rounds[index];
    const emitted = isWhole(round) ? tokensIn(round) : 0;
    [...this.bars.children].forEach((bar, i) => bar.classList.toggle("ch-now", i + 1 === emitted));
    const [pointer] = reuseChildren(this.pointer, "path", emitted ? 1 : 0);
    const foot = this.frame.box.bottom + 6;
    if (pointer) setAttributes(pointer, { d: `M${this.x(emitted) - 4} ${foot}h8l-4 -5z` });
  }

  /** @param {number} size @returns {Pointed|null} */
  noteAt(size) {
    const { counts } = this;
    const most = this.mostOf(counts);
    if (!counts.whole || size < 1 || size > most) return null;
    const count = `${counts.emitted[size] ?? 0} of ${counts.whole} whole rounds`;
    const part = percent(emittedShare(counts, size));
    const first = `${size} ${size === 1 ? "token" : "tokens"}: ${count}, ${part}`;
    const share = `\ngeometric: ${percent(this.geometric.share(size))}`;
    const text = this.geometric.alpha === null ? first : first + share;
    return { x: this.x(size), text };
  }
}

/**
 * The geometric distribution, for this run or for a γ that was not run.
 * @typedef {{gamma: number, alpha: number|null, predicted: boolean, stale: boolean,
 *   share: (size: number) => number}} TokensShares
 */

/** @param {TokensShares} expected */
function tokensCaption({ alpha, gamma, predicted }) {
  const bars = "Bars: share of whole rounds, by number of emitted tokens. Violet: all candidates were accepted.";
  if (alpha === null) return "Bars: share of whole rounds, by number of emitted tokens.";
  const what = predicted
    ? `the shares at γ ${gamma}, which was not run, with the expected α of ${share(alpha)} at every position (geometric, extrapolated).`
    : `the expected shares if α were ${share(alpha)} at every position (geometric distribution).`;
  return `${bars} Short lines: ${what}`;
}

/** @param {RoundCounts} counts @param {number[]} sizes */
function tokensWords(counts, sizes) {
  const parts = sizes.map((size) => `${size}: ${counts.emitted[size] ?? 0}`);
  return `Of ${counts.whole} whole rounds, by tokens emitted. ${parts.join(", ")}.`;
}
