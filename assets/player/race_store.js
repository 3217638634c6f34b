// The store of a race, which shows one of several runs. It plays in seconds, and the cursor is where
// the chosen run was at that time. It draws nothing.

import { BaseStore } from "./base_store.js";
import { timeIn, unitFor } from "./number_words.js";
import { RACE_SPEEDS } from "./race.js";

/** @import { SeekBar } from "./base_store.js" */
/** @import { Race } from "./race.js" */

const CALM_BEAT = 400; // milliseconds between two frames of a race with reduced motion

export class RaceStore extends BaseStore {
  /** @param {Race} race */
  constructor(race) {
    super();
    this.race = race;
  }

  get speeds() {
    return RACE_SPEEDS;
  }

  get over() {
    return this.race.over;
  }

  /** Whether playback is too fast for animations: a race always is. */
  get hasty() {
    return this.playing;
  }

  /** Null: all rounds of a race are decoded, so nothing is counted as not yet shown. @returns {number|null} */
  get behind() {
    return null;
  }

  /** @returns {SeekBar} */
  get seekBar() {
    return { at: this.race.now, end: this.race.total, step: "any" };
  }

  /** The time on the clock, as text. */
  get time() {
    return timeIn(this.race.now, unitFor(this.race.total));
  }

  /** Whether another view announces events: while a race plays, the lanes announce their ends. */
  get announcedElsewhere() {
    return this.playing;
  }

  /** Show another race. @param {Race} race */
  enter(race) {
    this.race = race;
    this.speed = race.watchableSpeed();
    this.showChosen();
    this.show(race.racer.recording, { live: false, playing: !this.still });
    if (this.still) this.seekEnd();
  }

  /** Show another lane at the same time on the clock. @param {number} index */
  choose(index) {
    if (this.race.chosen === index) return;
    this.race.chosen = index;
    this.showChosen();
  }

  /** Show the run of the chosen lane. */
  showChosen() {
    const { race } = this;
    this.recording = race.racer.recording;
    this.data = race.racer.data;
    this.cursor = race.cursor(this.still);
    this.selected = this.whatIf = this.beside = null;
    this.changed();
  }

  /** @param {number} cursor */
  seek(cursor) {
    super.seek(cursor);
    this.race.turnTo(this.race.racer.clock.at(this.cursor));
  }

  /** @param {number} seconds on the clock */
  seekTo(seconds) {
    this.race.turnTo(seconds);
    this.seek(this.race.cursor(this.still));
    this.race.turnTo(seconds);
  }

  seekEnd() {
    this.seekTo(this.race.total);
  }

  /** Advance the time. @param {number} elapsed milliseconds */
  advance(elapsed) {
    if (!this.playing) return;
    this.due += elapsed;
    if (this.still && this.due < CALM_BEAT) return;
    this.race.pass(this.due, this.speed);
    this.due = 0;
    this.cursor = this.race.cursor(this.still);
    this.playing = !this.race.over;
    this.changed();
  }
}
