// A moment of a run, which a link or a replay file can open again. Its values: `round` and `step`
// (the cursor), `token` (the selected token), `speed`, and `draw` (the draw that the user tries).

import { LAST_DRAW } from "./verdict_rule.js";
import { emittedBy, eventsOf, judged, placesOf } from "./round_events.js";

/** @import { Spot } from "./round_events.js" */
/** @import { RunStore } from "./run_store.js" */

/** The moment's values as query parameters. @typedef {Record<string, string>} Moment */

export const NAMES = ["round", "step", "token", "speed", "draw"];

/** The moment that is shown now. @param {RunStore} store @returns {Moment} */
export function momentOf(store) {
  const { round, step } = store.recording.place(store.cursor);
  const { selected, whatIf } = store;
  return {
    round: String(round + 1),
    step: String(step),
    ...(selected ? { token: `${selected.round + 1}.${selected.place + 1}` } : {}),
    speed: store.speed,
    ...(selected && whatIf !== null ? { draw: String(whatIf) } : {}),
  };
}

/** The moment as part of a query or a fragment. @param {Moment} moment */
export function queryOf(moment) {
  return new URLSearchParams(moment).toString();
}

/** @param {string} query @returns {Moment|null} */
export function momentIn(query) {
  const said = new URLSearchParams(query);
  const known = NAMES.filter((name) => said.has(name)).map((name) => [name, said.get(name) ?? ""]);
  return said.has("round") ? Object.fromEntries(known) : null;
}

/** A non-negative integer; null for anything else. @param {string|undefined} text @returns {number|null} */
function whole(text) {
  return text !== undefined && /^\d{1,9}$/.test(text) ? Number(text) : null;
}

/**
 * Open the run at a moment; returns whether the run has reached it. Links are not trusted: values
 * that the run does not have are ignored.
 * @param {RunStore} store @param {Moment} moment
 */
export function goTo(store, moment) {
  const { rounds, starts } = store.recording;
  const round = (whole(moment.round) ?? 0) - 1;
  const spot = spotIn(moment.token);
  const last = Math.max(round, spot?.round ?? 0);
  if (last >= rounds.length && store.underWay) return false;
  if (round < 0 || round >= rounds.length) return true;
  const most = eventsOf(rounds[round]);
  store.seek(starts[round] + Math.min(whole(moment.step) ?? most, most));
  if (moment.speed && store.speeds.includes(moment.speed)) store.setSpeed(moment.speed);
  if (spot && spot.round <= round && hasToken(store, spot)) choose(store, spot, moment.draw);
  return true;
}

/** @param {string|undefined} text @returns {Spot|null} */
function spotIn(text) {
  const [round, place] = (text ?? "").split(".").map((part) => whole(part));
  return round && place ? { round: round - 1, place: place - 1 } : null;
}

/** @param {RunStore} store @param {Spot} spot */
function hasToken({ recording }, { round, place }) {
  return place < placesOf(recording.rounds[round]);
}

/** @param {RunStore} store @param {Spot} spot @param {string|undefined} draw */
function choose(store, spot, draw) {
  const round = store.recording.rounds[spot.round];
  const isInText = emittedBy(round).some((token) => token.place === spot.place);
  store.open(spot, isInText ? "text" : "rounds");
  const uniform = Number(draw);
  if (draw && judged(round.candidates[spot.place]) && uniform >= 0 && uniform <= 1) store.suppose(Math.min(uniform, LAST_DRAW));
}
