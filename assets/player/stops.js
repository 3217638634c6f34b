// The events that playing can stop at ("play until"), and where they are in a recording. This file
// draws nothing.

import { share } from "./number_words.js";
import { emittedBy, eventsOf, failedPlace, judged, verdictAt } from "./round_events.js";
import { shapeOf } from "./round_shape.js";
import { hasOdds, oddsOf } from "./verdict_rule.js";

/** @import { AnyCandidate, Round, Run } from "./payload.d.ts" */
/** @import { Recording } from "./recording.js" */
/** @import { Fate, Spot } from "./round_events.js" */

/**
 * A token whose fate is shown once the cursor is at `event`. `odds` is a candidate's acceptance probability;
 * `number` is its place in the text, from 1, if it is part of the text.
 * @typedef {{event: number, spot: Spot, fate: Fate, fell: boolean, odds: number|null, number: number|null}} Outcome
 *   fell: the token was rejected, or is the first token that block verification cut
 */

/**
 * A value that the user chooses: its name and its input range.
 * @typedef {{words: string, first: string, min: string, max: string, step: string}} Limit
 */

/**
 * A kind of stop. `words` surround the limit, if there is one.
 * @typedef {{name: string, key: string, words: [string, string], short: (limit: number) => string,
 *   limit: Limit|null, meets: (outcome: Outcome, limit: number) => boolean,
 *   over: (limit: number) => string, never: (limit: number, tokens: number) => string}} Stop
 *   key: the shortcut, may be empty; short: the label during playback; over: the message if only
 *   earlier outcomes match; never: the message if no outcome of the run matches
 */

/** A stop that the user requested. @typedef {{stop: Stop, limit: number}} Wish */

/** @type {Stop[]} */
export const STOPS = [
  {
    name: "rejection",
    key: "n",
    words: ["the next rejection", ""],
    short: () => "until a rejection",
    limit: null,
    meets: ({ fell }) => fell,
    over: () => "There are no more rejections in this run.",
    never: () => "This run has no rejections.",
  },
  {
    name: "unlikely",
    key: "u",
    words: ["the next rejection with acceptance probability under", ""],
    short: (limit) => `until probability under ${share(limit)}`,
    limit: { words: "Acceptance probability", first: "0.3", min: "0", max: "1", step: "0.05" },
    meets: ({ fell, odds }, limit) => fell && odds !== null && odds < limit,
    over: (limit) => `There are no more rejections with an acceptance probability under ${share(limit)} in this run.`,
    never: (limit) => `This run has no rejection with an acceptance probability under ${share(limit)}.`,
  },
  {
    name: "bonus",
    key: "b",
    words: ["the next bonus", ""],
    short: () => "until a bonus",
    limit: null,
    meets: ({ fate }) => fate === "bonus",
    over: () => "There are no more bonus tokens in this run.",
    never: () => "This run has no bonus token.",
  },
  {
    name: "token",
    key: "",
    words: ["token", "of the text"],
    short: (limit) => `until token ${limit}`,
    limit: { words: "Token of the text, counted after the prompt", first: "20", min: "1", max: "", step: "1" },
    meets: ({ number }, limit) => number === limit,
    over: (limit) => `Token ${limit} is already shown.`,
    never: (limit, tokens) => `The text of this run has only ${tokens} tokens.`,
  },
];

/** The number in the text of each token of a round, by place; for a piece, the number of its first token. @param {Round} round @param {number} first */
function numbersOf(round, first) {
  let number = first;
  return new Map(
    emittedBy(round).map(({ place }) => {
      const own = number;
      number += round.unreported?.[place - round.candidates.length]?.tokens ?? 1;
      return [place, own];
    }),
  );
}

/**
 * The outcomes of a round that playing can stop at, in order.
 * @param {Round} round @param {number} index @param {Recording} recording @param {Run} run
 * @returns {Outcome[]}
 */
function outcomesOf(round, index, recording, run) {
  const { candidates, extra, unreported = [] } = round;
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
  const last = extra ? [extra.kind] : unreported.map(() => "unreported");
  return [
    ...outcomes,
    ...last.map((fate, order) => ({
      event, fate, fell: false, odds: null,
      spot: { round: index, place: place + order },
      number: numbers.get(place + order) ?? null,
    })),
  ];
}

/** A candidate's acceptance probability; null if the rule has none or an engine does not report it. @param {AnyCandidate} candidate @param {Run} run */
function oddsKnown(candidate, run) {
  const known = judged(candidate);
  return known && hasOdds(run) ? oddsOf(known, run) : null;
}

/** Whether a stop is available in a run: engines and some rules have no acceptance probabilities. @param {Stop} stop @param {Run|undefined} run */
export function isKnownOf(stop, run) {
  return stop.name !== "unlikely" || (!run?.engine && (!run || hasOdds(run)));
}

/**
 * The number in the text of the token at a spot; null if the token is not part of the text.
 * @param {Recording} recording @param {Run} run @param {Spot} spot @returns {number|null}
 */
export function numberAt(recording, run, spot) {
  const outcomes = outcomesOf(recording.rounds[spot.round], spot.round, recording, run);
  return outcomes.find((outcome) => outcome.spot.place === spot.place)?.number ?? null;
}

/**
 * The first outcome after a cursor that satisfies a stop; null while there is none.
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
