// This is the store of one run. It plays event by event, and follows the run while that is under
// way. It draws nothing itself.

import { BaseStore } from "./base_store.js";

/** @import { SeekBar } from "./base_store.js" */
/** @import { Recording } from "./recording.js" */

const SPEEDS = ["0.25", "0.5", "1", "2", "4", "true", "instant"];

export class RunStore extends BaseStore {
  constructor() {
    super();
    /** Playing stops here, once. @type {number|null} */
    this.halt = null;
    this.wait = 0; // milliseconds from the last event to the next
  }

  get speeds() {
    return SPEEDS;
  }

  /** How much of the time to the next event is over, from 0 to 1. */
  get part() {
    return this.playing && this.due > 0 ? 1 - this.due / this.wait : 0;
  }

  /** @returns {SeekBar} */
  get seekBar() {
    return { at: this.cursor, end: this.recording.end, step: "1" };
  }

  /** The time on the clock, in words: the clock of a run is not shown. */
  get time() {
    return "";
  }

  /** Whether somebody else tells aloud what happens. */
  get toldElsewhere() {
    return false;
  }

  /** @param {Recording} recording @param {{live: boolean, playing: boolean}} how */
  show(recording, how) {
    super.show(recording, how);
    this.halt = null;
  }

  /** Rounds have arrived, or the run has ended; what a lost message held may come after that. */
  grown() {
    if (this.live) this.cursor = this.recording.end;
    const whole = this.recording.rounds.length >= (this.data.rounds?.total ?? 0);
    if (!this.underWay && whole) this.live = false;
    this.changed();
  }

  /** @param {number} event on the seek bar */
  seekTo(event) {
    this.seek(event);
  }

  seekEnd() {
    this.seek(this.recording.end);
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
    const before = this.cursor;
    if (this.speed === "instant") this.cursor = this.halt ?? this.recording.end;
    else this.pass(elapsed);
    if (this.halt !== null && this.cursor >= this.halt) {
      this.halt = null;
      this.playing = false;
    }
    if (this.over && !this.underWay) this.playing = false;
    if (this.cursor !== before || !this.playing) this.changed();
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
