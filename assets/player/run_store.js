// The store of one run. It plays event by event, and can follow a run in progress. It draws
// nothing.

import { BaseStore } from "./base_store.js";
import { recall, remember } from "./browser_memory.js";
import { isRound } from "./round_shape.js";
import { nextOutcome } from "./stops.js";

/** @import { SeekBar } from "./base_store.js" */
/** @import { Recording } from "./recording.js" */
/** @import { Spot } from "./round_events.js" */
/** @import { Outcome, Wish } from "./stops.js" */

const SPEEDS = ["0.25", "0.5", "1", "2", "readable", "4", "true", "instant"];
const LIVE_SPEEDS = [...SPEEDS, "now"];
const PACE_KEY = "specviz.pace"; // a speed, or "now", for later runs
const SLOW_ROUND = 0.25; // seconds; slower rounds can be read as they arrive

export class RunStore extends BaseStore {
  constructor() {
    super();
    /** The event at which playing stops, once. @type {number|null} */
    this.halt = null;
    /** The stop that the user plays until. @type {Wish|null} */
    this.until = null;
    this.untilRun = ""; // the run that was decoding or shown when the user requested the stop
    /** The outcome to stop at, once it is known. @type {Outcome|null} */
    this.goal = null;
    /** A stop that was not found, and the cursor at the request. @type {{wish: Wish, cursor: number}|null} */
    this.missed = null;
    /** Whether a stop selected the token on the card; the selection is cleared when the run moves on. */
    this.chosenByStop = false;
    this.wait = 0; // milliseconds from the last event to the next
    /** Whether a run that is shown live has not been shown to its end yet. */
    this.trailing = false;
    /** Whether the store has yet to check if the rounds arrive slowly enough to be read. */
    this.unsure = false;
    /** The index of the tour's card; once the tour is over, the number of its cards. @type {number|null} */
    this.tourCard = null;
    /** The round at which a fork is shown first, until this round has arrived; else 0. */
    this.opens = 0;
  }

  get speeds() {
    return this.trailing ? LIVE_SPEEDS : SPEEDS;
  }

  /** The number of decoded rounds not shown yet; null unless the run is shown live. @returns {number|null} */
  get behind() {
    const { recording, cursor } = this;
    if (!this.trailing || this.live || !recording.rounds.length) return null;
    return recording.rounds.slice(cursor > 0 ? recording.place(cursor).round + 1 : 0).filter(isRound).length;
  }

  /** The elapsed fraction of the time to the next event. */
  get part() {
    return this.playing && this.due > 0 ? 1 - this.due / this.wait : 0;
  }

  /** @returns {SeekBar} */
  get seekBar() {
    return { at: this.cursor, end: this.recording.end, step: "1" };
  }

  /** The time as text; not shown for a run. */
  get time() {
    return "";
  }

  /** Whether another view announces events. */
  get announcedElsewhere() {
    return false;
  }

  /** @param {Recording} recording @param {{live: boolean, playing: boolean}} how */
  show(recording, how) {
    super.show(recording, how);
    this.forgetStop();
    this.missed = null;
    this.trailing = this.unsure = false;
  }

  /** Show a run in progress at the pace that the user chose. @param {Recording} recording */
  enter(recording) {
    const chosen = recall(PACE_KEY);
    const live = chosen === "now";
    this.speed = chosen && SPEEDS.includes(chosen) ? chosen : "readable";
    this.show(recording, { live, playing: !live });
    this.cursor = live ? recording.end : 0;
    this.trailing = true;
    this.unsure = !live && this.speed !== chosen;
    this.opens = this.data.run?.forks.at(-1)?.round ?? 0;
    this.showFirst();
    this.followIfSlow();
  }

  /**
  * The first round is shown at once, in place of the previous run. A fork is shown
  * from where it differs from the original run.
   */
  showFirst() {
    const { starts } = this.recording;
    const last = starts.length - 1;
    if (!this.trailing || !this.playing || last < 1) return;
    if (this.opens) this.cursor = starts[Math.min(this.opens, last)];
    if (this.opens < last) this.opens = 0;
    if (this.cursor === 0 && !this.until) this.cursor = starts[1];
  }

  /** Unless the user chose a pace, follow rounds that are slow enough to read as they arrive. */
  followIfSlow() {
    const { rounds, seconds } = this.recording;
    if (!this.unsure || !rounds.length) return;
    this.unsure = false;
    if (this.playing && seconds[rounds.length] / rounds.length >= SLOW_ROUND) this.follow();
  }

  /** Handle the user's choice of a pace for this run and later ones. @param {string} pace */
  choosePace(pace) {
    remember(PACE_KEY, pace);
    this.unsure = false;
    if (pace === "now") return this.follow();
    if (this.live) this.play();
    this.setSpeed(pace);
  }

  /** Go to the newest event, or to a stop before it; a run in progress is followed from there. */
  follow() {
    if (this.goal) this.arriveAt(this.goal);
    else if (this.underWay) super.follow();
    else this.seekEnd();
  }

  /** Whether no more rounds will arrive. */
  get whole() {
    return this.decoded && this.recording.rounds.length >= (this.data.rounds?.total ?? 0);
  }

  /** Play until a stop; do nothing if there is none left. @param {Wish} wish */
  playUntil(wish) {
    this.forgetStop();
    this.missed = this.beside = null;
    this.playing = false;
    this.select(null);
    this.until = wish;
    this.untilRun = this.data.run?.id ?? "";
    if (this.awaitsFirst) return this.changed();
    this.aim(this.cursor);
    if (this.until && !this.live) this.play();
  }

  /** Whether a run is decoding and still has no round, so that the run before is shown. */
  get awaitsFirst() {
    return this.underWay && this.data.run?.state === "running" && this.data.run.id !== this.recording.id;
  }

  /** Find the requested stop in the received rounds; give up if no more rounds will arrive. @param {number} from */
  aim(from) {
    if (!this.until || this.goal) return;
    this.goal = nextOutcome(this.recording, this.data.run, from, this.until);
    this.halt = this.goal?.event ?? null;
    if (this.goal || !this.whole) return;
    this.missed = { wish: this.until, cursor: this.cursor };
    this.pause();
  }

  /** Handle arriving at the requested outcome. @param {Outcome} outcome */
  arriveAt({ event, spot }) {
    this.forgetStop();
    this.playing = this.live = false;
    this.cursor = event;
    this.open(spot, "rounds");
    this.chosenByStop = true;
  }

  /** @param {Spot|null} spot */
  select(spot) {
    this.chosenByStop = false;
    super.select(spot);
  }

  /** Clear a selection that a stop made, because the run moves on. */
  letGo() {
    if (this.chosenByStop) this.select(null);
  }

  play() {
    this.letGo();
    super.play();
  }

  forgetStop() {
    this.halt = this.until = this.goal = null;
  }

  pause() {
    if (this.until) this.forgetStop();
    super.pause();
  }

  /** @param {number} cursor */
  seek(cursor) {
    if (this.until) this.forgetStop();
    this.opens = 0;
    this.letGo();
    super.seek(cursor);
  }

  /** Whether the last round has arrived; the target alone may still be timed. */
  get decoded() {
    return !this.underWay || Boolean(this.data.run?.decoded);
  }

  /** Treat the run as finished once everything has been shown. */
  changed() {
    if (this.trailing && this.over && this.whole) this.trailing = false;
    super.changed();
  }

  /** Handle new rounds or the end of the run; missing rounds may still arrive later. */
  grown() {
    this.showFirst();
    this.followIfSlow();
    const before = this.cursor;
    if (this.live) this.cursor = this.recording.end;
    this.aim(before);
    if (this.live && this.goal) this.arriveAt(this.goal);
    if (!this.underWay && this.whole) this.live = false;
    this.changed();
  }

  /** @param {number} event on the seek bar */
  seekTo(event) {
    this.seek(event);
  }

  seekEnd() {
    this.seek(this.recording.end);
  }

  /** The next cursor position, and the milliseconds until then. */
  ahead() {
    const { recording, cursor, speed } = this;
    if (!this.quiet) return { stop: cursor + 1, wait: recording.wait(cursor, speed) };
    const end = recording.starts[recording.place(cursor + 1).round + 1];
    const stop = this.halt !== null && this.halt > cursor ? Math.min(this.halt, end) : end;
    let wait = 0;
    for (let event = cursor; event < stop; event++) wait += recording.wait(event, speed);
    return { stop, wait };
  }

  /**
  * Advance the time. On a slow machine this may pass several events at once.
   * @param {number} elapsed milliseconds
   */
  advance(elapsed) {
    if (!this.playing || this.held) return;
    const before = this.cursor;
    if (this.speed === "instant") this.cursor = this.halt ?? this.recording.end;
    else this.pass(elapsed);
    if (this.halt !== null && this.cursor >= this.halt) this.stopHere();
    if (this.over && !this.underWay && !this.until) this.playing = false;
    if (this.cursor !== before || !this.playing) this.changed();
  }

  /** Handle the end of playing at a stop. */
  stopHere() {
    if (this.goal) return this.arriveAt(this.goal);
    this.halt = null;
    this.playing = false;
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
