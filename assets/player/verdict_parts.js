// Parts of the sentences on the verdict card.

import { make } from "./elements.js";
import { likelihood } from "./number_words.js";
import { showToken } from "./token_text.js";

/** @import { Candidate } from "./payload.d.ts" */
/** @import { Fate } from "./round_events.js" */
/** @import { Words } from "./verdict_subject.js" */

/** @param {string} text */
export function tokenWord(text) {
  const word = make("q", "vd-token");
  showToken(word, text);
  return word;
}

/** @param {string} text */
export function numberWord(text) {
  return make("b", "vd-number", {}, [text]);
}

/** @param {Fate|string} fate */
export function fateWord(fate) {
  return make("em", `vd-fate vd-${fate}`, {}, [fate]);
}

/** @param {Candidate} candidate @returns {Words} */
export function bothGave(candidate) {
  const [draft, target] = [likelihood(candidate.draft), likelihood(candidate.target)];
  return [
    "The draft gave ",
    tokenWord(candidate.text),
    " ",
    numberWord(draft),
    ", the target ",
    numberWord(target),
  ];
}
