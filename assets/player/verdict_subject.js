// Which token the verdict card explains, and its state at the cursor.

import { eventsOf, failedPlace, judged, passedAt, placesOf, sceneAt } from "./round_events.js";

/** @import { Store } from "./base_store.js" */
/** @import { Candidate, Round, Run } from "./payload.d.ts" */
/** @import { Recording } from "./recording.js" */
/** @import { Fate, Spot } from "./round_events.js" */

/**
 * @typedef {{run: Run, round: Round, spot: Spot, candidate: Candidate|null, fate: Fate,
 *   passed: boolean, landed: boolean}} Subject  candidate: null also if an engine reports only the
 *   candidate's fate; passed: the target's pass is over; landed: the round's last token is shown
 * @typedef {(Node|string)[]} Words
 */

/**
 * The state of a spot at the cursor.
 * @param {Store} store @param {Spot} spot @returns {Subject}
 */
export function subjectAt(store, spot) {
  const { recording, cursor, data } = store;
  const now = recording.place(cursor);
  const round = recording.rounds[spot.round];
  const step = spot.round < now.round ? eventsOf(round) : spot.round === now.round ? now.step : 0;
  const scene = sceneAt(round, step);
  const after = spot.place - round.candidates.length;
  const fate = (after < 0 ? scene.cells[spot.place] : scene.last[after]) ?? "drafted";
  const passed = step >= passedAt(round);
  const run = /** @type {Run} */ (data.run); // not null, since there are rounds
  const candidate = judged(round.candidates[spot.place]);
  return { run, round, spot, candidate, fate, passed, landed: scene.last.length > 0 };
}

/** Finds the latest rejection up to a round, with a cache. */
export function makeRejectionFinder() {
  /** @type {Recording|null} */
  let known = null;
  /** @type {number[]} */
  let latest = [];
  /** @param {Recording} recording @param {number} last @returns {Spot|null} */
  return (recording, last) => {
    if (recording !== known) [known, latest] = [recording, []];
    for (let i = latest.length; i < recording.rounds.length; i++)
      latest.push(failedPlace(recording.rounds[i]) >= 0 ? i : (latest[i - 1] ?? -1));
    const round = latest[last] ?? -1;
    return round < 0 ? null : { round, place: failedPlace(recording.rounds[round]) };
  };
}

/**
 * The spot before or after another, up to the round of the cursor.
 * @param {Store} store @param {Spot} spot @param {1|-1} by @returns {Spot|null}
 */
export function nextSpot(store, spot, by) {
  const { rounds } = store.recording;
  const place = spot.place + by;
  if (place >= 0 && place < placesOf(rounds[spot.round])) return { round: spot.round, place };
  const round = spot.round + by;
  if (round < 0 || round > store.recording.place(store.cursor).round) return null;
  return { round, place: by > 0 ? 0 : placesOf(rounds[round]) - 1 };
}

/**
 * The token that the card shows: the selected token; at the end of a forked run, the token at the
 * fork; else the latest rejection before the cursor, else the latest token.
 * @param {Store} store @param {(recording: Recording, last: number) => Spot|null} lastRejection
 * @returns {Spot|null}
 */
export function shownSpot(store, lastRejection) {
  const { recording, cursor, selected, data } = store;
  if (selected && selected.round < recording.rounds.length) return selected;
  const fork = data.run?.forks.at(-1);
  if (fork && store.over && store.whole && recording.rounds[fork.round]?.candidates[fork.place]) return { round: fork.round, place: fork.place };
  if (cursor <= 0 || recording.rounds.length === 0) return null;
  const { round, step } = recording.place(cursor);
  const scene = sceneAt(recording.rounds[round], step);
  const struck = scene.cells.findIndex((fate) => fate === "rejected" || fate === "cut");
  if (struck >= 0) return { round, place: struck };
  const before = lastRejection(recording, round - 1);
  const place = scene.last.length ? scene.cells.length : Math.max(0, scene.cells.length - 1);
  return before ?? { round, place };
}
