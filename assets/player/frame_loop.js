// Lets time pass in the store, frame by frame, while something is playing.

/** @import { Store } from "./base_store.js" */

const LONGEST_FRAME = 500; // milliseconds; a tab that slept goes on where it was

/** Frames while playing, none otherwise. */
export class FrameLoop {
  /** @param {Store} store @param {() => void} between what moves between two events */
  constructor(store, between) {
    this.store = store;
    this.between = between;
    this.frame = 0;
    this.before = 0;
  }

  wake() {
    if (this.frame || !this.store.playing) return;
    this.before = performance.now();
    this.frame = requestAnimationFrame((now) => this.turn(now));
  }

  /** @param {number} now */
  turn(now) {
    this.frame = 0;
    this.store.advance(Math.max(0, Math.min(LONGEST_FRAME, now - this.before)));
    this.before = now;
    if (!this.store.playing) return;
    this.between();
    this.frame = requestAnimationFrame((later) => this.turn(later));
  }

  close() {
    cancelAnimationFrame(this.frame);
  }
}
