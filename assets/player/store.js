// STORE

import { Recording } from "./recording.js";

/** @import { Race } from "./race.js" */
/** @import { Spot } from "./round_events.js" */

export const UNDER_WAY = ["loading", "queued", "running"];
export const SPEEDS = ["0.25", "0.5", "1", "2", "4", "true", "instant"];
const CALM_BEAT = 400; // milliseconds between two pictures of a race without movement

/**
 * The state of the player and who wants to know when it changes. Views read it, and change
 * it only through these methods; each change leads to one `changed` call of every view at
 * the next frame.
 */
export class Store {
  constructor() {
    this.recording = new Recording("");
    /** Everything of the payload besides the rounds. @type {any} */
    this.data = {};
    this.cursor = 0;
    this.playing = false;
    this.speed = "1";
    /** Kept at the newest event while a run is under way. */
    this.live = false;
    /** @type {Spot|null} */
    this.selected = null;
    /** A draw that a person tries instead of the real one. @type {number|null} */
    this.whatIf = null;
    /** @type {Set<() => void>} */
    this.watchers = new Set();
    /** Whole rounds and no movement, for a person who asked for less of it. */
    this.still = false;
    /** Playing stops here, once. @type {number|null} */
    this.halt = null;
    /** The step since the last frame may be shown as a movement. */
    this.lively = false;
    this.drawn = 0; // the cursor at the last frame
    this.frame = 0;
    this.rested = 0; // no drawing before this moment while playing fast
    this.due = 0; // milliseconds still to wait before the next event
    this.wait = 0; // of so many
    /** Several runs on one clock, one of them on the stage. @type {Race|null} */
    this.race = null;
  }

  /** How much of the time to the next event is over, from 0 to 1. */
  get part() {
    return this.playing && this.due > 0 ? 1 - this.due / this.wait : 0;
  }

  /** Whether all there is has been played. */
  get over() {
    return this.race ? this.race.over : this.cursor >= this.recording.end;
  }

  /** Whether more rounds may come; a run that is done awaits only its forecast. */
  get underWay() {
    return Boolean(this.data.growing) && UNDER_WAY.includes(this.data.run?.state);
  }

  /** @param {() => void} watcher @returns {() => void} to stop watching */
  watch(watcher) {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  }

  changed() {
    if (!this.frame) this.frame = requestAnimationFrame((now) => this.tell(now));
  }

  /** Drawing has at most a third of the time where it is dear. @param {number} now */
  tell(now) {
    this.frame = 0;
    if (this.hasty && now < this.rested) return this.changed();
    this.lively = this.cursor - this.drawn === 1 && !this.still && !this.hasty;
    this.drawn = this.cursor;
    for (const watcher of this.watchers) watcher();
    const took = performance.now() - now;
    this.rested = took > 8 ? now + 3 * Math.min(took, 60) : 0;
  }

  /** Playing too fast for movements to be seen. */
  get hasty() {
    return this.playing && !(Number(this.speed) <= 2);
  }

  /** Another run takes the stage. @param {Recording} recording @param {{live: boolean, playing: boolean}} how */
  show(recording, how) {
    this.recording = recording;
    this.cursor = how.live ? recording.end : how.playing ? this.opening(recording) : 0;
    this.live = how.live;
    this.playing = how.playing;
    this.selected = null;
    this.whatIf = null;
    this.halt = null;
    this.due = 0;
    this.changed();
  }

  /** What plays by itself shows its first candidate at once, without motion its first round. @param {Recording} recording */
  opening(recording) {
    return this.still && recording.starts.length > 1 ? recording.starts[1] : 1;
  }

  /** Rounds have arrived, or the run has ended; what a lost message held may come after that. */
  grown() {
    if (this.live) this.cursor = this.recording.end;
    const whole = this.recording.rounds.length >= this.data.rounds.total;
    if (!this.underWay && whole) this.live = false;
    this.changed();
  }

  play() {
    if (this.over && !this.live) this.seek(0);
    this.live = false;
    this.playing = true;
    this.changed();
  }

  pause() {
    this.live = false;
    this.playing = false;
    this.changed();
  }

  /** Back to the newest event of a run under way. */
  follow() {
    this.live = true;
    this.playing = false;
    this.cursor = this.recording.end;
    this.changed();
  }

  /** @param {number} cursor */
  seek(cursor) {
    this.live = false;
    this.playing = false;
    this.cursor = Math.max(0, Math.min(this.recording.end, Math.round(cursor)));
    this.race?.turnTo(this.race.racer.clock.at(this.cursor));
    this.due = 0;
    this.changed();
  }

  seekEnd() {
    if (this.race) this.seekTime(this.race.total);
    else this.seek(this.recording.end);
  }

  /** @param {number} seconds on the clock of a race */
  seekTime(seconds) {
    if (!this.race) return;
    this.race.turnTo(seconds);
    this.seek(this.race.cursor(this.still));
    this.race.turnTo(seconds);
  }

  /** Lanes that race take the stage, or leave it to one run. @param {Race|null} race */
  enter(race) {
    if (!race && this.race) this.speed = "1";
    this.race = race;
    if (!race) return;
    this.speed = race.pace();
    this.stage();
    this.show(race.racer.recording, { live: false, playing: !this.still });
    if (this.still) this.seekEnd();
  }

  /** Another lane of a race on the stage; the clock goes on. @param {number} index */
  choose(index) {
    const { race } = this;
    if (!race || race.chosen === index) return;
    race.chosen = index;
    this.stage();
  }

  /** What the stage shows of a race. */
  stage() {
    const { race } = this;
    if (!race) return;
    this.recording = race.racer.recording;
    this.data = race.racer.data;
    this.cursor = race.cursor(this.still);
    this.selected = this.whatIf = null;
    this.changed();
  }

  /** @param {1|-1} by */
  stepToken(by) {
    this.seek(this.cursor + by);
  }

  /** To the end of a round. @param {1|-1} by */
  stepRound(by) {
    const { round, step } = this.recording.place(this.cursor);
    const { starts } = this.recording;
    if (by > 0) {
      const over = step >= starts[round + 1] - starts[round];
      this.seek(starts[Math.min(round + (over ? 2 : 1), starts.length - 1)]);
    } else this.seek(starts[round]);
  }

  /** @param {string} speed */
  setSpeed(speed) {
    this.speed = speed;
    this.due = 0;
    this.changed();
  }

  /** @param {Spot|null} spot */
  select(spot) {
    this.selected = spot;
    this.whatIf = null;
    this.changed();
  }

  /** @param {number|null} uniform */
  suppose(uniform) {
    this.whatIf = uniform;
    this.changed();
  }

  /** The next cursor to stand at and the milliseconds until then. */
  ahead() {
    const { recording, cursor, speed } = this;
    if (!this.still) return { stop: cursor + 1, wait: recording.wait(cursor, speed) };
    const end = recording.starts[recording.place(cursor + 1).round + 1];
    const stop = this.halt !== null && this.halt > cursor ? Math.min(this.halt, end) : end;
    let wait = 0;
    for (let event = cursor; event < stop; event++) wait += recording.wait(event, speed);
    return { stop, wait };
  }

  /**
   * Let time pass. Under load events are taken several at once: steps are dropped, never rounds.
   * @param {number} elapsed milliseconds
   */
  advance(elapsed) {
    if (!this.playing) return;
    if (this.race) return this.run(this.race, elapsed);
    const before = this.cursor;
    if (this.speed === "instant") this.cursor = this.halt ?? this.recording.end;
    else this.pass(elapsed);
    if (this.halt !== null && this.cursor >= this.halt) {
      this.halt = null;
      this.playing = false;
    }
    if (this.cursor >= this.recording.end && !this.underWay) this.playing = false;
    if (this.cursor !== before || !this.playing) this.changed();
  }

  /** A race runs in time, not in events. @param {Race} race @param {number} elapsed milliseconds */
  run(race, elapsed) {
    this.due += elapsed;
    if (this.still && this.due < CALM_BEAT) return;
    race.pass(this.due, this.speed);
    this.due = 0;
    this.cursor = race.cursor(this.still);
    this.playing = !race.over;
    this.changed();
  }

  /** @param {number} left milliseconds to use up */
  pass(left) {
    while (left > 0 && this.cursor < Math.min(this.recording.end, this.halt ?? Infinity)) {
      const { stop, wait } = this.ahead();
      if (this.due <= 0) this.due = this.wait = wait;
      if (left < this.due) {
        this.due -= left;
        return;
      }
      left -= this.due;
      this.due = 0;
      this.cursor = stop;
    }
  }
}
