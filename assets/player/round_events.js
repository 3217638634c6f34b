// This file says what happens in one round, counted in events: a candidate appears, the target
// checks, a verdict falls, the discarded candidates fade, the extra token lands. It draws nothing
// itself.

import { draftedBy, shapeOf } from "./round_shape.js";

/** @import { AnyCandidate, AnyExtra, Candidate, Round } from "./payload.d.ts" */

/**
 * @typedef {"prompt"|"drafted"|"accepted"|"rejected"|"cut"|"discarded"|"recovered"|"bonus"|"untold"} Fate
 * @typedef {{cells: Fate[], extra: Fate|null, last: Fate[], checking: boolean, complete: boolean}} Scene
 *   last: of what lands after the candidates, which is the extra token or what has no told fate
 * @typedef {{round: number, place: number}} Spot  place: candidate's index; what lands after them follows
 */

/** Milliseconds of each kind of event at speed 1. */
export const PACE = { draft: 170, check: 120, pass: 420, verdict: 190, discard: 160, land: 300, rest: 260 };

/** Milliseconds of a round at the readable pace: about what eyes can follow. */
export const READABLE_ROUND = 333;

/** The candidate with what decided its fate; null where an engine does not tell that. @param {AnyCandidate|null|undefined} candidate @returns {Candidate|null} */
export function judged(candidate) {
  return candidate && "uniform" in candidate ? candidate : null;
}

/** Whether nothing is known but what came. @param {Round} round */
function isBare({ candidates, untold }) {
  return !candidates.length && Boolean(untold?.length);
}

/** How many places a round has, for candidates and for what lands after them. @param {Round} round */
export function placesOf({ candidates, extra, untold = [] }) {
  return candidates.length + (extra ? 1 : 0) + untold.length;
}

/** How many events verdicts take. @param {Round} round */
function verdictsOf(round) {
  const { tested, together } = shapeOf(round);
  return together ? Math.min(1, tested.length) : tested.length;
}

/** @param {Round} round */
function hasUntested(round) {
  return shapeOf(round).tested.length < round.candidates.length;
}

/** The event of a round that ends the target's pass. @param {Round} round */
export function passedAt(round) {
  return shapeOf(round).steps + 2;
}

/** The event with which the verdict on the tested candidate of this order falls. @param {Round} round @param {number} order */
export function verdictAt(round, order) {
  return passedAt(round) + (shapeOf(round).together ? 0 : order);
}

/** @param {Round} round @returns {number} how many events the round takes */
export function eventsOf(round) {
  if (isBare(round)) return 1;
  return passedAt(round) - 1 + verdictsOf(round) + (hasUntested(round) ? 1 : 0) + (landsLast(round) ? 1 : 0);
}

/** @param {Round} round */
function landsLast({ extra, untold }) {
  return Boolean(extra ?? untold?.length);
}

/**
 * What event number `step` (from 1) of a round is.
 * @param {Round} round @param {number} step
 * @returns {"draft"|"check"|"verdict"|"discard"|"land"}
 */
export function eventKind(round, step) {
  if (isBare(round)) return "land";
  const passed = passedAt(round);
  const verdicts = verdictsOf(round);
  if (step < passed - 1) return "draft";
  if (step === passed - 1) return "check";
  if (step < passed + verdicts) return "verdict";
  if (hasUntested(round) && step === passed + verdicts) return "discard";
  return "land";
}

/**
 * What is shown after `step` events of a round.
 * @param {Round} round @param {number} step @returns {Scene}
 */
export function sceneAt(round, step) {
  const { extra, untold = [] } = round;
  const { tested, together, steps } = shapeOf(round);
  const fallen = Math.min(verdictsOf(round), Math.max(0, step - steps - 1));
  const told = new Set(together && fallen ? tested : tested.slice(0, fallen));
  const all = fallen === verdictsOf(round);
  const faded = !hasUntested(round) || step >= passedAt(round) + verdictsOf(round);
  const complete = step >= eventsOf(round);
  const cells = round.candidates.slice(0, draftedBy(round, step)).map(({ verdict }, place) => {
    if (told.has(place)) return /** @type {Fate} */ (verdict);
    return faded && all && verdict === "discarded" ? "discarded" : "drafted";
  });
  return {
    cells,
    extra: complete && extra ? extra.kind : null,
    last: complete ? [...(extra ? [extra.kind] : []), ...untold.map(() => /** @type {Fate} */ ("untold"))] : [],
    checking: step === steps + 1 && !isBare(round),
    complete,
  };
}

/**
 * The tokens that a round adds to the text, and what each adds; a piece of an engine may be of more
 * than one.
 * @param {Round} round @returns {{text: string, fate: Fate, place: number}[]}
 */
export function emittedBy({ candidates, extra, untold = [] }) {
  /** @type {{text: string, fate: Fate, place: number}[]} */
  const tokens = [];
  candidates.forEach((each, place) => {
    const text = each.verdict === "accepted" ? addedBy(each) : null;
    if (text !== null) tokens.push({ text, fate: "accepted", place });
  });
  const after = candidates.length;
  if (extra) tokens.push({ text: addedBy(extra) ?? "", fate: extra.kind, place: after });
  untold.forEach(({ text }, order) => tokens.push({ text, fate: "untold", place: after + order }));
  return tokens;
}

/** How many tokens a round adds; pieces, where an engine does not tell their tokens. @param {Round} round */
export function tokensIn(round) {
  const { untold = [] } = round;
  const more = untold.reduce((sum, { tokens }) => sum + (tokens ?? 1) - 1, 0);
  return emittedBy(round).length + more;
}

/**
 * The text that a token adds: of a character split over tokens, the last one adds all. Null for one
 * that an engine does not tell.
 * @param {AnyCandidate|AnyExtra} token
 */
function addedBy(token) {
  return "adds" in token ? (token.adds ?? token.text) : token.text;
}

/**
 * The seconds that an event really took: candidates share the draft phase, the first verdict ends the
 * target's pass, and the later events share the rest. Undivided seconds are shared by all events.
 * @param {Round} round @param {string} kind
 */
export function trueWait(round, kind) {
  if ("whole" in round.times) return round.times.whole / eventsOf(round);
  const { draft, verify, other } = round.times;
  const { steps } = shapeOf(round);
  if (kind === "draft") return draft / steps;
  if (kind === "check") return steps ? 0 : draft;
  const later = eventsOf(round) - passedAt(round);
  if (kind === "pass") return verify + (later ? 0 : other);
  return other / later;
}

/**
 * The candidate in whose place a recovered token stands: of several that were tried there the last, of
 * those that are judged together the first that is cut. -1 without one.
 * @param {Round} round @returns {number}
 */
export function failedPlace({ candidates }) {
  const struck = candidates.findLastIndex(({ verdict }) => verdict === "rejected");
  return struck >= 0 ? struck : candidates.findIndex(({ verdict }) => verdict === "cut");
}
