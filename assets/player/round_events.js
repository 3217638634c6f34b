// The events of a round: a candidate appears, the target verifies, a verdict is shown, the discarded
// candidates fade, the extra token appears. This file draws nothing.

import { draftedBy, shapeOf } from "./round_shape.js";

/** @import { AnyCandidate, AnyExtra, Candidate, Round } from "./payload.d.ts" */

/**
 * @typedef {"prompt"|"drafted"|"accepted"|"rejected"|"cut"|"discarded"|"recovered"|"bonus"|"unreported"} Fate
 * @typedef {{cells: Fate[], extra: Fate|null, last: Fate[], checking: boolean, complete: boolean}} Scene
 *   last: fates of what follows the candidates: the extra token, or pieces whose fate is not reported
 * @typedef {{round: number, place: number}} Spot  place: the index of a candidate; the tokens after the candidates have the next indices
 */

/** Milliseconds of each kind of event at speed 1. */
export const PACE = { draft: 170, check: 120, pass: 420, verdict: 190, discard: 160, land: 300, rest: 260 };

/** Milliseconds of a round at the readable pace. */
export const READABLE_ROUND = 333;

/** The candidate with the values that decided its fate; null if an engine does not report them. @param {AnyCandidate|null|undefined} candidate @returns {Candidate|null} */
export function judged(candidate) {
  return candidate && "uniform" in candidate ? candidate : null;
}

/** Whether only the received text is known. @param {Round} round */
function isBare({ candidates, unreported }) {
  return !candidates.length && Boolean(unreported?.length);
}

/** The number of places in a round: candidates and what follows them. @param {Round} round */
export function placesOf({ candidates, extra, unreported = [] }) {
  return candidates.length + (extra ? 1 : 0) + unreported.length;
}

/** The number of events for verdicts. @param {Round} round */
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

/** The event that shows the verdict on the tested candidate with this index. @param {Round} round @param {number} order */
export function verdictAt(round, order) {
  return passedAt(round) + (shapeOf(round).together ? 0 : order);
}

/** @param {Round} round @returns {number} the number of events in the round */
export function eventsOf(round) {
  if (isBare(round)) return 1;
  return passedAt(round) - 1 + verdictsOf(round) + (hasUntested(round) ? 1 : 0) + (landsLast(round) ? 1 : 0);
}

/** @param {Round} round */
function landsLast({ extra, unreported }) {
  return Boolean(extra ?? unreported?.length);
}

/**
 * The kind of event number `step` (from 1) of a round.
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
 * The state shown after `step` events of a round.
 * @param {Round} round @param {number} step @returns {Scene}
 */
export function sceneAt(round, step) {
  const { extra, unreported = [] } = round;
  const { tested, together, steps } = shapeOf(round);
  const fallen = Math.min(verdictsOf(round), Math.max(0, step - steps - 1));
  const shown = new Set(together && fallen ? tested : tested.slice(0, fallen));
  const all = fallen === verdictsOf(round);
  const faded = !hasUntested(round) || step >= passedAt(round) + verdictsOf(round);
  const complete = step >= eventsOf(round);
  const cells = round.candidates.slice(0, draftedBy(round, step)).map(({ verdict }, place) => {
    if (shown.has(place)) return /** @type {Fate} */ (verdict);
    return faded && all && verdict === "discarded" ? "discarded" : "drafted";
  });
  return {
    cells,
    extra: complete && extra ? extra.kind : null,
    last: complete ? [...(extra ? [extra.kind] : []), ...unreported.map(() => /** @type {Fate} */ ("unreported"))] : [],
    checking: step === steps + 1 && !isBare(round),
    complete,
  };
}

/**
 * The tokens that a round adds to the text, and the text of each. A piece from an engine may have
 * several tokens.
 * @param {Round} round @returns {{text: string, fate: Fate, place: number}[]}
 */
export function emittedBy({ candidates, extra, unreported = [] }) {
  /** @type {{text: string, fate: Fate, place: number}[]} */
  const tokens = [];
  candidates.forEach((each, place) => {
    const text = each.verdict === "accepted" ? addedBy(each) : null;
    if (text !== null) tokens.push({ text, fate: "accepted", place });
  });
  const after = candidates.length;
  if (extra) tokens.push({ text: addedBy(extra) ?? "", fate: extra.kind, place: after });
  unreported.forEach(({ text }, order) => tokens.push({ text, fate: "unreported", place: after + order }));
  return tokens;
}

/** The number of tokens that a round adds; of pieces, if an engine does not report tokens. @param {Round} round */
export function tokensIn(round) {
  const { unreported = [] } = round;
  const more = unreported.reduce((sum, { tokens }) => sum + (tokens ?? 1) - 1, 0);
  return emittedBy(round).length + more;
}

/**
 * The text that a token adds. The last token of a split character adds the whole character. Null for a
 * token that an engine does not report.
 * @param {AnyCandidate|AnyExtra} token
 */
function addedBy(token) {
  return "adds" in token ? (token.adds ?? token.text) : token.text;
}

/**
 * The measured seconds of an event: candidates share the draft phase, the first verdict ends the
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
 * The candidate that a recovered token replaces: the last of several tried at that position, or, in
 * block verification, the first that is cut. -1 without one.
 * @param {Round} round @returns {number}
 */
export function failedPlace({ candidates }) {
  const struck = candidates.findLastIndex(({ verdict }) => verdict === "rejected");
  return struck >= 0 ? struck : candidates.findIndex(({ verdict }) => verdict === "cut");
}
