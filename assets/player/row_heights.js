// Only the rows of rounds that are in view are on the page. This file knows the heights of all of
// them: those that were seen as they were measured, the others by a guess.

export const ROW_GUESS = 32; // pixels, before a row has been seen

/** RowHeights of all rows: measured where seen, guessed where not. */
export class RowHeights {
  constructor() {
    /** @type {number[]} */
    this.known = [];
    this.guess = ROW_GUESS;
  }

  clear() {
    this.known = [];
  }

  /** @param {number} index */
  of(index) {
    return this.known[index] ?? this.guess;
  }

  /** Pixels above a row. @param {number} index */
  above(index) {
    let sum = 0;
    for (let row = 0; row < index; row++) sum += this.of(row);
    return sum;
  }

  /** The row at a height. @param {number} top @param {number} total @returns {number} */
  rowAt(top, total) {
    let sum = 0;
    for (let row = 0; row < total; row++) {
      sum += this.of(row);
      if (sum > top) return row;
    }
    return Math.max(0, total - 1);
  }
}
