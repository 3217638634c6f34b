// These functions write why a token stands or falls where its own odds alone do not decide: one story
// for each way of judging, and what is said of a token in a tree.

import { likelihood, share, toldApart } from "./number_words.js";
import { failedPlace, judged } from "./round_events.js";
import { childrenOf, parentOf, shapeOf } from "./round_shape.js";
import { bothGave, fateWord, numberWord, tokenWord } from "./verdict_parts.js";

/** @import { Round, Run } from "./payload.d.ts" */
/** @import { Subject, Words } from "./verdict_subject.js" */

/** Of the ways of judging that have a story of their own. @type {Partial<Record<Run["deciding"], (subject: Subject) => Words>>} */
export const STORIES = { together: tellTogether, equal: tellEqual, threshold: tellThreshold };

/** @param {Subject} subject @returns {Words} */
function tellTogether(subject) {
  const { round, spot, candidate, fate } = subject;
  if (!candidate || candidate.coin === undefined || candidate.joint === undefined) return [];
  const [coin, drawn] = toldApart(candidate.coin, candidate.uniform);
  const weighed = [
    ...bothGave(candidate),
    ". All are judged together: multiplied up to here the joint odds are ",
    numberWord(share(candidate.joint)),
    ", and with what the target has left over behind it, the odds that the text goes on from here are ",
    numberWord(coin),
    ". The draw was ",
    numberWord(drawn),
  ];
  if (fate === "cut") return [...weighed, ": not from here, nor from a later place, so it is ", fateWord(fate), "."];
  const last = standing(round) - 1;
  if (spot.place === last) return [...weighed, ": it does, so this one and all before it are ", fateWord(fate), "."];
  const later = judged(round.candidates[last]);
  const own = candidate.uniform < candidate.coin ? ": it would, but " : ": not from here, but ";
  return [...weighed, own, ...(later ? [tokenWord(later.text)] : ["a later one"]), " behind it stands, so it is ", fateWord(fate), "."];
}

/** How many candidates of a chain stand. @param {Round} round */
function standing({ candidates }) {
  return candidates.filter(({ verdict }) => verdict === "accepted").length;
}

/** How many would stand, judged together, had a draw been another one. @param {Round} round @param {number} place @param {number} drawn */
export function standingWith({ candidates }, place, drawn) {
  return 1 + candidates.findLastIndex((each, at) => {
    const known = judged(each);
    return known?.coin !== undefined && (at === place ? drawn : known.uniform) < known.coin;
  });
}

/** @param {Subject} subject @param {number} drawn @returns {Words} */
export function tellWhatIfTogether({ round, spot }, drawn) {
  const stand = standingWith(round, spot.place, drawn);
  const [told] = toldApart(drawn, judged(round.candidates[spot.place])?.coin ?? 0);
  const count = round.candidates.length;
  const many = stand === 0 ? "none would" : stand === count ? `all ${count} would` : `${stand} of ${count} would`;
  return ["With a draw of ", numberWord(told), `, ${many} ${stand === standing(round) ? "still " : ""}stand.`];
}

/** @param {Subject} subject @returns {Words} */
function tellEqual({ candidate, fate }) {
  const rival = candidate?.rival;
  if (!candidate || !rival) return [];
  const [own, said] = [tokenWord(candidate.text), tokenWord(rival.text)];
  const same = fate === "accepted";
  const verdict = same ? [" too: the same, so it is ", fateWord(fate), "."] : [`: another one, so the draft’s is `, fateWord(fate), " and the target’s stands."];
  if (rival.noise === undefined)
    return [
      ...["The draft proposed ", own, ", its likeliest. The target drew a token of its own, ", said, ", which it gave ", numberWord(likelihood(rival.target))],
      ...verdict,
    ];
  return [
    ...["Both models run the same race: each token waits for its own random time, divided by the odds that the model gives it. In the draft’s race "],
    ...[own, " came first, in the target’s ", said],
    ...verdict,
  ];
}

/** @param {Subject} subject @returns {Words} */
function tellThreshold({ run, candidate, fate }) {
  if (!candidate) return [];
  return [
    ...bothGave(candidate),
    ". Typical acceptance keeps what the target finds likely enough, at most ",
    numberWord(likelihood(run.epsilon)),
    " and less where it is unsure; no draw decides: ",
    fateWord(fate),
    ".",
  ];
}

/** Its place among others that hang on the same token, where there are any. @param {Subject} subject @returns {Words} */
export function tellSiblings({ run, round, spot }) {
  const siblings = siblingsOf(round, spot.place);
  const order = siblings.indexOf(spot.place);
  if (order <= 0) return siblings.length > 1 ? [`The first of ${siblings.length} tried in this place. `] : [];
  const fell = siblings.slice(0, order).map((place) => judged(round.candidates[place]));
  const names = fell.flatMap((each, at) => (each ? [at ? (at === fell.length - 1 ? " and " : ", ") : "", tokenWord(each.text)] : []));
  const left = run.greedy ? ". " : ", and with them went what they claimed of the target’s odds. ";
  return [`Number ${order + 1} of ${siblings.length} in this place: before it `, ...names, ` fell${left}`];
}

/** @param {Round} round @param {number} place */
function siblingsOf(round, place) {
  return shapeOf(round).branched ? childrenOf(round, parentOf(round, place)) : [place];
}

/** Why a token was never tested. @param {Subject} subject @returns {Words} */
export function tellUntested({ round, spot }) {
  const { candidates } = round;
  const left = (/** @type {number} */ place) => {
    const token = judged(candidates[place]);
    return token ? tokenWord(token.text) : "another";
  };
  for (let place = spot.place; place >= 0; place = parentOf(round, place)) {
    const stands = siblingsOf(round, place).find((each) => candidates[each].verdict === "accepted");
    if (stands !== undefined && stands !== place) return [place === spot.place ? "Tried after " : "It hangs on a token tried after ", left(stands), ", which stands already, so it was ", fateWord("discarded"), " untested."];
    const parent = parentOf(round, place);
    const fell = parent >= 0 && ["rejected", "cut"].includes(candidates[parent].verdict);
    if (fell) return ["Drafted after ", left(parent), `, which was ${candidates[parent].verdict}. It continued a text that no longer stands, so it was `, fateWord("discarded"), " untested."];
  }
  return ["Drafted past the end of the text, so ", fateWord("discarded"), " untested."];
}

/** How the token that takes the place of all that fell there was drawn, if not from a plain leftover. @param {Subject} subject @returns {Words|null} */
export function tellOwnRecovered({ run, round }) {
  const failed = judged(round.candidates[failedPlace(round)]);
  const { extra } = round;
  if (!failed || !extra || run.greedy) return null;
  const [own, struck] = [tokenWord(extra.text), tokenWord(failed.text)];
  if (run.deciding === "equal") return [own, ": what the target said itself in the place of ", struck, "."];
  if (run.deciding === "together") return [own, " was drawn in the place of ", struck, ", the first that was cut, from what the joint odds left over of the target’s."];
  const tried = siblingsOf(round, failedPlace(round)).length;
  if (tried > 1) return [own, ` was drawn after all ${tried} drafts for this place fell, from what they left over of the target’s odds: the leftover of the leftover.`];
  return null;
}
