// Announces finished rounds to users of screen readers.

import { make } from "./elements.js";
import { eventsOf } from "./round_events.js";
import { numberOf, titleOf } from "./round_shape.js";
import { spokenText } from "./token_text.js";

/** @import { Store } from "./base_store.js" */
/** @import { Round } from "./payload.d.ts" */
/** @import { Recording } from "./recording.js" */

/** @param {Round} round @param {number} index @returns {string} a finished round in words */
function roundWords(round, index) {
  if (!round.candidates.length && round.unreported) return `${titleOf(round, index)}: ${round.unreported.map(({ text }) => spokenText(text)).join("")}`;
  const accepted = round.candidates.filter((each) => each.verdict === "accepted").length;
  const rejected = round.candidates.findLast((each) => each.verdict === "rejected");
  const words = [`${titleOf(round, index)}: ${accepted} of ${round.candidates.length} accepted`];
  const cut = round.candidates.filter((each) => each.verdict === "cut").length;
  if (cut) words.push(`${cut} cut`);
  if (rejected) words.push(rejected.text === null ? "one rejected" : `‘${spokenText(rejected.text)}’ rejected`);
  if (round.extra) words.push(`${round.extra.kind} ‘${spokenText(round.extra.text)}’`);
  return `${words.join(", ")}.`;
}

/** The rounds from one index to another, as text. @param {Recording} recording @param {number} from @param {number} to */
function namesOf({ rounds }, from, to) {
  const numbers = rounds.slice(from, to).flatMap((round, i) => numberOf(round, from + i) ?? []);
  if (numbers.length === 1) return `Round ${numbers[0]}`;
  return numbers.length ? `Rounds ${numbers[0]} to ${numbers[numbers.length - 1]}` : "Outside the rounds";
}

/** Announces finished rounds, at most once a second. */
class Announcer {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.element = make("div", "unseen", { "aria-live": "polite", role: "status" });
    /** @type {Recording|null} */
    this.recording = null;
    this.said = 0; // how many rounds have been announced
    this.quiet = 0; // no announcement before this time
    this.later = 0;
  }

  draw() {
    const { store } = this;
    const over = this.finished();
    if (store.recording !== this.recording || over < this.said || store.announcedElsewhere) {
      this.recording = store.recording;
      this.said = over;
    }
    if (over > this.said && !this.later) this.announceSoon();
  }

  /** The number of rounds that are finished at the cursor. */
  finished() {
    const { recording, cursor } = this.store;
    if (cursor <= 0 || !recording.rounds.length) return 0;
    const { round, step } = recording.place(cursor);
    return round + (step >= eventsOf(recording.rounds[round]) ? 1 : 0);
  }

  announceSoon() {
    const wait = Math.max(0, this.quiet - performance.now());
    this.later = window.setTimeout(() => this.announce(), wait);
  }

  announce() {
    const over = this.finished();
    const { recording } = this.store;
    this.later = 0;
    this.quiet = performance.now() + 1000;
    if (over <= this.said) return;
    const tokens = recording.tokens[over] - recording.tokens[this.said];
    this.element.textContent =
      over === this.said + 1
        ? roundWords(recording.rounds[over - 1], over - 1)
        : `${namesOf(recording, this.said, over)}: ${tokens} tokens.`;
    this.said = over;
  }

  close() {
    clearTimeout(this.later);
  }
}

/** @param {Store} store */
export function makeAnnouncer(store) {
  return new Announcer(store);
}
