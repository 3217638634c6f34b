// @ts-check
// What rounds came to: how many tokens each emitted, and where its time went.

const WINDOW = 60; // rounds in view of the time chart
const LEAST_SLOTS = 24; // so that few rounds do not make fat bars

class TokensChart {
  /** @param {Store} store */
  constructor(store) {
    this.frame = new ChartFrame("tokens", "Tokens a round", PLAIN);
    this.bars = this.frame.layer("ch-bars");
    this.law = this.frame.layer("ch-law", "path");
    this.pointer = this.frame.layer("ch-pointer");
    this.tally = new Tally(store.recording);
    this.store = store;
    this.told = this.lawOf(this.tally, null);
    this.slot = 1;
    this.x = linear(0, 1, 0, 1);
    this.frame.explain((at) => this.tell(Math.round(1 + (at - this.x(1)) / this.slot)));
  }

  /** @param {Tally} tally @param {any} charts */
  fill(tally, charts) {
    this.tally = tally;
    this.told = this.lawOf(tally, charts?.throughput ?? null);
    const { left, right } = this.frame.box;
    const most = Math.max(tally.drafts.length, this.told.gamma + 1);
    const sizes = Array.from({ length: most }, (_, i) => i + 1);
    this.slot = (right - left) / most;
    this.x = linear(1, 2, left + this.slot / 2, left + 1.5 * this.slot);
    const ticks = sizes.map((at) => ({ at, text: String(at) }));
    this.frame.drawBottom(thinned(ticks, this.slot), this.x);
    this.paint(tally, sizes);
    say(this.frame.caption, tokensCaption(this.told));
    this.frame.svg.classList.toggle("ch-blank", tally.whole === 0);
    this.frame.svg.classList.toggle("ch-foretells", this.told.foretold);
    this.frame.svg.classList.toggle("ch-stale", this.told.stale);
    this.frame.describe(tokensWords(tally, sizes));
    return tally.whole > 0;
  }

  /**
   * Of this run at its observed α; where another γ is chosen now, of that one at the expected α.
   * @param {Tally} tally @param {Throughput|null} shown @returns {TokensLaw}
   */
  lawOf(tally, shown) {
    const { alpha, alphaExpected } = tally;
    const gamma = shown?.chosen?.gamma ?? null;
    if (gamma === null || gamma === this.store.data.run?.gamma || alphaExpected === null) {
      const share = (/** @type {number} */ size) => geometricShare(tally, size);
      const drafted = Math.max(0, tally.drafts.length - 1);
      return { gamma: drafted, alpha, foretold: false, stale: false, share };
    }
    const share = (/** @type {number} */ size) => foretoldShare(alphaExpected, gamma, size);
    return { gamma, alpha: alphaExpected, foretold: true, stale: Boolean(shown?.stale), share };
  }

  /** @param {Tally} tally @param {number[]} sizes */
  paint(tally, sizes) {
    const { top, bottom } = this.frame.box;
    const parts = sizes.map((size) => emittedShare(tally, size));
    const laws = sizes.map((size) => this.told.share(size));
    const steps = roundSteps(Math.max(0.1, ...parts, ...laws), 3);
    const y = linear(0, steps[steps.length - 1], bottom, top);
    this.frame.drawLeft(
      steps.map((at) => ({ at, text: `${Math.round(100 * at)} %` })),
      y,
    );
    const width = Math.min(44, 0.62 * this.slot);
    refill(this.bars, "rect", sizes.length).forEach((bar, i) => {
      const left = this.x(sizes[i]) - width / 2;
      put(bar, { x: left, width, y: y(parts[i]), height: bottom - y(parts[i]), rx: 2 });
      bar.classList.toggle("ch-full", sizes[i] === tally.drafts.length);
    });
    const reach = width / 2 + 4;
    const marks = laws.map((law, i) => `M${this.x(sizes[i]) - reach} ${y(law)}h${2 * reach}`);
    put(this.law, { d: marks.join("") });
  }

  /** @param {number} index */
  mark(index) {
    const round = this.tally.recording.rounds[index];
    const emitted = round.cut === null ? emittedBy(round).length : 0;
    [...this.bars.children].forEach((bar, i) => bar.classList.toggle("ch-now", i + 1 === emitted));
    const [pointer] = refill(this.pointer, "path", emitted ? 1 : 0);
    const foot = this.frame.box.bottom + 6;
    if (pointer) put(pointer, { d: `M${this.x(emitted) - 4} ${foot}h8l-4 -5z` });
  }

  /** @param {number} size @returns {Pointed|null} */
  tell(size) {
    const { tally } = this;
    const most = Math.max(tally.drafts.length, this.told.gamma + 1);
    if (!tally.whole || size < 1 || size > most) return null;
    const count = `${tally.emitted[size] ?? 0} of ${tally.whole} whole rounds`;
    const part = percent(emittedShare(tally, size));
    const first = `${size} ${size === 1 ? "token" : "tokens"}: ${count}, ${part}`;
    const text = `${first}\ngeometric law: ${percent(this.told.share(size))}`;
    return { x: this.x(size), text };
  }
}

/**
 * The geometric law, of this run or of a γ that was not run.
 * @typedef {{gamma: number, alpha: number|null, foretold: boolean, stale: boolean,
 *   share: (size: number) => number}} TokensLaw
 */

/** @param {TokensLaw} law */
function tokensCaption({ alpha, gamma, foretold }) {
  const bars = "Bars: share of whole rounds that brought so many tokens; violet: every candidate accepted.";
  const of = alpha === null ? "" : ` of ${share(alpha)}`;
  const law = foretold
    ? `at γ ${gamma}, which was not run, the expected α${of} at every place would give (geometric law, extrapolated).`
    : `the same α${of} at every place would give (the geometric law).`;
  return `${bars} Short lines: what ${law}`;
}

/** @param {Tally} tally @param {number[]} sizes */
function tokensWords(tally, sizes) {
  const counts = sizes.map((size) => `${size}: ${tally.emitted[size] ?? 0}`);
  return `Of ${tally.whole} whole rounds, by tokens emitted. ${counts.join(", ")}.`;
}

class TimesChart {
  /** @param {Store} store */
  constructor(store) {
    this.frame = new ChartFrame("times", "Time a round", PLAIN);
    this.now = this.frame.layer("ch-now-slot", "rect");
    this.layers = Object.fromEntries(
      ["draft", "verify", "other", "waste", "over"].map((name) => [
        name,
        this.frame.layer(`ch-time-${name}`, "path"),
      ]),
    );
    this.layers.waste.style.fill = hatch(this.frame);
    this.tally = new Tally(store.recording);
    this.first = 0; // round in view
    this.slot = 1;
    this.y = linear(0, 1, 1, 0);
    this.frame.caption.append(...timesCaption());
    seekOnClick(this.frame, store, (at) => this.indexAt(at) + 1);
    this.frame.explain((at) => this.tell(this.indexAt(at)));
  }

  /** The left edge of a round's slot. @param {number} index */
  x(index) {
    return this.frame.box.left + (index - this.first) * this.slot;
  }

  /** @param {number} at across */
  indexAt(at) {
    const index = this.first + Math.floor((at - this.frame.box.left) / this.slot);
    return Math.max(0, Math.min(this.tally.rounds - 1, index));
  }

  /** @param {Tally} tally */
  fill(tally) {
    this.tally = tally;
    this.first = this.startFor(this.first + WINDOW / 2);
    const { left, right, top, bottom } = this.frame.box;
    this.slot = (right - left) / Math.min(WINDOW, Math.max(LEAST_SLOTS, tally.rounds));
    const usual = tally.rounds ? 1000 * quantile(tally.seconds, 0.95) : 5;
    const steps = roundSteps(Math.max(usual * 1.03, 0.1), 5);
    this.y = linear(0, steps[steps.length - 1], bottom, top);
    this.frame.drawLeft(
      steps.map((at) => ({ at, text: shortNumber(at) })),
      this.y,
    );
    this.frame.svg.classList.toggle("ch-blank", tally.rounds === 0);
    if (tally.rounds) this.paint();
    return tally.rounds > 0;
  }

  paint() {
    const rounds = this.tally.recording.rounds.slice(this.first, this.first + WINDOW);
    const last = this.first + rounds.length;
    const paths = { draft: "", verify: "", other: "", waste: "", over: "" };
    rounds.forEach((round, i) => this.addBar(paths, round, this.x(this.first + i)));
    for (const [name, d] of Object.entries(paths)) put(this.layers[name], { d });
    this.frame.drawBottom(roundTicks(this.first + 1, last), (at) => this.x(at - 0.5));
    this.frame.describe(timesWords(this.tally));
  }

  /**
   * What does not fit is cut off under a mark.
   * @param {Record<string, string>} paths @param {Round} round @param {number} x
   */
  addBar(paths, round, x) {
    const [left, width, top] = [x + 0.14 * this.slot, 0.72 * this.slot, this.frame.box.top];
    const edges = [0, ...timeEnds(round)].map((ms) => Math.max(top, this.y(ms)));
    ["draft", "verify", "other"].forEach((name, i) => {
      paths[name] += boxPath(left, edges[i + 1], width, edges[i] - edges[i + 1]);
    });
    paths.waste += boxPath(left, edges[1], width, (edges[0] - edges[1]) * wastedShare(round));
    const fits = this.y(timeEnds(round)[2]) >= top;
    if (!fits) paths.over += `M${left} ${top - 2}h${width}l${-width / 2} -5z`;
  }

  /** The first round of a window round another. @param {number} index */
  startFor(index) {
    return Math.max(0, Math.min(this.tally.rounds - WINDOW, index - WINDOW / 2));
  }

  /** @param {number} index */
  mark(index) {
    const first = this.startFor(index);
    if (first !== this.first) {
      this.first = first;
      this.paint();
    }
    const { top, bottom } = this.frame.box;
    put(this.now, { x: this.x(index), width: this.slot, y: top, height: bottom - top });
  }

  /** @param {number} index @returns {Pointed|null} */
  tell(index) {
    const round = this.tally.recording.rounds[index];
    if (!round) return null;
    const { draft, verify, other } = round.times;
    const lines = [
      `round ${index + 1}: ${milliseconds(draft + verify + other)}`,
      `draft ${milliseconds(draft)}, target ${milliseconds(verify)}, other ${milliseconds(other)}`,
      `${percent(wastedShare(round))} of the drafting thrown away`,
    ];
    return { x: this.x(index + 0.5), text: lines.join("\n") };
  }
}

/** Where each kind of time ends, in milliseconds. @param {Round} round */
function timeEnds({ times }) {
  const { draft, verify, other } = times;
  return [draft, draft + verify, draft + verify + other].map((seconds) => 1000 * seconds);
}

/** @returns {Node[]} */
function timesCaption() {
  const parts = [
    keyEntry("d", "draft"),
    keyEntry("v", "target"),
    keyEntry("o", "other"),
    keyEntry("d wasted", "drafting that was thrown away"),
  ];
  return ["Milliseconds.", ...parts].flatMap((part) => [part, " "]);
}

let hatchesMade = 0;

/** @param {ChartFrame} frame @returns {string} a fill of slanted lines */
function hatch(frame) {
  const id = `sv-hatch-${(hatchesMade += 1)}`;
  const line = draw("path", { d: "M-1 1l2 -2M0 5l5 -5M4 6l2 -2", class: "ch-hatch" });
  const size = { width: 5, height: 5, patternUnits: "userSpaceOnUse" };
  frame.svg.prepend(draw("defs", {}, [draw("pattern", { id, ...size }, [line])]));
  return `url(#${id})`;
}

/** @param {Tally} tally */
function timesWords({ phases, rounds }) {
  const [draft, verify, other] = phases.map((seconds) => milliseconds(seconds / rounds));
  return `On average a round took ${draft} to draft, ${verify} for the target to check and ${other} besides.`;
}
