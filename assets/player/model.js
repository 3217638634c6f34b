// @ts-check
// What the player knows of runs: recordings, and what is on the stage at an event. No DOM in
// this file. Time is counted in events: a candidate appears, the target checks,
// a verdict falls, the discarded fade, the extra token lands.

/**
 * @typedef {"accepted"|"rejected"|"discarded"} Verdict
 * @typedef {"prompt"|"drafted"|"accepted"|"rejected"|"discarded"|"recovered"|"bonus"} Fate
 * @typedef {[text: string, prob: number]} Alternative
 * @typedef {{draft: number, target: number, draft_entropy: number, target_entropy: number,
 *   draft_top: Alternative[], target_top: Alternative[], residual_top: Alternative[]}} Insight
 * @typedef {{text: string, adds?: string, verdict: Verdict, draft: number, target: number,
 *   uniform: number, expected: number, insight: Insight|null}} Candidate
 * @typedef {{text: string, adds?: string, kind: "recovered"|"bonus", target: number,
 *   draft: number|null, uniform: number}} Extra  adds: to the text, where that is not its own
 * @typedef {{candidates: Candidate[], extra: Extra|null, cut: string|null,
 *   times: {draft: number, verify: number, other: number}}} Round
 * @typedef {{cells: Fate[], extra: Fate|null, checking: boolean, complete: boolean}} Scene
 * @typedef {{round: number, place: number}} Spot  place: candidate's index, or their number: the extra
 */

const UNDER_WAY = ["loading", "queued", "running"];

const SPEEDS = ["0.25", "0.5", "1", "2", "4", "true", "instant"];

/** Milliseconds of each kind of event at speed 1. */
const PACE = { draft: 170, check: 120, pass: 420, verdict: 190, discard: 160, land: 300, rest: 260 };

/** @param {Round} round */
function testedOf(round) {
  return round.candidates.filter((each) => each.verdict !== "discarded").length;
}

/** @param {Round} round @returns {number} how many events the round takes */
function eventsOf(round) {
  const drafted = round.candidates.length;
  const tested = testedOf(round);
  return drafted + 1 + tested + (tested < drafted ? 1 : 0) + (round.extra ? 1 : 0);
}

/**
 * What event number `step` (from 1) of a round is.
 * @param {Round} round @param {number} step
 * @returns {"draft"|"check"|"verdict"|"discard"|"land"}
 */
function eventKind(round, step) {
  const drafted = round.candidates.length;
  const tested = testedOf(round);
  if (step <= drafted) return "draft";
  if (step === drafted + 1) return "check";
  if (step <= drafted + 1 + tested) return "verdict";
  if (tested < drafted && step === drafted + 2 + tested) return "discard";
  return "land";
}

/**
 * What is on the stage after `step` events of a round.
 * @param {Round} round @param {number} step @returns {Scene}
 */
function sceneAt(round, step) {
  const drafted = round.candidates.length;
  const tested = testedOf(round);
  const judged = Math.min(tested, Math.max(0, step - drafted - 1));
  const faded = tested === drafted || step >= drafted + 2 + tested;
  const complete = step >= eventsOf(round);
  const cells = round.candidates.slice(0, step).map((each, place) => {
    if (place < judged) return /** @type {Fate} */ (each.verdict);
    return faded && judged === tested && each.verdict === "discarded" ? "discarded" : "drafted";
  });
  return {
    cells,
    extra: complete && round.extra ? round.extra.kind : null,
    checking: step === drafted + 1,
    complete,
  };
}

/** The tokens that a round adds to the text, and what each adds. @param {Round} round @returns {{text: string, fate: Fate, place: number}[]} */
function emittedBy({ candidates, extra }) {
  /** @type {{text: string, fate: Fate, place: number}[]} */
  const tokens = [];
  candidates.forEach((each, place) => {
    if (each.verdict === "accepted") tokens.push({ text: addedBy(each), fate: "accepted", place });
  });
  if (extra) tokens.push({ text: addedBy(extra), fate: extra.kind, place: candidates.length });
  return tokens;
}

/** A character split over tokens is added by the last of them. @param {Candidate|Extra} token */
function addedBy({ text, adds }) {
  return adds ?? text;
}

/** One run, growing by whole rounds. Prefix sums make any cursor cheap to place. */
class Recording {
  /** @param {string} id */
  constructor(id) {
    this.id = id;
    /** @type {string[]} */
    this.prompt = [];
    /** @type {Round[]} */
    this.rounds = [];
    /** Events before each round; the last entry is their total. */
    this.starts = [0];
    /** Emitted tokens before each round; the last entry is their total. */
    this.tokens = [0];
    /** Seconds before each round, record excluded; the last entry is their total. */
    this.seconds = [0];
  }

  get end() {
    return this.starts[this.starts.length - 1];
  }

  /**
   * Rounds number `from` and on. What is already here is left alone, and nothing is taken
   * after a gap, so that sending some rounds twice does no harm.
   * @param {number} from @param {Round[]} items @returns {number} how many were new
   */
  append(from, items) {
    if (from > this.rounds.length) return 0;
    const fresh = items.slice(this.rounds.length - from);
    for (const round of fresh) {
      const last = this.rounds.length;
      this.rounds.push(round);
      this.starts.push(this.starts[last] + eventsOf(round));
      this.tokens.push(this.tokens[last] + emittedBy(round).length);
      const { draft, verify, other } = round.times;
      this.seconds.push(this.seconds[last] + draft + verify + other);
    }
    return fresh.length;
  }

  /**
   * Where a cursor stands: the round under way and the events of it that are over. A cursor
   * at the end of a round belongs to that round, not to the next.
   * @param {number} cursor @returns {{round: number, step: number}}
   */
  place(cursor) {
    if (cursor <= 0 || this.rounds.length === 0) return { round: 0, step: 0 };
    let low = 0;
    let high = this.rounds.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.starts[middle] < cursor) low = middle;
      else high = middle - 1;
    }
    return { round: low, step: cursor - this.starts[low] };
  }

  /**
   * Milliseconds from the event before `cursor + 1` to it, at a speed.
   * @param {number} cursor @param {string} speed
   */
  wait(cursor, speed) {
    const next = this.place(cursor + 1);
    const round = this.rounds[next.round];
    const passed = next.step === round.candidates.length + 2; // what ends the target's pass
    const kind = passed ? "pass" : eventKind(round, next.step);
    if (speed === "true") return 1000 * trueWait(round, kind);
    const rest = next.step === 1 && next.round > 0 ? PACE.rest : 0;
    return (PACE[kind] + rest) / Number(speed);
  }
}

/**
 * Seconds an event really took: candidates share the draft phase, the pass ends with the first
 * verdict, and the others fall together in what is left.
 * @param {Round} round @param {string} kind
 */
function trueWait(round, kind) {
  const { draft, verify, other } = round.times;
  if (kind === "draft") return draft / round.candidates.length;
  if (kind === "check") return round.candidates.length ? 0 : draft;
  const later = eventsOf(round) - round.candidates.length - 2;
  if (kind === "pass") return verify + (later ? 0 : other);
  return other / later;
}
