// This file has the table of what playing can stop for by itself, and finds where that is in a
// recording. It draws nothing itself.

import { share } from "./number_words.js";
import { emittedBy, eventsOf, failedPlace, judged, verdictAt } from "./round_events.js";
import { shapeOf } from "./round_shape.js";
import { hasOdds, oddsOf } from "./verdict_rule.js";

/** @import { AnyCandidate, Round, Run } from "./payload.d.ts" */
/** @import { Recording } from "./recording.js" */
/** @import { Fate, Spot } from "./round_events.js" */

/**
 * A token whose fate has been shown once the cursor is at `event`. `odds` are those of a candidate;
 * `number` is its place in the text, from 1, where it is part of it.
 * @typedef {{event: number, spot: Spot, fate: Fate, fell: boolean, odds: number|null, number: number|null}} Outcome
 *   fell: it was rejected or, of those that are cut together, is the first
 */

/**
 * A value that the reader chooses: its name, and what may be written.
 * @typedef {{words: string, first: string, min: string, max: string, step: string}} Limit
 */

/**
 * What to stop for. `words` stand around the limit, if there is one.
 * @typedef {{name: string, key: string, words: [string, string], short: (limit: number) => string,
 *   limit: Limit|null, meets: (outcome: Outcome, limit: number) => boolean,
 *   over: (limit: number) => string, never: (limit: number, tokens: number) => string}} Stop
 *   key: may be none; short: while it plays; over: none is left, but there was one; never: the whole run has none
 */

/** A stop that the reader asked for. @typedef {{stop: Stop, limit: number}} Wish */

/** @type {Stop[]} */
export const STOPS = [
  {
    name: "rejection",
    key: "n",
    words: ["the next rejection", ""],
    short: () => "until a rejection",
    limit: null,
    meets: ({ fell }) => fell,
    over: () => "No other rejection comes in this run.",
    never: () => "No token of this run was rejected.",
  },
  {
    name: "unlikely",
    key: "u",
    words: ["the next rejection with odds of acceptance under", ""],
    short: (limit) => `until odds under ${share(limit)}`,
    limit: { words: "Odds of acceptance", first: "0.3", min: "0", max: "1", step: "0.05" },
    meets: ({ fell, odds }, limit) => fell && odds !== null && odds < limit,
    over: (limit) => `No other rejection with odds of acceptance under ${share(limit)} comes in this run.`,
    never: (limit) => `No rejection of this run had odds of acceptance under ${share(limit)}.`,
  },
  {
    name: "bonus",
    key: "b",
    words: ["the next bonus", ""],
    short: () => "until a bonus",
    limit: null,
    meets: ({ fate }) => fate === "bonus",
    over: () => "No other bonus comes in this run.",
    never: () => "This run has no bonus.",
  },
  {
    name: "token",
    key: "",
    words: ["token", "of the text"],
    short: (limit) => `until token ${limit}`,
    limit: { words: "Token of the text, counted after the prompt", first: "20", min: "1", max: "", step: "1" },
    meets: ({ number }, limit) => number === limit,
    over: (limit) => `Token ${limit} is shown already.`,
    never: (limit, tokens) => `The text of this run has only ${tokens} tokens.`,
  },
];

/** The number in the text of each token of a round, by its place; of a piece, that of its first. @param {Round} round @param {number} first */
function numbersOf(round, first) {
  let number = first;
  return new Map(
    emittedBy(round).map(({ place }) => {
      const own = number;
      number += round.untold?.[place - round.candidates.length]?.tokens ?? 1;
      return [place, own];
    }),
  );
}

/**
 * What can be stopped for in a round, in its order.
 * @param {Round} round @param {number} index @param {Recording} recording @param {Run} run
 * @returns {Outcome[]}
 */
function outcomesOf(round, index, recording, run) {
  const { candidates, extra, untold = [] } = round;
  const begin = recording.starts[index];
  const numbers = numbersOf(round, recording.tokens[index] + 1);
  const failed = failedPlace(round);
  /** @type {Outcome[]} */
  const outcomes = shapeOf(round).tested.map((at, order) => ({
    event: begin + verdictAt(round, order),
    spot: { round: index, place: at },
    fate: candidates[at].verdict,
    fell: candidates[at].verdict === "rejected" || at === failed,
    odds: oddsKnown(candidates[at], run),
    number: numbers.get(at) ?? null,
  }));
  const event = begin + eventsOf(round);
  const place = candidates.length;
  /** @type {Fate[]} */
  const last = extra ? [extra.kind] : untold.map(() => "untold");
  return [
    ...outcomes,
    ...last.map((fate, order) => ({
      event, fate, fell: false, odds: null,
      spot: { round: index, place: place + order },
      number: numbers.get(place + order) ?? null,
    })),
  ];
}

/** Null where no odds decided, or an engine does not tell them. @param {AnyCandidate} candidate @param {Run} run */
function oddsKnown(candidate, run) {
  const known = judged(candidate);
  return known && hasOdds(run) ? oddsOf(known, run) : null;
}

/** What can be stopped for in a run: an engine tells no odds, and not every rule has them. @param {Stop} stop @param {Run|undefined} run */
export function isKnownOf(stop, run) {
  return stop.name !== "unlikely" || (!run?.engine && (!run || hasOdds(run)));
}

/**
 * The place in the text of the token at a spot; null if it is not part of it.
 * @param {Recording} recording @param {Run} run @param {Spot} spot @returns {number|null}
 */
export function numberAt(recording, run, spot) {
  const outcomes = outcomesOf(recording.rounds[spot.round], spot.round, recording, run);
  return outcomes.find((outcome) => outcome.spot.place === spot.place)?.number ?? null;
}

/**
 * The first outcome after a cursor that a wish is met; null as long as there is none.
 * @param {Recording} recording @param {Run|undefined} run @param {number} cursor @param {Wish} wish
 * @returns {Outcome|null}
 */
export function nextOutcome(recording, run, cursor, { stop, limit }) {
  if (!run) return null;
  const { rounds } = recording;
  for (let index = recording.place(cursor).round; index < rounds.length; index++) {
    const met = outcomesOf(rounds[index], index, recording, run).find(
      (outcome) => outcome.event > cursor && stop.meets(outcome, limit),
    );
    if (met) return met;
  }
  return null;
}
