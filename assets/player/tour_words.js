// Sentences of the one-minute tour.

import { make } from "./elements.js";
import { distinguish, likelihood } from "./number_words.js";
import { eventKind } from "./round_events.js";
import { chipText } from "./token_text.js";

/** @import { Candidate, Round } from "./payload.d.ts" */

/** Token text in a sentence. @param {string} text */
function quotedToken(text) {
  return make("q", "", {}, [chipText(text)]);
}

/**
 * The caption for a step of the first round.
 * @param {Round} round @param {number} step @returns {(Node|string)[]}
 */
export function captionAt(round, step) {
  const drafted = round.candidates.length;
  const kind = step ? eventKind(round, step) : "draft";
  if (kind === "draft")
    return [make("b", "", {}, ["The small model guesses."]), ` It drafts ${drafted} tokens, one after another. Each step is cheap.`];
  if (kind === "check")
    return [make("b", "", {}, ["The large model checks."]), ` One pass covers all ${drafted} tokens, instead of ${drafted} passes.`];
  if (kind === "land") return landingCaption(round);
  return [make("b", "", {}, ["The tokens are tested from left to right."]), " A token is accepted if the large model finds it likely enough."];
}

/** @param {Round} round */
function landingCaption(round) {
  const { extra } = round;
  const why = extra?.kind === "bonus" ? "All were accepted, so it adds one more:" : "It replaces the rejected token:";
  return [make("b", "", {}, ["The large model adds the last token."]), ` ${why} `, quotedToken(extra?.text ?? "")];
}

/** @param {Candidate} candidate @returns {(Node|string)[]} */
export function questionWords(candidate) {
  const odds = Math.min(1, candidate.target / candidate.draft);
  const [shown] = distinguish(odds, candidate.uniform);
  const [draft, target] = [likelihood(candidate.draft), likelihood(candidate.target)];
  return [
    make("b", "", {}, ["Accept or reject "]),
    quotedToken(candidate.text),
    make("b", "", {}, ["?"]),
    ` The small model gave it ${draft}, the large one only ${target}, so its acceptance probability is ${shown}: a number between 0 and 1 is drawn, and below ${shown} the token is accepted.`,
  ];
}

/** @param {Candidate} candidate @param {boolean} guess whether the user chose "accept" */
export function answerWords(candidate, guess) {
  const odds = Math.min(1, candidate.target / candidate.draft);
  const [drawn] = distinguish(candidate.uniform, odds);
  const said = guess ? "You guessed accept, which was wrong." : "You guessed reject, which was right.";
  const likely = odds > 0.5 ? "Acceptance was more likely." : "Rejection was more likely.";
  return [
    make("b", "", {}, [`The draw was ${drawn}: rejected. `]),
    `${said} ${likely} The tokens after it are discarded, and the large model adds a token of its own instead.`,
  ];
}
