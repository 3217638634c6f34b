// The shape of a round's candidates: a chain, or parallel chains and trees, whose candidates are
// numbered depth by depth. This file draws nothing.

/** @import { AnyCandidate, Round } from "./payload.d.ts" */

/**
 * @typedef {{depths: number[], steps: number, tested: number[], together: boolean, branched: boolean}} Shape
 *   depths: the depth of each candidate, from 0; steps: the number of draft steps, one per depth;
 *   tested: the candidates with a verdict, in order; together: one decision gives all verdicts
 *   (block verification)
 * @typedef {{row: number, column: number, up: number}} Cell  up: rows to its parent
 * @typedef {{cells: (Cell|null)[], extra: Cell, hidden: number}} Layout  null on a hidden line
 */

/** @type {WeakMap<Round, Shape>} */
const shapes = new WeakMap();

/** Whether this is a round: an engine's answer also has steps without drafts. @param {Round} round */
export function isRound({ number }) {
  return number !== null;
}

/** The round's number on the page; null if it is not a round. @param {Round} round @param {number} index @returns {number|null} */
export function numberOf({ number }, index) {
  return number === undefined ? index + 1 : number;
}

/** The round's name in a sentence. @param {Round} round @param {number} index */
export function nameOf(round, index) {
  return isRound(round) ? `round ${numberOf(round, index)}` : "outside the rounds";
}

/** The place of a round among all of them, as text. @param {Round[]} rounds @param {number} index */
export function placeAmong(rounds, index) {
  const number = numberUpTo(rounds, index);
  const last = numberUpTo(rounds, rounds.length - 1);
  if (isRound(rounds[index])) return `round ${number} of ${last}`;
  const where = number ? `after round ${number}` : "before round 1";
  return last ? `${where} of ${last}` : where;
}

/** The number of the last round up to an index; 0 if there is none. @param {Round[]} rounds @param {number} index */
function numberUpTo(rounds, index) {
  const last = rounds.findLastIndex((round, i) => i <= index && isRound(round));
  return last < 0 ? 0 : (numberOf(rounds[last], last) ?? 0);
}

/** The round's name at the start of a sentence. @param {Round} round @param {number} index */
export function titleOf(round, index) {
  const name = nameOf(round, index);
  return name.charAt(0).toUpperCase() + name.slice(1);
}

/** @param {Round} round @returns {Shape} */
export function shapeOf(round) {
  const known = shapes.get(round);
  if (known) return known;
  const shape = measure(round);
  shapes.set(round, shape);
  return shape;
}

/** @param {Round} round @returns {Shape} */
function measure({ candidates }) {
  /** @type {number[]} */
  const depths = [];
  candidates.forEach((candidate, place) => {
    const parent = parentAt(candidate, place);
    depths.push(parent < 0 ? 0 : depths[parent] + 1);
  });
  return {
    depths,
    steps: candidates.length ? depths[depths.length - 1] + 1 : 0,
    tested: candidates.flatMap(({ verdict }, place) => (verdict === "discarded" ? [] : [place])),
    together: candidates.some((each) => "coin" in each),
    branched: candidates.some((each, place) => parentAt(each, place) !== place - 1),
  };
}

/** @param {AnyCandidate} candidate @param {number} place */
function parentAt(candidate, place) {
  return "parent" in candidate && candidate.parent !== undefined ? candidate.parent : place - 1;
}

/** The parent of a candidate; -1 if the candidate continues the text itself. @param {Round} round @param {number} place */
export function parentOf({ candidates }, place) {
  return parentAt(candidates[place], place);
}

/** The children of a candidate, or of the text (-1), in order. @param {Round} round @param {number} place */
export function childrenOf(round, place) {
  return round.candidates.flatMap((each, child) => (parentAt(each, child) === place ? [child] : []));
}

/** The number of candidates drafted after a number of steps. @param {Round} round @param {number} steps */
export function draftedBy(round, steps) {
  const { depths } = shapeOf(round);
  const next = depths.findIndex((depth) => depth >= steps);
  return next < 0 ? depths.length : next;
}

/** The last accepted candidate; -1 if there is none. @param {Round} round */
function lastAccepted({ candidates }) {
  return candidates.findLastIndex(({ verdict }) => verdict === "accepted");
}

const MOST_LINES = 12; // more are hidden until the user shows them

/**
 * The layout of a tree: a column for each depth, a line for each leaf. The extra token is one more
 * child of the last accepted candidate.
 * @param {Round} round @param {boolean} all also the lines without a tested candidate, if there are many
 * @returns {Layout}
 */
export function layoutOf(round, all) {
  const lines = linesOf(round);
  const shown = all || lines.length <= MOST_LINES ? lines : lines.filter((line) => isTested(round, line));
  const last = lastAccepted(round);
  /** @type {(Cell|null)[]} */
  const cells = round.candidates.map(() => null);
  /** @type {Cell} */
  let extra = { row: 0, column: 0, up: 0 };
  const { depths } = shapeOf(round);
  const rowOf = (/** @type {number} */ place) => (place < 0 ? 0 : (cells[place]?.row ?? 0));
  shown.forEach((line, row) => {
    for (const place of line) {
      if (place === EXTRA) extra = { row, column: last < 0 ? 0 : depths[last] + 1, up: row - rowOf(last) };
      else cells[place] = { row, column: depths[place], up: row - rowOf(parentOf(round, place)) };
    }
  });
  return { cells, extra, hidden: lines.length - shown.length };
}

const EXTRA = Infinity;

/** The candidates of each line, from left to right: the first child continues its parent's line. @param {Round} round @returns {number[][]} */
function linesOf(round) {
  const last = lastAccepted(round);
  /** @type {number[][]} */
  const lines = [];
  /** @param {number} place @param {number[]} line */
  const fill = (place, line) => {
    const children = childrenOf(round, place);
    if (place === last) children.push(EXTRA);
    children.forEach((child, order) => {
      const own = order === 0 ? line : [];
      if (order > 0 || place < 0) lines.push(own);
      own.push(child);
      if (child !== EXTRA) fill(child, own);
    });
  };
  fill(-1, []);
  return lines;
}

/** @param {Round} round @param {number[]} line */
function isTested({ candidates }, line) {
  return line.some((place) => place === EXTRA || candidates[place].verdict !== "discarded");
}

/**
 * The place next to another one in a tree: right, the first child; left, the parent; up and down,
 * the candidates of the same depth. Null if there is none.
 * @param {Round} round @param {number} place of a candidate or of the extra token
 * @param {[number, number]} move @param {boolean} all also hidden lines
 * @returns {number|null}
 */
export function besideInTree(round, place, [down, right], all) {
  const behind = round.candidates.length; // the place of the extra token
  const last = lastAccepted(round);
  const parent = place === behind ? last : parentOf(round, place);
  if (right < 0) return parent < 0 ? null : parent;
  const { cells, extra } = layoutOf(round, all);
  if (right > 0) return childrenOf(round, place).find((child) => cells[child]) ?? (place === last && round.extra ? behind : null);
  const spots = [...cells, extra].slice(0, behind + (round.extra ? 1 : 0));
  const from = spots[place];
  const column = spots.flatMap((cell, at) => (cell && cell.column === from?.column ? [{ at, row: cell.row }] : []));
  column.sort((one, other) => one.row - other.row);
  return column[column.findIndex(({ at }) => at === place) + down]?.at ?? null;
}

/** A candidate's position as text. @param {Round} round @param {number} place */
export function placeInRound(round, place) {
  const { depths, branched, steps } = shapeOf(round);
  if (!branched) return `token ${place + 1} of ${round.candidates.length}`;
  const siblings = childrenOf(round, parentOf(round, place));
  const which = siblings.length > 1 ? `, number ${siblings.indexOf(place) + 1} of ${siblings.length}` : "";
  return `token ${depths[place] + 1} of ${steps}${which}`;
}
