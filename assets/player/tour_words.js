// The texts of the tour, and its picture of a pass.

import { make } from "./elements.js";
import { distinguish, likelihood } from "./number_words.js";
import { showToken } from "./token_text.js";
import { forkBarrier } from "./verdict_rule.js";

/** @import { Candidate, RunPayload, RoundCost } from "./payload.d.ts" */
/** @import { Recording } from "./recording.js" */

/** @typedef {(Node|string)[]} Words */

/** Token text in a sentence. @param {string} text */
function quotedToken(text) {
  const word = make("q");
  showToken(word, text);
  return word;
}

/** @param {string} title @param {Words} words */
function titled(title, ...words) {
  return make("p", "", {}, [make("b", "", {}, [title]), " ", ...words]);
}

/** @type {Record<string, (recording: Recording, data: Partial<RunPayload>) => Words>} */
const CARDS = {
  draft: ({ rounds }) => [titled("The draft, a small model, guesses.", `It writes ${rounds[0].candidates.length} tokens, one after another. Each step is cheap.`)],
  check: ({ rounds }, { summary }) => {
    const count = rounds[0].candidates.length;
    return [
      titled(`The target, the large model, checks all ${count} at once.`, `A step mostly reads the weights from memory. One pass reads them once, whether for 1 token or for these ${count} and the next one.`),
      makeReading(count + 1),
      ...measuredCheck(summary?.round_cost),
    ];
  },
  test: () => [titled("Each token is tested, from left to right.", "A token stays if the target gives it at least the probability that the draft gave it. Otherwise chance decides: a token with half the draft’s probability stays with probability 0.5.")],
  bonus: ({ rounds }) => [titled("All were accepted, so one more is free.", "The same pass gives the target’s own next token, the bonus token: ", quotedToken(rounds[0].extra?.text ?? ""))],
  safe: ({ rounds }) => [
    titled("The result is not distorted.", "The draft offers some tokens too often; these are sometimes rejected. It offers others too rarely; one of those, the recovered token, replaces a rejected token. So every text is as likely as if the target had written it alone."),
    ...(rounds[0].extra?.kind === "bonus" ? [] : [make("p", "", {}, ["If all tokens of a round stay, the pass gives one more token: the bonus token."])]),
  ],
  drag: (_, data) => [
    titled("Your turn: drag the draw below.", "Past the edge of the green part, the verdict changes.", data.run?.forkable ? " Then the button “Fork here” appears. It makes a run that continues from the other verdict." : ` ${forkBarrier(data)}`),
  ],
};

/** @param {string} name of the card @param {Recording} recording @param {Partial<RunPayload>} data */
export function wordsOfCard(name, recording, data) {
  return CARDS[name](recording, data);
}

/** The cost of a check in the bar picture above. @param {RoundCost|null|undefined} cost @returns {Words} */
function measuredCheck(cost) {
  if (!cost || cost.predicted) return [];
  const steps = `a check takes ${cost.verification.toFixed(2)} single steps (“verify” above)`;
  const words = cost.verification > 1 ? `Computing for more tokens (green) also takes time: here ${steps}.` : `Here, ${steps}.`;
  return [make("p", "", {}, [words])];
}

/** A picture: the weights are read once, for one token or for several. @param {number} count */
function makeReading(count) {
  /** @param {number} tokens */
  const pass = (tokens) => [
    make("span", "", {}, [tokens === 1 ? "1 token" : `${tokens} tokens`]),
    make("span", "tour-weights", {}, [make("i"), make("span", "", {}, ["read the weights"])]),
    make("span", "tour-slots", {}, Array.from({ length: tokens }, () => make("i"))),
  ];
  const label = `A pass reads the weights once, for 1 token and for ${count} tokens.`;
  return make("div", "tour-reading", { role: "img", "aria-label": label }, [...pass(1), ...pass(count)]);
}

/** @returns {Words} */
export function againWords() {
  return [titled("And again.", "The tour stops at a token that the target doubts, and asks you: accept or reject?")];
}

/** @param {Candidate} candidate @returns {Words} */
export function questionWords(candidate) {
  const odds = Math.min(1, candidate.target / candidate.draft);
  const [shown] = distinguish(odds, candidate.uniform);
  const [draft, target] = [likelihood(candidate.draft), likelihood(candidate.target)];
  return [
    make("p", "", {}, [
      make("b", "", {}, ["Guess: accept or reject "]),
      quotedToken(candidate.text),
      make("b", "", {}, ["?"]),
      ` The draft gave it ${draft}, the target only ${target}, so its acceptance probability is ${shown}. A number between 0 and 1 is drawn: below ${shown}, the token stays.`,
    ]),
  ];
}

/** @param {Candidate} candidate @param {boolean} guess whether the user chose "accept" @returns {Words} */
export function answerWords(candidate, guess) {
  const odds = Math.min(1, candidate.target / candidate.draft);
  const [drawn, shown] = distinguish(candidate.uniform, odds);
  const said = guess ? "You guessed accept, which was wrong." : "You guessed reject, which was right.";
  const likely = odds > 0.5 ? "Acceptance was more likely." : "Rejection was more likely.";
  return [titled(`The random draw was ${drawn}, not below ${shown}: rejected.`, `${said} ${likely} The tokens after it are discarded, and a recovered token is drawn.`)];
}
