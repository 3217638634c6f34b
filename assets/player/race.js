// A race shows several runs on one clock. This file computes how far they are at any time, and which
// one is the fastest. A race plays in real time, or slower by an integer factor. This file draws
// nothing.

import { countUpTo, LaneClock, sumsOf } from "./lane_clock.js";

/** @import { RunPayload, SentRace, Times } from "./payload.d.ts" */
/** @import { Recording } from "./recording.js" */

export const RACE_SPEEDS = ["1/25", "1/10", "1/5", "1/2", "true", "instant"];
const RACE_LENGTH = 14; // seconds; a race starts at the slowest speed at which it is not longer than this

/** The slowdown factor. @param {string} speed */
function slowness(speed) {
  if (speed === "instant") return 0;
  return speed === "true" ? 1 : Number(speed.slice(2));
}

/** A run in a race, with the data to show it alone. */
class Racer {
  /**
   * @param {string} label @param {Recording} recording @param {Times[]} parts
   * @param {RunPayload} data
   */
  constructor(label, recording, parts, data) {
    this.label = label;
    this.recording = recording;
    this.data = data;
    this.clock = new LaneClock(recording, parts);
  }

  get total() {
    return this.clock.total;
  }

  get tokens() {
    return this.recording.tokens[this.recording.tokens.length - 1];
  }

  /** The number of finished rounds. @param {number} now */
  roundsAt(now) {
    return countUpTo(this.clock.seconds, withRounding(now)) - 1;
  }

  /** @param {number} now */
  tokensAt(now) {
    return this.recording.tokens[this.roundsAt(now)];
  }
}

/** The target alone, timed along the text of one lane. */
export class TargetAlone {
  /** @param {string} label @param {string} along @param {number[]} seconds */
  constructor(label, along, seconds) {
    this.label = label;
    this.along = along;
    this.sums = sumsOf(seconds);
  }

  get total() {
    return this.sums[this.sums.length - 1];
  }

  get tokens() {
    return this.sums.length - 1;
  }

  /** @param {number} now */
  tokensAt(now) {
    return countUpTo(this.sums, withRounding(now)) - 1;
  }
}

/** Slightly more than the given seconds, since sums may be rounded differently. @param {number} seconds */
export function withRounding(seconds) {
  return seconds * (1 + 1e-9);
}

/** @typedef {Racer|TargetAlone} Contestant */

/** Tokens per second up to a time, without the tokens that were there when the clock started. @param {Contestant} contestant @param {number} now */
export function rateAt(contestant, now) {
  const spent = Math.min(now, contestant.total);
  return spent > 0 ? (contestant.tokensAt(now) - contestant.tokensAt(0)) / spent : 0;
}

export class Race {
  /**
   * @param {string} id @param {Racer[]} racers @param {TargetAlone[]} targets
   * @param {{open: boolean, chosen: number, unlike?: string}} how
   */
  constructor(id, racers, targets, { open, chosen, unlike = "" }) {
    this.id = id;
    this.racers = racers;
    this.targets = targets;
    this.open = open;
    this.unlike = unlike;
    this.chosen = chosen;
    this.now = 0;
    /** @type {Contestant[]} */
    this.all = [...racers, ...targets];
    this.total = Math.max(...this.all.map((each) => each.total));
  }

  get racer() {
    return this.racers[this.chosen];
  }

  get over() {
    return this.total <= withRounding(this.now);
  }

  /** @param {number} seconds */
  turnTo(seconds) {
    this.now = Math.max(0, Math.min(this.total, seconds));
  }

  /** @param {number} elapsed milliseconds @param {string} speed */
  pass(elapsed, speed) {
    const slower = slowness(speed);
    this.turnTo(slower ? this.now + elapsed / 1000 / slower : this.total);
  }

  /** The current cursor of the chosen lane. @param {boolean} whole only between rounds */
  cursor(whole) {
    const { recording, clock } = this.racer;
    if (whole) return recording.starts[this.racer.roundsAt(this.now)];
    return clock.cursorAt(withRounding(this.now));
  }

  /** The slowest speed at which the race is not too long to watch. */
  watchableSpeed() {
    const fits = (/** @type {string} */ speed) => this.total * slowness(speed) <= RACE_LENGTH;
    return RACE_SPEEDS.find((speed) => fits(speed)) ?? "true";
  }

  /** @param {Contestant} contestant */
  hasFinished(contestant) {
    return contestant.total > 0 && contestant.total <= withRounding(this.now);
  }

  get alike() {
    return this.all.every((each) => each.tokens === this.all[0].tokens);
  }

  /** The lane with the most tokens per second; null if the recordings cannot decide. */
  get winner() {
    if (this.open || this.unlike) return null;
    return this.all.reduce((best, each) => (rateAt(each, each.total) > rateAt(best, best.total) ? each : best));
  }
}

/** @param {SentRace} race from Python @param {(id: string) => Recording} recordingOf */
export function makeRace(race, recordingOf) {
  const racers = race.lanes.map(({ label, parts, stage }) => {
    const recording = recordingOf(stage.run.id);
    recording.prompt = stage.prompt;
    recording.append(stage.rounds.from, stage.rounds.items);
    return new Racer(label, recording, parts, stage);
  });
  const targets = race.targets.map(({ label, along, seconds }) => new TargetAlone(label, along, seconds));
  return new Race(race.id, racers, targets, race);
}
