// @ts-check
// Acceptance: over the rounds so far, and by position in a round.

const ACCEPTANCE_CAPTION =
  "Line: share of the tested candidates accepted so far (α), with its 95 % band. Dashed: the share that their odds gave reason to expect before the draws.";
const PLACES_CAPTION =
  "Bars: share of all rounds in which this place was accepted. Dots: share of those tested, with a 95 % interval. Dashed: α over all places.";

class AcceptanceChart {
  /** @param {Store} store */
  constructor(store) {
    this.frame = new ChartFrame("acceptance", "Acceptance over rounds", { ...PLAIN, right: 66 });
    this.band = this.frame.layer("ch-band", "path");
    this.expected = this.frame.layer("ch-expected", "path");
    this.observed = this.frame.layer("ch-observed", "path");
    this.line = this.frame.layer("ch-cursor", "line");
    this.dot = this.frame.layer("ch-dot", "circle");
    this.names = this.frame.layer("ch-labels");
    this.tally = new Tally(store.recording);
    this.x = linear(0, 1, 0, 1);
    this.y = linear(0, 1, 1, 0);
    say(this.frame.caption, ACCEPTANCE_CAPTION);
    seekOnClick(this.frame, store, (at) => this.roundNear(at));
    this.frame.explain((at) => this.tell(this.roundNear(at)));
  }

  /** @param {Tally} tally */
  fill(tally) {
    this.tally = tally;
    const { left, right, top, bottom } = this.frame.box;
    const points = sampledRounds(tally, right - left);
    const low = acceptanceFloor(tally, points);
    this.x = linear(1, Math.max(2, tally.rounds), left, right);
    this.y = linear(low, 1, bottom, top);
    this.frame.drawLeft(shareTicks(low), this.y);
    this.frame.drawBottom(roundTicks(1, Math.max(1, tally.rounds)), this.x);
    this.frame.svg.classList.toggle("ch-blank", points.length === 0);
    if (points.length) this.paint(tally, points, low);
    return points.length > 0;
  }

  /** @param {Tally} tally @param {number[]} points @param {number} low */
  paint(tally, points, low) {
    /** @param {(round: number) => number} value @returns {[number, number][]} */
    const through = (value) => points.map((i) => [this.x(i), this.y(Math.max(low, value(i)))]);
    const upper = through((i) => bandOf(tally, i)[1]);
    const lower = through((i) => bandOf(tally, i)[0]);
    put(this.band, { d: `${pathThrough([...upper, ...lower.reverse()])}Z` });
    put(this.observed, { d: pathThrough(through((i) => tally.accepted[i] / tally.tested[i])) });
    put(this.expected, { d: pathThrough(through((i) => tally.expected[i] / tally.tested[i])) });
    this.paintNames(tally);
    this.frame.describe(acceptanceWords(tally));
  }

  /** Both lines are named, with their values, where they end. @param {Tally} tally */
  paintNames({ accepted, expected, tested, rounds }) {
    const values = [accepted[rounds] / tested[rounds], expected[rounds] / tested[rounds]];
    const { top, bottom, right } = this.frame.box;
    const places = spread(values.map(this.y), 30, top + 6, bottom - 14);
    refill(this.names, "text", 2).forEach((text, i) => {
      const name = i ? "expected" : "observed";
      put(text, { x: right + 7, y: places[i], class: `ch-of-${name}` });
      stackWords(text, [name, share(values[i])], right + 7);
    });
  }

  /** @param {number} index */
  mark(index) {
    const x = this.x(index + 1);
    const { top, bottom } = this.frame.box;
    const alpha = alphaOf(this.tally, index + 1);
    put(this.line, { x1: x, x2: x, y1: top, y2: bottom });
    this.dot.style.display = alpha === null ? "none" : "";
    if (alpha !== null) put(this.dot, { cx: x, cy: Math.min(bottom, this.y(alpha)), r: 3.5 });
  }

  /** @param {number} at across @returns {number} from 1 */
  roundNear(at) {
    const round = Math.round(1 + (at - this.x(1)) / (this.x(2) - this.x(1)));
    return Math.max(1, Math.min(this.tally.rounds, round));
  }

  /** @param {number} round @returns {Pointed|null} */
  tell(round) {
    const { accepted, expected, tested } = this.tally;
    if (!tested[round]) return null;
    const [low, high] = bandOf(this.tally, round);
    const alpha = share(accepted[round] / tested[round]);
    const first = `up to round ${round}: α ${alpha}, ${accepted[round]} of ${tested[round]} tested`;
    const before = share(expected[round] / tested[round]);
    const second = `95 % band ${share(low)} to ${share(high)}; expected ${before}`;
    return { x: this.x(round), text: `${first}\n${second}` };
  }
}

/** @param {Tally} tally @param {number} rounds */
function bandOf(tally, rounds) {
  return wilson(tally.accepted[rounds], tally.tested[rounds]);
}

/**
 * Rounds to draw, at most one a pixel; the last always.
 * @param {Tally} tally @param {number} pixels
 */
function sampledRounds(tally, pixels) {
  const every = Math.max(1, Math.ceil(tally.rounds / Math.max(1, pixels)));
  const rounds = [];
  for (let i = 1; i < tally.rounds; i += every) if (tally.tested[i]) rounds.push(i);
  if (tally.tested[tally.rounds]) rounds.push(tally.rounds);
  return rounds;
}

/**
 * Where the axis begins: under all but the wild first rounds.
 * @param {Tally} tally @param {number[]} points
 */
function acceptanceFloor(tally, points) {
  const calm = points.filter((i) => tally.tested[i] >= 20);
  const lows = (calm.length ? calm : points).map((i) => bandOf(tally, i)[0]);
  return Math.floor(5 * Math.min(0.6, ...lows)) / 5;
}

/** @param {number} low @returns {Tick[]} */
function shareTicks(low) {
  const step = low < 0.5 ? 0.2 : 0.1;
  const count = Math.round((1 - low) / step);
  return Array.from({ length: count + 1 }, (_, i) => {
    const at = low + i * step;
    return { at, text: at > 0.999 ? "1" : at < 0.001 ? "0" : share(at, 1) };
  });
}

/** Words under each other. @param {Element} text @param {string[]} words @param {number} x */
function stackWords(text, words, x) {
  refill(text, "tspan", words.length).forEach((line, i) => {
    put(line, { x, dy: i ? "1.13em" : 0 });
    say(line, words[i]);
  });
}

/** @param {Tally} tally */
function acceptanceWords(tally) {
  const { accepted, expected, tested, rounds } = tally;
  const [low, high] = bandOf(tally, rounds).map((each) => share(each));
  const alpha = share(accepted[rounds] / tested[rounds]);
  const before = share(expected[rounds] / tested[rounds]);
  return `After ${rounds} rounds α is ${alpha}, 95 % band ${low} to ${high}; expected ${before}.`;
}

class PlacesChart {
  /** @param {Store} store */
  constructor(store) {
    this.frame = new ChartFrame("places", "Acceptance by position", { ...PLAIN, bottom: 44 });
    this.bars = this.frame.layer("ch-bars");
    this.level = this.frame.layer("ch-level", "line");
    this.whiskers = this.frame.layer("ch-whiskers", "path");
    this.dots = this.frame.layer("ch-dots");
    this.fates = this.frame.layer("ch-fates");
    this.names = this.frame.layer("ch-labels");
    this.tally = new Tally(store.recording);
    this.slot = 1;
    this.x = linear(0, 1, 0, 1);
    say(this.frame.caption, PLACES_CAPTION);
    this.frame.explain((at) => this.tell(Math.round((at - this.x(0)) / this.slot)));
  }

  /** @param {Tally} tally */
  fill(tally) {
    this.tally = tally;
    const { left, right, top, bottom } = this.frame.box;
    const { places, alpha } = tally;
    const y = linear(0, 1, bottom, top);
    this.slot = (right - left) / Math.max(places.length, 1);
    this.x = linear(0, 1, left + this.slot / 2, left + 1.5 * this.slot);
    const ticks = places.map((_, i) => ({ at: i, text: String(i + 1) }));
    this.frame.drawLeft(shareTicks(0), y);
    this.frame.drawBottom(thinned(ticks, this.slot), this.x);
    this.frame.svg.classList.toggle("ch-blank", alpha === null);
    if (alpha === null) return false;
    this.paintBars(places, y);
    this.paintDots(places, y);
    put(this.level, { x1: left, x2: right, y1: y(alpha), y2: y(alpha) });
    this.frame.describe(placesWords(tally));
    return true;
  }

  /** @param {PlaceCounts[]} places @param {(share: number) => number} y */
  paintBars(places, y) {
    const width = Math.min(34, 0.6 * this.slot);
    refill(this.bars, "rect", places.length).forEach((bar, i) => {
      const top = y(places[i].accepted / places[i].drafted);
      put(bar, { x: this.x(i) - width / 2, width, y: top, height: y(0) - top, rx: 2 });
    });
  }

  /** @param {PlaceCounts[]} places @param {(share: number) => number} y */
  paintDots(places, y) {
    const known = places
      .map((each, i) => ({ ...each, x: this.x(i) }))
      .filter((each) => each.tested);
    const bands = known.map((each) => whisker(each.x, wilson(each.accepted, each.tested).map(y)));
    put(this.whiskers, { d: bands.join("") });
    refill(this.dots, "circle", known.length).forEach((dot, i) => {
      const { x, accepted, tested } = known[i];
      put(dot, { cx: x, cy: y(accepted / tested), r: 4 });
    });
  }

  /** The fates of the cursor's round, in a row under the axis. @param {number} index */
  mark(index) {
    const { candidates } = this.tally.recording.rounds[index];
    const { bottom } = this.frame.box;
    const [name] = refill(this.names, "text", 1);
    put(name, { x: 0, y: bottom + 37 });
    say(name, "now");
    const width = Math.min(14, this.slot - 4);
    refill(this.fates, "rect", candidates.length).forEach((box, i) => {
      put(box, { x: this.x(i) - width / 2, y: bottom + 28, width, height: 10, rx: 3 });
      put(box, { class: `ch-${candidates[i].verdict}` });
    });
  }

  /** @param {number} place @returns {Pointed|null} */
  tell(place) {
    const counts = this.tally.places[place];
    if (!counts) return null;
    const { drafted, tested, accepted } = counts;
    const ofTested = tested ? `${percent(accepted / tested)} of ${tested} tested` : "never tested";
    const ofAll = `${percent(accepted / drafted)} of ${drafted} drafted`;
    const text = `position ${place + 1}: ${accepted} accepted\n${ofTested}, ${ofAll}`;
    return { x: this.x(place), text };
  }
}

/** A line with a stop at each end. @param {number} x @param {number[]} ends */
function whisker(x, [low, high]) {
  return `M${x} ${low}V${high}M${x - 3.5} ${low}h7M${x - 3.5} ${high}h7`;
}

/** @param {Tally} tally */
function placesWords({ places }) {
  const words = places.map(({ tested, accepted }, i) => {
    return `${i + 1}: ${tested ? percent(accepted / tested) : "none"}`;
  });
  return `Accepted of those tested, by position. ${words.join(", ")}.`;
}
