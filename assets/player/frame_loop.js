// Advances the store's time frame by frame while something plays.

/** @import { Store } from "./base_store.js" */

const LONGEST_FRAME = 500; // milliseconds; longer ones count as this, so that a hidden tab does not skip ahead
const SHORTEST_FRAME = 30; // milliseconds; more frequent drawing takes processor time from the models
const QUIET_FRAME = 50; // milliseconds between two frames without animation

export class FrameLoop {
  /** @param {Store} store @param {() => void} drawBetweenEvents what moves between two events */
  constructor(store, drawBetweenEvents) {
    this.store = store;
    this.drawBetweenEvents = drawBetweenEvents;
    this.frame = 0;
    this.timer = 0;
    this.before = 0;
  }

  wake() {
    if (this.frame || this.timer || !this.store.playing) return;
    this.before = performance.now();
    this.ask();
  }

  ask() {
    const next = () => (this.frame = requestAnimationFrame((now) => this.nextFrame(now)));
    if (this.store.calm) this.timer = window.setTimeout(next, QUIET_FRAME);
    else next();
  }

  /** @param {number} now */
  nextFrame(now) {
    this.frame = this.timer = 0;
    if (now - this.before < SHORTEST_FRAME) return this.ask();
    this.store.advance(Math.max(0, Math.min(LONGEST_FRAME, now - this.before)));
    this.before = now;
    if (!this.store.playing) return;
    this.drawBetweenEvents();
    this.ask();
  }

  close() {
    cancelAnimationFrame(this.frame);
    clearTimeout(this.timer);
  }
}
