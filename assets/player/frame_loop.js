// While something plays, this loop lets time pass in the store, frame by frame.

/** @import { Store } from "./base_store.js" */

const LONGEST_FRAME = 500; // milliseconds; a tab that was hidden goes on where it was

export class FrameLoop {
  /** @param {Store} store @param {() => void} drawBetweenEvents what moves between two events */
  constructor(store, drawBetweenEvents) {
    this.store = store;
    this.drawBetweenEvents = drawBetweenEvents;
    this.frame = 0;
    this.before = 0;
  }

  wake() {
    if (this.frame || !this.store.playing) return;
    this.before = performance.now();
    this.frame = requestAnimationFrame((now) => this.nextFrame(now));
  }

  /** @param {number} now */
  nextFrame(now) {
    this.frame = 0;
    this.store.advance(Math.max(0, Math.min(LONGEST_FRAME, now - this.before)));
    this.before = now;
    if (!this.store.playing) return;
    this.drawBetweenEvents();
    this.frame = requestAnimationFrame((later) => this.nextFrame(later));
  }

  close() {
    cancelAnimationFrame(this.frame);
  }
}
