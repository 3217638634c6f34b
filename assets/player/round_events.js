// This file says what happens in one round, counted in events: a candidate appears, the target
// checks, a verdict falls, the discarded candidates fade, the extra token lands. It draws nothing
// itself.

/** @import { AnyCandidate, AnyExtra, Candidate, Round } from "./payload.d.ts" */

/**
 * @typedef {"prompt"|"drafted"|"accepted"|"rejected"|"discarded"|"recovered"|"bonus"|"untold"} Fate
 * @typedef {{cells: Fate[], extra: Fate|null, last: Fate[], checking: boolean, complete: boolean}} Scene
 *   last: of what lands after the candidates, which is the extra token or what has no told fate
 * @typedef {{round: number, place: number}} Spot  place: candidate's index; what lands after them follows
 */

/** Milliseconds of each kind of event at speed 1. */
export const PACE = { draft: 170, check: 120, pass: 420, verdict: 190, discard: 160, land: 300, rest: 260 };

/** Milliseconds of a round at the readable pace: about what eyes can follow. */
export const READABLE_ROUND = 333;

/** @param {Round} round */
function testedOf(round) {
  return round.candidates.filter((each) => each.verdict !== "discarded").length;
}

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

/** @param {Round} round @returns {number} how many events the round takes */
export function eventsOf(round) {
  if (isBare(round)) return 1;
  const drafted = round.candidates.length;
  const tested = testedOf(round);
  return drafted + 1 + tested + (tested < drafted ? 1 : 0) + (landsLast(round) ? 1 : 0);
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
  const { extra, untold = [] } = round;
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
    extra: complete && extra ? extra.kind : null,
    last: complete ? [...(extra ? [extra.kind] : []), ...untold.map(() => /** @type {Fate} */ ("untold"))] : [],
    checking: step === drafted + 1 && !isBare(round),
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
