// A lane's clock converts a cursor into seconds and back. It draws nothing.

import { eventsOf } from "./round_events.js";
import { shapeOf } from "./round_shape.js";
import { secondsOf } from "./round_times.js";

/** @import { Times } from "./payload.d.ts" */
/** @import { Recording } from "./recording.js" */

/** @param {number[]} parts @returns {number[]} sums before each part, and their total */
export function sumsOf(parts) {
  const sums = [0];
  for (const part of parts) sums.push(sums[sums.length - 1] + part);
  return sums;
}

/** The clock of a speculative lane, from the times of the repeated run if there are any, else of the run itself. */
export class LaneClock {
  /** @param {Recording} recording @param {Times[]|null} timed */
  constructor(recording, timed) {
    this.recording = recording;
    this.rounds = recording.rounds.length;
    this.timed = timed;
    this.parts = timed ?? recording.rounds.map((round) => round.times);
    this.seconds = sumsOf(this.parts.map(secondsOf));
  }

  /** @param {Recording} recording @param {Times[]|null} timed */
  fits(recording, timed) {
    return (
      this.recording === recording && this.rounds === recording.rounds.length && this.timed === timed
    );
  }

  get total() {
    return this.seconds[this.seconds.length - 1];
  }

  /** Seconds at a cursor. Candidates share the draft time equally; if a round's time has no phases, all its events share it. @param {number} cursor */
  at(cursor) {
    const { recording, parts, seconds } = this;
    if (this.rounds === 0) return 0;
    const { round, step } = recording.place(cursor);
    const times = parts[round];
    if ("whole" in times) return seconds[round] + (times.whole * step) / eventsOf(recording.rounds[round]);
    const { draft, verify } = times;
    const { steps } = shapeOf(recording.rounds[round]);
    if (step <= steps) return seconds[round] + (steps ? (draft * step) / steps : 0);
    if (step === steps + 1) return seconds[round] + draft;
    const over = cursor >= recording.starts[round + 1];
    return over ? seconds[round + 1] : seconds[round] + draft + verify;
  }

  /** The cursor at a time. @param {number} seconds */
  cursorAt(seconds) {
    let low = 0;
    let high = this.recording.end;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.at(middle) <= seconds) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}

/**
 * The number of entries in an ascending list that are at most a value.
 * @param {number[]} list @param {number} value
 */
export function countUpTo(list, value) {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}
