// A recording is one run in the player: its rounds, and where they begin, counted in events,
// tokens and seconds. The page keeps the recordings of the last few runs. This file draws nothing.

import { emittedBy, eventKind, eventsOf, PACE, passedAt, READABLE_ROUND, tokensIn, trueWait } from "./round_events.js";
import { secondsOf } from "./round_times.js";

/** @import { PromptPart, Round, SentRounds } from "./payload.d.ts" */

/** One run, which grows by rounds. Prefix sums make it cheap to locate a cursor. */
export class Recording {
  /** @param {string} id @param {string} [edition] key of what an engine has reported */
  constructor(id, edition = "") {
    this.id = id;
    this.edition = edition;
    /** @type {PromptPart[]} */
    this.prompt = [];
    /** @type {Round[]} */
    this.rounds = [];
    /** Events before each round; the last entry is their total. */
    this.starts = [0];
    /** Emitted tokens before each round; the last entry is their total. */
    this.tokens = [0];
    /** Pieces of text before each round: one per token, unless an engine sends several tokens in one piece. */
    this.pieces = [0];
    /** Seconds before each round, without the time that recording takes; the last entry is their total. */
    this.seconds = [0];
  }

  get end() {
    return this.starts[this.starts.length - 1];
  }

  /**
  * Add rounds; the first has the index `from`. Rounds that are already here are skipped, and after a
  * gap nothing is added.
   * @param {number} from @param {Round[]} items @returns {number} how many were new
   */
  append(from, items) {
    if (from > this.rounds.length) return 0;
    const fresh = items.slice(this.rounds.length - from);
    for (const round of fresh) {
      const last = this.rounds.length;
      this.rounds.push(round);
      this.starts.push(this.starts[last] + eventsOf(round));
      this.tokens.push(this.tokens[last] + tokensIn(round));
      this.pieces.push(this.pieces[last] + emittedBy(round).length);
      this.seconds.push(this.seconds[last] + secondsOf(round.times));
    }
    return fresh.length;
  }

  /** Whether these rounds begin with the rounds of the recording. @param {Round[]} items */
  beginsLike(items) {
    return this.rounds.every((round, i) => JSON.stringify(round) === JSON.stringify(items[i]));
  }

  /**
  * Locate a cursor: its round, and the number of the round's events before it. A cursor at the end
   * of a round belongs to that round, not to the next.
   * @param {number} cursor @returns {{round: number, step: number}}
   */
  place(cursor) {
    if (cursor <= 0 || this.rounds.length === 0) return { round: 0, step: 0 };
    let low = 0;
    let high = this.rounds.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.starts[middle] < cursor) low = middle;
      else high = middle - 1;
    }
    return { round: low, step: cursor - this.starts[low] };
  }

  /**
   * Milliseconds from the event at `cursor` to the next, at a speed.
   * @param {number} cursor @param {string} speed
   */
  wait(cursor, speed) {
    const next = this.place(cursor + 1);
    const round = this.rounds[next.round];
    const passed = next.step === passedAt(round);
    const kind = passed ? "pass" : eventKind(round, next.step);
    if (speed === "true") return 1000 * trueWait(round, kind);
    if (speed === "readable") return READABLE_ROUND / eventsOf(round);
    const rest = next.step === 1 && next.round > 0 ? PACE.rest : 0;
    return (PACE[kind] + rest) / Number(speed);
  }
}

const REMEMBERED = 6; // recordings

/** @type {Map<string, Recording>} */
const recordings = new Map();

/** @param {string} id @param {SentRounds} [sent] given if the edition may differ */
export function recordingOf(id, sent) {
  const known = recordings.get(id);
  const recording = known && isSame(known, sent) ? known : new Recording(id);
  if (sent?.edition) recording.edition = sent.edition;
  recordings.delete(id);
  recordings.set(id, recording); // the newest last
  const oldest = recordings.keys().next().value;
  if (recordings.size > REMEMBERED && oldest !== undefined) recordings.delete(oldest);
  return recording;
}

/** Whether rounds belong to a recording: an engine may report more about them after its answer ends. @param {Recording} known @param {SentRounds} [sent] */
function isSame(known, sent) {
  if (!sent?.edition || sent.edition === known.edition) return true;
  return sent.from === 0 && known.beginsLike(sent.items);
}
