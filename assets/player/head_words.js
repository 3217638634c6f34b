// Sentences on the verdict card about a drafting head: which hidden states it read, and which tokens it
// cannot propose.

import { tokenWord } from "./verdict_parts.js";

/** @import { Subject, Words } from "./verdict_subject.js" */

/** @param {Subject} subject @returns {Words} */
export function describeHead({ run, round, spot, candidate, fate }) {
  if (!run.head) return [];
  if (!candidate) {
    const lacks = round.extra && "outside" in round.extra && round.extra.outside && fate !== "drafted";
    return lacks ? [" The head’s vocabulary lacks this token, so it could not have been proposed."] : [];
  }
  const { reads } = run.head;
  const at = round.read_at === undefined ? [] : [" at ", tokenWord(round.read_at)];
  if (spot.place === 0 || !run.head.recycles) return [` The head read ${reads} of the target`, ...at, "."];
  return [` The head read ${reads} of the target`, ...at, ", then continued from its own state."];
}
