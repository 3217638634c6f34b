// Sentences that explain a verdict where the token's own acceptance probability does not decide it
// alone: one function per verification rule, and the sentences for tokens in a tree.

import { distinguish, likelihood, share } from "./number_words.js";
import { failedPlace, judged } from "./round_events.js";
import { childrenOf, parentOf, shapeOf } from "./round_shape.js";
import { bothGave, fateWord, numberWord, tokenWord } from "./verdict_parts.js";

/** @import { Round, Run } from "./payload.d.ts" */
/** @import { Subject, Words } from "./verdict_subject.js" */

/** By verification rule; other rules use the default explanation. @type {Partial<Record<Run["deciding"], (subject: Subject) => Words>>} */
export const STORIES = { together: describeBlockVerification, equal: describeTokenMatching, threshold: describeThreshold };

/** @param {Subject} subject @returns {Words} */
function describeBlockVerification(subject) {
  const { round, spot, candidate, fate } = subject;
  if (!candidate || candidate.coin === undefined || candidate.joint === undefined) return [];
  const [coin, drawn] = distinguish(candidate.coin, candidate.uniform);
  const weighed = [
    ...bothGave(candidate),
    ". Block verification: the product of target / draft up to this token, capped at 1 after each token, is ",
    numberWord(share(candidate.joint)),
    ". With the residual after this token, the probability of keeping the text up to this token is ",
    numberWord(coin),
    ". The draw was ",
    numberWord(drawn),
  ];
  if (fate === "cut") return [...weighed, ": the text is kept neither up to this token nor up to a later token, so this token is ", fateWord(fate), "."];
  const last = numAccepted(round) - 1;
  if (spot.place === last) return [...weighed, ": kept, so this token and all before it are ", fateWord(fate), "."];
  const later = judged(round.candidates[last]);
  const own = candidate.uniform < candidate.coin ? ": kept up to this token, and the later " : ": not kept up to this token alone, but the later ";
  return [...weighed, own, ...(later ? [tokenWord(later.text)] : ["token"]), " was accepted, so this token is ", fateWord(fate), ", too."];
}

/** How many candidates of a chain are accepted. @param {Round} round */
function numAccepted({ candidates }) {
  return candidates.filter(({ verdict }) => verdict === "accepted").length;
}

/** How many candidates block verification would accept with another draw. @param {Round} round @param {number} place @param {number} drawn */
function numAcceptedWith({ candidates }, place, drawn) {
  return 1 + candidates.findLastIndex((each, at) => {
    const known = judged(each);
    return known?.coin !== undefined && (at === place ? drawn : known.uniform) < known.coin;
  });
}

/** @param {Subject} subject @param {number} drawn @returns {Words} */
export function describeWhatIfBlockVerification({ round, spot }, drawn) {
  const accepted = numAcceptedWith(round, spot.place, drawn);
  const [shown] = distinguish(drawn, judged(round.candidates[spot.place])?.coin ?? 0);
  const count = round.candidates.length;
  const many = accepted === 0 ? "none would" : accepted === count ? `all ${count} would` : `${accepted} of ${count} would`;
  return ["With a draw of ", numberWord(shown), `, ${many} ${accepted === numAccepted(round) ? "still " : ""}be accepted.`];
}

/** @param {Subject} subject @returns {Words} */
function describeTokenMatching({ round, spot, candidate, fate }) {
  const rival = candidate?.rival;
  if (!candidate || !rival) return [];
  const [own, said] = [tokenWord(candidate.text), tokenWord(rival.text)];
  const same = fate === "accepted";
  const verdict = same ? [": the same token, so it is ", fateWord(fate), "."] : [": a different token, so the draft’s is ", fateWord(fate), " and the target’s is used."];
  if (rival.noise === undefined)
    return [
      ...["The draft proposed ", own, siblingsOf(round, spot.place).length > 1 ? ", one of its likeliest tokens" : ", its likeliest token", ". The target sampled ", said, ", which had probability ", numberWord(likelihood(rival.target))],
      ...verdict,
    ];
  return [
    ...["Both models share the same noise: each token gets a random time, divided by its probability under the model, and the token with the earliest time wins. In the draft’s race "],
    ...[own, " won, in the target’s race ", said],
    ...verdict,
  ];
}

/** @param {Subject} subject @returns {Words} */
function describeThreshold({ run, candidate, fate }) {
  if (!candidate) return [];
  return [
    ...bothGave(candidate),
    ". Typical acceptance requires a minimum target probability, at most ",
    numberWord(likelihood(run.epsilon)),
    " and lower where the target is uncertain. No draw decides: ",
    fateWord(fate),
    ".",
  ];
}

/** The token's position among its siblings in the tree, if it has any. @param {Subject} subject @returns {Words} */
export function describeSiblings({ run, round, spot }) {
  const siblings = siblingsOf(round, spot.place);
  const order = siblings.indexOf(spot.place);
  if (order <= 0) return siblings.length > 1 ? [`Candidate 1 of ${siblings.length} at this position. `] : [];
  const fell = siblings.slice(0, order).map((place) => judged(round.candidates[place]));
  const names = fell.flatMap((each, at) => (each ? [at ? (at === fell.length - 1 ? " and " : ", ") : "", tokenWord(each.text)] : []));
  const left = run.greedy || run.deciding === "equal" ? ". " : ", and the target’s distribution was reduced to its residual. ";
  return [`Candidate ${order + 1} of ${siblings.length} at this position: before it, `, ...names, ` ${fell.length > 1 ? "were" : "was"} rejected${left}`];
}

/** @param {Round} round @param {number} place */
function siblingsOf(round, place) {
  return shapeOf(round).branched ? childrenOf(round, parentOf(round, place)) : [place];
}

/** Why a token was never tested. @param {Subject} subject @returns {Words} */
export function describeUntested({ round, spot }) {
  const { candidates } = round;
  const left = (/** @type {number} */ place) => {
    const token = judged(candidates[place]);
    return token ? tokenWord(token.text) : "another";
  };
  for (let place = spot.place; place >= 0; place = parentOf(round, place)) {
    const accepted = siblingsOf(round, place).find((each) => candidates[each].verdict === "accepted");
    if (accepted !== undefined && accepted !== place) return [place === spot.place ? "This token comes after " : "The branch of this token comes after ", left(accepted), ", which was accepted, so it was ", fateWord("discarded"), " untested."];
    const parent = parentOf(round, place);
    const fell = parent >= 0 && ["rejected", "cut"].includes(candidates[parent].verdict);
    if (fell) return ["Drafted after ", left(parent), `, which was ${candidates[parent].verdict}. This token continued that text, so it was `, fateWord("discarded"), " untested."];
  }
  return ["Drafted past the end of the text, so ", fateWord("discarded"), " untested."];
}

/** How the recovered token was drawn; null if it was drawn from the residual of a single candidate. @param {Subject} subject @returns {Words|null} */
export function describeOwnRecovered({ run, round }) {
  const failed = judged(round.candidates[failedPlace(round)]);
  const { extra } = round;
  if (!failed || !extra || run.greedy) return null;
  const [own, struck] = [tokenWord(extra.text), tokenWord(failed.text)];
  if (run.deciding === "equal") return [own, ": the target’s own sample, replacing ", struck, "."];
  if (run.deciding === "together") return [own, " replaces ", struck, ", the first token that was cut. It was drawn from the residual of block verification."];
  const tried = siblingsOf(round, failedPlace(round)).length;
  if (tried > 1) return [own, ` was drawn after all ${tried} candidates at this position were rejected. It was drawn from the residual that remained.`];
  return null;
}
