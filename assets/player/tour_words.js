// These functions write what the tour of the first minute says.

import { make } from "./elements.js";
import { likelihood, toldApart } from "./number_words.js";
import { eventKind } from "./round_events.js";
import { chipText } from "./token_text.js";

/** @import { Candidate, Round } from "./payload.d.ts" */

/** Token text within a sentence. @param {string} text */
function quotedToken(text) {
  return make("q", "", {}, [chipText(text)]);
}

/**
 * What to say at a step of the first round.
 * @param {Round} round @param {number} step @returns {(Node|string)[]}
 */
export function captionAt(round, step) {
  const drafted = round.candidates.length;
  const kind = step ? eventKind(round, step) : "draft";
  if (kind === "draft")
    return [make("b", "", {}, ["The small model guesses."]), ` It drafts ${drafted} tokens, one after another, which is quick and cheap.`];
  if (kind === "check")
    return [make("b", "", {}, ["The large model checks."]), ` One pass over all ${drafted} at once, in place of ${drafted} passes.`];
  if (kind === "land") return landingCaption(round);
  return [make("b", "", {}, ["They are judged from left to right."]), " A token stays if the large model finds it likely enough."];
}

/** @param {Round} round */
function landingCaption(round) {
  const { extra } = round;
  const why = extra?.kind === "bonus" ? "All were accepted, so it adds one more:" : "In place of the rejected token it puts its own:";
  return [make("b", "", {}, ["The large model has the last word."]), ` ${why} `, quotedToken(extra?.text ?? "")];
}

/** @param {Candidate} candidate @returns {(Node|string)[]} */
export function questionWords(candidate) {
  const odds = Math.min(1, candidate.target / candidate.draft);
  const [told] = toldApart(odds, candidate.uniform);
  const [draft, target] = [likelihood(candidate.draft), likelihood(candidate.target)];
  return [
    make("b", "", {}, ["Accept or reject "]),
    quotedToken(candidate.text),
    make("b", "", {}, ["?"]),
    ` The small model gave it ${draft}, the large one only ${target}, so its odds of acceptance are ${told}: a number between 0 and 1 is drawn, and below ${told} it stays.`,
  ];
}

/** @param {Candidate} candidate @param {boolean} guess whether the person said: accept */
export function answerWords(candidate, guess) {
  const odds = Math.min(1, candidate.target / candidate.draft);
  const [drawn] = toldApart(candidate.uniform, odds);
  const said = guess ? "You said accept, which is not what happened." : "You said reject, and that is what happened.";
  const likely = odds > 0.5 ? "Acceptance was the likelier outcome." : "Rejection was the likelier outcome.";
  return [
    make("b", "", {}, [`The draw was ${drawn}: rejected. `]),
    `${said} ${likely} The tokens after it are discarded too, and the large model puts one of its own in their place.`,
  ];
}
