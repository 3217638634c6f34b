// This file says what happens in one round, counted in events: a candidate appears, the target
// checks, a verdict falls, the discarded candidates fade, the extra token lands. It draws nothing
// itself.

/** @import { Candidate, Extra, Round } from "./payload.d.ts" */

/**
 * @typedef {"prompt"|"drafted"|"accepted"|"rejected"|"discarded"|"recovered"|"bonus"} Fate
 * @typedef {{cells: Fate[], extra: Fate|null, checking: boolean, complete: boolean}} Scene
 * @typedef {{round: number, place: number}} Spot  place: candidate's index, or their number: the extra
 */

/** Milliseconds of each kind of event at speed 1. */
export const PACE = { draft: 170, check: 120, pass: 420, verdict: 190, discard: 160, land: 300, rest: 260 };

/** Milliseconds of a round at the readable pace: about what eyes can follow. */
export const READABLE_ROUND = 333;

/** @param {Round} round */
function testedOf(round) {
  return round.candidates.filter((each) => each.verdict !== "discarded").length;
}

/** @param {Round} round @returns {number} how many events the round takes */
export function eventsOf(round) {
  const drafted = round.candidates.length;
  const tested = testedOf(round);
  return drafted + 1 + tested + (tested < drafted ? 1 : 0) + (round.extra ? 1 : 0);
}

/**
 * What event number `step` (from 1) of a round is.
 * @param {Round} round @param {number} step
 * @returns {"draft"|"check"|"verdict"|"discard"|"land"}
 */
export function eventKind(round, step) {
  const drafted = round.candidates.length;
  const tested = testedOf(round);
  if (step <= drafted) return "draft";
  if (step === drafted + 1) return "check";
  if (step <= drafted + 1 + tested) return "verdict";
  if (tested < drafted && step === drafted + 2 + tested) return "discard";
  return "land";
}

/**
 * What is shown after `step` events of a round.
 * @param {Round} round @param {number} step @returns {Scene}
 */
export function sceneAt(round, step) {
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

/**
 * The tokens that a round adds to the text, and what each adds.
 * @param {Round} round @returns {{text: string, fate: Fate, place: number}[]}
 */
export function emittedBy({ candidates, extra }) {
  /** @type {{text: string, fate: Fate, place: number}[]} */
  const tokens = [];
  candidates.forEach((each, place) => {
    if (each.verdict === "accepted") tokens.push({ text: addedBy(each), fate: "accepted", place });
  });
  if (extra) tokens.push({ text: addedBy(extra), fate: extra.kind, place: candidates.length });
  return tokens;
}

/** The text that a token adds: of a character split over tokens, the last one adds all. @param {Candidate|Extra} token */
function addedBy({ text, adds }) {
  return adds ?? text;
}

/**
 * The seconds that an event really took: candidates share the draft phase, the first verdict ends the
 * target's pass, and the later events share the rest.
 * @param {Round} round @param {string} kind
 */
export function trueWait(round, kind) {
  const { draft, verify, other } = round.times;
  if (kind === "draft") return draft / round.candidates.length;
  if (kind === "check") return round.candidates.length ? 0 : draft;
  const later = eventsOf(round) - round.candidates.length - 2;
  if (kind === "pass") return verify + (later ? 0 : other);
  return other / later;
}

/** @param {Round} round @returns {number} -1 without one */
export function rejectedPlace(round) {
  return round.candidates.findIndex((each) => each.verdict === "rejected");
}
