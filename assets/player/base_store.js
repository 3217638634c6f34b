// The store is the state of the player: what is shown and how it plays. This file has the part that
// runs and races share. It draws nothing.

import { Recording } from "./recording.js";

/** @import { RunPayload } from "./payload.d.ts" */
/** @import { RaceStore } from "./race_store.js" */
/** @import { Spot } from "./round_events.js" */
/** @import { RunStore } from "./run_store.js" */

/**
 * The store as views see it. A run plays in events, a race in seconds; views need not distinguish.
 * @typedef {RunStore|RaceStore} Store
 */

/**
 * The state of the seek bar, in events, or in seconds of a race.
 * @typedef {{at: number, end: number, step: string}} SeekBar
 */

/** @typedef {"text"|"rounds"} Pane */

export const UNDER_WAY = ["loading", "queued", "running"];
const FEW_CORES = 4; // of the browser's machine, which often runs the models as well

/**
 * The state of the player. Views read it, and change it only through its methods. After a change,
 * every watcher is called once in the next frame.
 */
export class BaseStore {
  constructor() {
    this.heldUntil = 0; // playback pauses until this time of `performance.now()`
    this.recording = new Recording("");
    /** The payload from Python; its rounds are in the recording. @type {Partial<RunPayload>} */
    this.data = {};
    this.cursor = 0;
    this.playing = false;
    this.speed = "1";
    /** Whether the cursor stays at the newest event of a run in progress. */
    this.live = false;
    /** @type {Spot|null} */
    this.selected = null;
    /** The pane where the user opened a token, with the verdict card beside it. @type {Pane|null} */
    this.beside = null;
    this.resumes = { playing: false, live: false }; // what continues when the card is closed
    /** The draw that the user tries instead of the real one. @type {number|null} */
    this.whatIf = null;
    /** @type {Set<() => void>} */
    this.watchers = new Set();
    /** The user prefers reduced motion: whole rounds appear at once. */
    this.still = false;
    /** Whether the step since the last frame may be animated. */
    this.lively = false;
    this.drawn = 0; // the cursor at the last frame
    this.frame = 0;
    this.rested = 0; // while playing fast, nothing is drawn before this time
    this.due = 0; // milliseconds: of a run, until its next event; of a race, elapsed since its last frame
    /** Sends an event to the page's script and returns its number. @type {((name: string, value: object) => number)|null} */
    this.ask = null;
  }

  /** Whether everything received has been played. */
  get over() {
    return this.cursor >= this.recording.end;
  }

  /** Whether more rounds may arrive. `growing` is not enough: a run that is done may still get its forecast. */
  get underWay() {
    return Boolean(this.data.growing) && UNDER_WAY.includes(this.data.run?.state ?? "");
  }

  /** Whether no more rounds will arrive. */
  get whole() {
    return !this.underWay;
  }

  /** The pace that the user chose. */
  get pace() {
    return this.live ? "now" : this.speed;
  }

  /** Whether the last round has arrived. */
  get decoded() {
    return !this.underWay;
  }

  /**
  * Whether whole rounds appear at once: the user prefers reduced motion, or a run that loads or
  * decodes needs the processor time that drawing would take.
   */
  get quiet() {
    return this.still || this.held || Boolean(this.data.run?.waiting) || (this.underWay && !this.decoded);
  }

  /**
  * Whether nothing moves between two steps: drawing would take processor time from a run that is
  * being timed on a machine with few cores.
  */
  get calm() {
    return this.quiet || (this.underWay && navigator.hardwareConcurrency <= FEW_CORES);
  }

  /** Whether the user has just requested another run, so that this one pauses until it arrives. */
  get held() {
    return performance.now() < this.heldUntil;
  }

  /** @param {number} milliseconds */
  hold(milliseconds) {
    this.heldUntil = performance.now() + milliseconds;
  }

  /** Whether playback is too fast for animations. */
  get hasty() {
    return this.playing && !(Number(this.speed) <= 2);
  }

  /** @param {() => void} watcher @returns {() => void} to stop watching */
  watch(watcher) {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  }

  changed() {
    if (!this.frame) this.frame = requestAnimationFrame((now) => this.notifyWatchers(now));
  }

  /** Call the watchers. During fast playback, slow drawing gets at most a third of the time. @param {number} now */
  notifyWatchers(now) {
    this.frame = 0;
    if (this.hasty && now < this.rested) return this.changed();
    this.lively = this.cursor - this.drawn === 1 && !this.calm && !this.hasty;
    this.drawn = this.cursor;
    for (const watcher of this.watchers) watcher();
    const took = performance.now() - now;
    this.rested = took > 8 ? now + 3 * Math.min(took, 60) : 0;
  }

  /**
   * Show another recording.
   * @param {Recording} recording @param {{live: boolean, playing: boolean}} how
   */
  show(recording, how) {
    this.recording = recording;
    this.cursor = how.live ? recording.end : how.playing ? this.opening(recording) : 0;
    this.live = how.live;
    this.playing = how.playing;
    this.beside = null;
    this.selected = null;
    this.whatIf = null;
    this.due = 0;
    this.changed();
  }

  /**
  * Where the cursor begins: at the first candidate or, with reduced motion, after the first round.
   * @param {Recording} recording
   */
  opening(recording) {
    return this.still && recording.starts.length > 1 ? recording.starts[1] : 1;
  }

  play() {
    if (this.over && !this.live && this.whole) this.seek(0);
    this.beside = null;
    this.live = false;
    this.playing = true;
    this.changed();
  }

  pause() {
    this.live = false;
    this.playing = false;
    this.changed();
  }

  /** Go back to the newest event of a run in progress. */
  follow() {
    this.beside = null;
    this.live = true;
    this.playing = false;
    this.cursor = this.recording.end;
    this.changed();
  }

  /** @param {number} cursor */
  seek(cursor) {
    this.beside = null;
    this.live = false;
    this.playing = false;
    this.cursor = Math.max(0, Math.min(this.recording.end, Math.round(cursor)));
    this.due = 0;
    this.changed();
  }

  /** @param {1|-1} by */
  stepToken(by) {
    this.seek(this.cursor + by);
  }

  /** Go to the end of the current or the next round (1), or to the start of the current one (-1). @param {1|-1} by */
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

  /** Handle the user's choice of a speed. @param {string} pace */
  choosePace(pace) {
    this.setSpeed(pace);
  }

  /** @param {Spot|null} spot */
  select(spot) {
    this.selected = spot;
    this.whatIf = null;
    this.changed();
  }

  /**
  * Open a token's card beside it, and pause playback until the card is closed.
   * @param {Spot} spot @param {Pane} pane
   */
  open(spot, pane) {
    if (!this.beside) this.resumes = { playing: this.playing, live: this.live };
    this.beside = pane;
    this.playing = this.live = false;
    this.select(spot);
  }

  /** Close the card beside the token, and resume playback. */
  shut() {
    const { playing, live } = this.resumes;
    this.beside = null;
    this.select(null);
    if (live && this.underWay) this.follow();
    else if ((playing || live) && !this.over) this.play();
  }

  /** @param {number|null} uniform */
  suppose(uniform) {
    this.whatIf = uniform;
    this.changed();
  }

  /** Stop calling watchers. */
  close() {
    cancelAnimationFrame(this.frame);
    this.watchers.clear();
  }
}
