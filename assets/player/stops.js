// This file has the table of what playing can stop for by itself, and finds where that is in a
// recording. It draws nothing itself.

import { share } from "./number_words.js";
import { emittedBy, eventsOf } from "./round_events.js";
import { oddsOf } from "./verdict_rule.js";

/** @import { Round, Run } from "./payload.d.ts" */
/** @import { Recording } from "./recording.js" */
/** @import { Fate, Spot } from "./round_events.js" */

/**
 * A token whose fate has been shown once the cursor is at `event`. `odds` are those of a candidate;
 * `number` is its place in the text, from 1, where it is part of it.
 * @typedef {{event: number, spot: Spot, fate: Fate, odds: number|null, number: number|null}} Outcome
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
    meets: ({ fate }) => fate === "rejected",
    over: () => "No other rejection comes in this run.",
    never: () => "No token of this run was rejected.",
  },
  {
    name: "unlikely",
    key: "u",
    words: ["the next rejection with odds of acceptance under", ""],
    short: (limit) => `until odds under ${share(limit)}`,
    limit: { words: "Odds of acceptance", first: "0.3", min: "0", max: "1", step: "0.05" },
    meets: ({ fate, odds }, limit) => fate === "rejected" && odds !== null && odds < limit,
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

/**
 * What can be stopped for in a round, in its order.
 * @param {Round} round @param {number} index @param {Recording} recording @param {Run} run
 * @returns {Outcome[]}
 */
function outcomesOf(round, index, recording, run) {
  const { candidates, extra } = round;
  const begin = recording.starts[index];
  const numbers = new Map(emittedBy(round).map(({ place }, order) => [place, recording.tokens[index] + order + 1]));
  const tested = candidates.filter(({ verdict }) => verdict !== "discarded");
  /** @type {Outcome[]} */
  const outcomes = tested.map((candidate, place) => ({
    event: begin + candidates.length + 2 + place,
    spot: { round: index, place },
    fate: candidate.verdict,
    odds: oddsOf(candidate, run),
    number: numbers.get(place) ?? null,
  }));
  if (!extra) return outcomes;
  const place = candidates.length;
  const landed = { event: begin + eventsOf(round), spot: { round: index, place }, fate: extra.kind };
  return [...outcomes, { ...landed, odds: null, number: numbers.get(place) ?? null }];
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
