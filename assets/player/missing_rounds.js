// Python sends a round once, and a message may be lost. This file requests missing rounds until they
// arrive.

import { onceAtRest } from "./at_rest.js";

/** @import { Recording } from "./recording.js" */

const WISH_EVERY = 1000; // milliseconds between two requests

export class MissingRounds {
  constructor() {
    this.timer = 0;
    this.next = 0;
    this.number = 0;
    /** @type {((name: string, value: unknown) => void)|null} */
    this.send = null;
  }

  /** @param {Recording} recording @param {number} total the number of rounds so far */
  expect(recording, total) {
    this.recording = recording;
    this.total = total;
    this.askLater();
  }

  get missing() {
    return this.recording !== undefined && this.recording.rounds.length < (this.total ?? 0);
  }

  askLater() {
    if (this.timer || !this.missing) return;
    const wait = Math.max(0, this.next - performance.now());
    this.timer = window.setTimeout(() => onceAtRest(() => this.ask()), wait);
  }

  ask() {
    this.timer = 0;
    if (!this.missing || !this.recording) return;
    const { id, rounds } = this.recording;
    // Numbered by the clock, so that numbers increase even when the page is reopened.
    this.number = Math.max(this.number + 1, Date.now());
    this.send?.("wish", { run: id, start: rounds.length, number: this.number });
    this.next = performance.now() + WISH_EVERY;
    this.askLater();
  }

  close() {
    clearTimeout(this.timer);
  }
}
