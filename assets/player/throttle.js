// A throttle allows work at most once per interval, and calls back for work that had to
// wait.

export class Throttle {
  /** @param {number} every milliseconds @param {() => void} again */
  constructor(every, again) {
    this.every = every;
    this.again = again;
    this.next = 0;
    this.timer = 0;
    this.urgent = true;
  }

  /** @param {boolean} wanted @returns {boolean} whether to do it now */
  allows(wanted) {
    const left = this.next - performance.now();
    if (!this.urgent && (!wanted || left > 0)) {
      if (wanted) this.comeBack(left);
      return false;
    }
    this.next = performance.now() + this.every;
    this.urgent = false;
    return true;
  }

  /** @param {number} left milliseconds */
  comeBack(left) {
    this.timer ||= window.setTimeout(() => {
      this.timer = 0;
      this.again();
    }, left);
  }

  hurry() {
    this.urgent = true;
    this.again();
  }

  close() {
    clearTimeout(this.timer);
  }
}
