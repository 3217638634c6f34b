// The page remembers the recordings of the last few runs, by the names of the runs.

import { Recording } from "./recording.js";

const KEPT = 6; // recordings remembered

/** @type {Map<string, Recording>} */
const recordings = new Map();

/** @param {string} id */
export function recordingOf(id) {
  const recording = recordings.get(id) ?? new Recording(id);
  recordings.delete(id);
  recordings.set(id, recording); // the newest last
  const oldest = recordings.keys().next().value;
  if (recordings.size > KEPT && oldest !== undefined) recordings.delete(oldest);
  return recording;
}
