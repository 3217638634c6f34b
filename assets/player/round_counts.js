// The counts behind the charts: sums over rounds, accumulated as rounds arrive, and shares computed
// from them. This file draws nothing.

import { judged, tokensIn } from "./round_events.js";
import { isRound, shapeOf } from "./round_shape.js";
import { phasesOf } from "./round_times.js";

/** @import { AnyCandidate, Round } from "./payload.d.ts" */
/** @import { Recording } from "./recording.js" */

/** @typedef {{drafted: number, tested: number, accepted: number}} PlaceCounts */

/** Whether a round has all its tokens. @param {Round} round */
export function isWhole(round) {
  return isRound(round) && round.cut === null;
}

/** Running counts of one recording; entry `i` of a series is the sum before round `i`. */
export class RoundCounts {
  /** @param {Recording} recording */
  constructor(recording) {
    this.recording = recording;
    this.tested = [0];
    this.accepted = [0];
    /** Sums of the expected acceptance (before the draws) over tested candidates. */
    this.expected = [0];
    /** @type {PlaceCounts[]} */
    this.places = [];
    /** Whole rounds by emitted tokens. @type {number[]} */
    this.emitted = [];
    /** Whole rounds by drafted candidates; for a tree, by its depth. @type {number[]} */
    this.drafts = [];
    this.whole = 0;
    /** Seconds of each round. @type {number[]} */
    this.seconds = [];
    /** The number of rounds, not counting an engine's steps without drafts. */
    this.numbered = 0;
    /** Seconds of these rounds, by phase. */
    this.phases = { draft: 0, verify: 0, other: 0, whole: 0 };
    /** Whether the seconds of all rounds are divided into phases. */
    this.divided = true;
  }

  get rounds() {
    return this.tested.length - 1;
  }

  /** accepted / tested over all rounds; null before the first test */
  get alpha() {
    return alphaOf(this, this.rounds);
  }

  /** Expected α: the mean acceptance before the draws; null before the first test */
  get alphaExpected() {
    return this.tested[this.rounds] ? this.expected[this.rounds] / this.tested[this.rounds] : null;
  }

  /** Add the rounds that have arrived since the last call. */
  take() {
    const { rounds } = this.recording;
    for (let i = this.rounds; i < rounds.length; i++) this.add(rounds[i]);
  }

  /** @param {Round} round */
  add(round) {
    const tested = round.candidates.filter((each) => each.verdict !== "discarded");
    const accepted = tested.filter((each) => each.verdict === "accepted").length;
    const odds = tested.reduce((sum, each) => sum + (judged(each)?.expected ?? 0), 0);
    this.tested.push(this.tested[this.rounds] + tested.length);
    this.accepted.push(this.accepted[this.accepted.length - 1] + accepted);
    this.expected.push(this.expected[this.expected.length - 1] + odds);
    if (isRound(round)) this.numbered += 1;
    this.addTimes(round);
    round.candidates.forEach((each, place) => this.addPlace(each, place));
    if (isWhole(round)) this.addWhole(shapeOf(round).steps, tokensIn(round));
  }

  /** @param {Round} round */
  addTimes(round) {
    this.divided &&= !("whole" in round.times);
    this.seconds.push(0);
    for (const { phase, seconds } of phasesOf(round.times)) {
      this.seconds[this.seconds.length - 1] += seconds;
      if (isRound(round)) this.phases[phase] += seconds;
    }
  }

  /** @param {AnyCandidate} candidate @param {number} place */
  addPlace(candidate, place) {
    const counts = (this.places[place] ??= { drafted: 0, tested: 0, accepted: 0 });
    counts.drafted += 1;
    if (candidate.verdict !== "discarded") counts.tested += 1;
    if (candidate.verdict === "accepted") counts.accepted += 1;
  }

  /** @param {number} drafted @param {number} emitted */
  addWhole(drafted, emitted) {
    this.whole += 1;
    this.drafts[drafted] = (this.drafts[drafted] ?? 0) + 1;
    this.emitted[emitted] = (this.emitted[emitted] ?? 0) + 1;
  }
}

/**
 * The number of candidates at each position that could have been accepted. In a run of specviz, these
 * are the tested candidates. An engine counts only accepted candidates. So in an engine's answer,
 * these are the rounds with an accepted candidate at the previous position and, at the first
 * position, the rounds that drafted; the engine's counters and the figures use the same definition.
 * @param {PlaceCounts[]} places @param {boolean} byCounters @returns {number[]}
 */
export function reachedAt(places, byCounters) {
  return places.map(({ tested, drafted }, i) => {
    if (!byCounters) return tested;
    return i ? places[i - 1].accepted : drafted;
  });
}

/**
 * Observed α over the first rounds.
 * @param {RoundCounts} counts @param {number} rounds @returns {number|null}
 */
export function alphaOf(counts, rounds) {
  return counts.tested[rounds] ? counts.accepted[rounds] / counts.tested[rounds] : null;
}

/**
 * The 95 % Wilson score interval of hits / trials.
 * @param {number} hits @param {number} trials @returns {[number, number]}
 */
export function wilson(hits, trials) {
  const z = 1.96;
  const part = hits / trials;
  const weight = 1 + (z * z) / trials;
  const middle = (part + (z * z) / (2 * trials)) / weight;
  const half =
    (z / weight) * Math.sqrt((part * (1 - part)) / trials + (z * z) / (4 * trials * trials));
  return [Math.max(0, middle - half), Math.min(1, middle + half)];
}

/**
 * The share of whole rounds that emitted `size` tokens.
 * @param {RoundCounts} counts @param {number} size
 */
export function emittedShare(counts, size) {
  return counts.whole ? (counts.emitted[size] ?? 0) / counts.whole : 0;
}

/**
 * The share of whole rounds that would emit `size` tokens if each candidate were accepted with
 * probability α (observed), independently. Each round keeps its number of drafted candidates.
 * @param {RoundCounts} counts @param {number} size
 */
export function geometricShare({ alpha, drafts, whole }, size) {
  if (alpha === null || !whole) return 0;
  let sum = 0;
  drafts.forEach((count, drafted) => {
    if (size <= drafted) sum += count * alpha ** (size - 1) * (1 - alpha);
    else if (size === drafted + 1) sum += count * alpha ** drafted;
  });
  return sum / whole;
}

/**
 * The share of rounds that would emit `size` tokens with `gamma` candidates, each accepted with
 * probability `alpha`, independently.
 * @param {number} alpha @param {number} gamma @param {number} size
 */
export function predictedShare(alpha, gamma, size) {
  if (size > gamma + 1) return 0;
  return alpha ** (size - 1) * (size <= gamma ? 1 - alpha : 1);
}

/** A quantile of the values. @param {number[]} values @param {number} part */
export function quantile(values, part) {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? 0;
}

/** The share of the drafting that was discarded. @param {Round} round */
export function wastedShare(round) {
  const accepted = round.candidates.filter((each) => each.verdict === "accepted").length;
  return round.candidates.length ? 1 - accepted / round.candidates.length : 0;
}
