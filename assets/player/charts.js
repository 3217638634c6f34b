// @ts-check
// The live charts. Each is built once and updated: `fill` when there is more to show, at most
// twice a second while a run decodes, which needs the processor itself; `mark` when the cursor
// moves. Figures are those of all rounds received.

/**
 * @typedef {{gammas: number[], ideal: number[], forecast: number[]|null, extrapolated: boolean,
 *   stale: boolean, target: number, measured_target: number|null, doubt: string|null,
 *   chosen: {gamma: number, rate: number|null}|null, points: RunPoint[]}} Throughput
 * @typedef {{gamma: number, rate: number, label: string, current: boolean,
 *   partial: boolean, few: boolean}} RunPoint
 * @typedef {{frame: ChartFrame, fill: (tally: Tally, charts: any) => boolean,
 *   mark: (round: number) => void}} Chart  `fill` tells whether there was anything to show
 */

const FILL_EVERY = 500; // milliseconds
const PLAIN = { left: 36, right: 14, top: 14, bottom: 26 };

/** @param {Store} store */
function makeCharts(store) {
  return new Charts(store);
}

class Charts {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.tally = new Tally(store.recording);
    /** What was last drawn of the payload. @type {any} */
    this.drawn = null;
    /** @type {number|null} */
    this.marked = null;
    /** @type {Chart[]} */
    this.all = [
      new ThroughputChart(store),
      new AcceptanceChart(store),
      new TokensChart(store),
      new PlacesChart(store),
      new TimesChart(store),
    ];
    const cards = make(
      "div",
      "ch-cards",
      {},
      this.all.map((each) => each.frame.element),
    );
    const names = { "data-testid": "charts", "aria-label": "Charts" };
    this.element = make("section", "ch", names, [cards]);
    this.pace = new Pace(FILL_EVERY, () => store.changed());
    this.watcher = new ResizeObserver((entries) => this.resize(entries));
    for (const { frame } of this.all) this.watcher.observe(frame.plot);
  }

  /** @param {ResizeObserverEntry[]} entries */
  resize(entries) {
    for (const { target, contentRect } of entries) {
      const chart = this.all.find((each) => each.frame.plot === target);
      chart?.frame.resize(Math.round(contentRect.width));
    }
    this.pace.hurry();
  }

  /** Those that have a place on the page. */
  get visible() {
    return this.all.filter((each) => each.frame.width > 0);
  }

  draw() {
    const { recording, data, cursor } = this.store;
    if (this.tally.recording !== recording) {
      this.tally = new Tally(recording);
      this.pace.hurry();
    }
    const fresh = recording.rounds.length > this.tally.rounds || data.charts !== this.drawn;
    if (this.pace.lets(fresh)) this.fill();
    this.mark(Math.min(lastWhole(recording, cursor), this.tally.rounds - 1));
  }

  fill() {
    this.tally.take();
    this.drawn = this.store.data.charts;
    for (const chart of this.visible) {
      chart.frame.empty.hidden = chart.fill(this.tally, this.drawn);
    }
    this.marked = null;
  }

  /** What is in view moves with the cursor, its marks stay hidden. @param {number} round -1 before the first is over */
  mark(round) {
    if (round === this.marked) return;
    this.marked = round;
    this.element.classList.toggle("ch-unmarked", round < 0);
    if (!this.tally.rounds) return;
    for (const chart of this.visible) chart.mark(Math.max(0, round));
  }

  close() {
    this.watcher.disconnect();
    this.pace.close();
  }
}

/** Lets work through every so often, and calls back for what had to wait. */
class Pace {
  /** @param {number} every milliseconds @param {() => void} again */
  constructor(every, again) {
    this.every = every;
    this.again = again;
    this.next = 0;
    this.timer = 0;
    this.urgent = true;
  }

  /** @param {boolean} wanted @returns {boolean} whether to do it now */
  lets(wanted) {
    const left = this.next - performance.now();
    if (!this.urgent && (!wanted || left > 0)) {
      if (wanted) this.comeBack(left);
      return false;
    }
    this.next = performance.now() + this.every;
    this.urgent = false;
    return true;
  }

  /** @param {number} left milliseconds */
  comeBack(left) {
    this.timer ||= window.setTimeout(() => {
      this.timer = 0;
      this.again();
    }, left);
  }

  hurry() {
    this.urgent = true;
    this.again();
  }

  close() {
    clearTimeout(this.timer);
  }
}

/**
 * The last round that is over at a cursor, so that nothing is told too early; -1 before the first.
 * @param {Recording} recording @param {number} cursor
 */
function lastWhole(recording, cursor) {
  const { round } = recording.place(cursor);
  return recording.rounds.length && cursor >= recording.starts[round + 1] ? round : round - 1;
}

/**
 * A press on a chart over rounds takes the cursor to the end of that round.
 * @param {ChartFrame} frame @param {Store} store @param {(at: number) => number} roundAt from 1
 */
function seekOnClick(frame, store, roundAt) {
  frame.svg.classList.add("ch-seeks");
  frame.svg.addEventListener("click", (/** @type {MouseEvent} */ event) => {
    const round = roundAt(event.clientX - frame.svg.getBoundingClientRect().left);
    const { starts } = store.recording;
    if (round >= 1 && round < starts.length) store.seek(starts[round]);
  });
}

/** @param {number} first @param {number} last @returns {Tick[]} */
function roundTicks(first, last) {
  const ends = [
    { at: first, text: `round ${first}` },
    { at: last, text: String(last) },
  ];
  return last > first ? ends : ends.slice(0, 1);
}
