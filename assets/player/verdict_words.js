// Sentences that explain, with the real numbers, why a token was accepted, rejected or added.

import { distinguish, likelihood, share } from "./number_words.js";
import { failedPlace, judged } from "./round_events.js";
import { shapeOf } from "./round_shape.js";
import { describeOwnRecovered, describeSiblings, describeUntested, describeWhatIfBlockVerification, STORIES } from "./rule_stories.js";
import { bothGave, fateWord, numberWord, tokenWord } from "./verdict_parts.js";
import { accepts, allowance, forkAt, leftoverShare, oddsOf } from "./verdict_rule.js";

/** @import { Candidate, Fork, Run } from "./payload.d.ts" */
/** @import { Fate } from "./round_events.js" */
/** @import { Subject, Words } from "./verdict_subject.js" */

const LEFTOVERS = {
  leftover: "the residual distribution",
  target: "the target’s own distribution",
  draft: "the draft’s own distribution",
};

/** The distribution that the recovered token is drawn from. @param {Run} run */
function leftover(run) {
  return LEFTOVERS[run.residual ?? "leftover"];
}

/** @param {Subject} subject @returns {Words} */
function describePending({ round, candidate, passed }) {
  if (!candidate)
    return ["This is the extra token of the round. It is drawn after the candidates have been verified."];
  const gave = numberWord(likelihood(candidate.insight?.draft ?? candidate.draft));
  const count = round.candidates.length;
  const waiting = count > 1 ? `this round’s ${count} tokens` : "it";
  return [
    "The draft proposed ",
    tokenWord(candidate.text),
    ", giving it ",
    gave,
    passed ? ". It has not been tested yet." : `. The target has not verified ${waiting} yet.`,
  ];
}

/** @param {Subject} subject @returns {Words} */
function describeTested(subject) {
  const { run, candidate } = subject;
  if (!candidate) return [];
  if (run.greedy && !run.lossy) return describeGreedy(subject);
  const story = STORIES[run.deciding]?.(subject) ?? [...describeSiblings(subject), ...bothGave(candidate), ...describeDraw(candidate, run)];
  return [...story, ...describeWhatFollowed(subject)];
}

/** @param {Candidate} candidate @param {Run} run @returns {Words} */
function describeDraw(candidate, run) {
  if (candidate.target >= candidate.draft)
    return [": the target’s probability is at least as high, so it is always ", fateWord("accepted"), "."];
  const added = run.lossy ? `; with ε = ${share(run.epsilon)} added, ` : ": ";
  const made = run.lossy ? "(target + ε) / draft" : "target / draft";
  if (candidate.target + allowance(run) >= candidate.draft)
    return [added, "the target’s is at least as high, so it is always ", fateWord("accepted"), "."];
  const [odds, drawn] = distinguish(oddsOf(candidate, run), candidate.uniform);
  return [
    ...[
      added,
      `the acceptance probability, ${made}, is `,
      numberWord(odds),
      ". The draw was ",
      numberWord(drawn),
      ": ",
    ],
    ...[fateWord(candidate.verdict), "."],
  ];
}

/** @param {Subject} subject @returns {Words} */
function describeWhatFollowed({ run, round, spot, fate, landed }) {
  if (fate !== "rejected" || run.deciding === "equal" || !round.extra || !landed || spot.place !== failedPlace(round)) return [];
  return [` The recovered token was drawn from ${leftover(run)}: `, tokenWord(round.extra.text)];
}

/** @param {Subject} subject @returns {Words} */
function describeGreedy(subject) {
  const { run, round, spot, candidate, fate } = subject;
  if (!candidate) return [];
  if (fate === "cut" && spot.place > failedPlace(round)) return describeBehindCut(subject);
  const fork = forkAt(run, spot.round, spot.place);
  if (fork) return describeGreedyFork(subject, fork);
  if (fate === "accepted")
    return [
      "Greedy: the draft proposed ",
      tokenWord(candidate.text),
      ", the target’s likeliest token: ",
      fateWord(fate),
      ".",
    ];
  const likeliest = round.extra ? [tokenWord(round.extra.text)] : ["another"];
  return [
    ...["Greedy: the target’s likeliest token is ", ...likeliest, "; the draft proposed "],
    ...[tokenWord(candidate.text), ": ", fateWord(fate), "."],
  ];
}

/** @param {Subject} subject @returns {Words} */
function describeBehindCut({ round, fate }) {
  const first = judged(round.candidates[failedPlace(round)]);
  return ["This token comes after ", ...(first ? [tokenWord(first.text)] : []), ", which is not the target’s token, so both are ", fateWord(fate), "."];
}

/** @param {Subject} subject @param {Fork} fork @returns {Words} */
function describeGreedyFork({ round, candidate, fate }, fork) {
  if (!candidate) return [];
  const said = fate === "accepted" ? candidate : round.extra;
  const likeliest = fork.likeliest === null ? [] : [", ", tokenWord(fork.likeliest)];
  return [
    ...["In this fork the target emits ", ...(said ? [tokenWord(said.text)] : ["another token"]), " instead of its likeliest token", ...likeliest],
    ...["; the draft proposed ", tokenWord(candidate.text), ": ", fateWord(fate), "."],
  ];
}

/** A sentence on the original draw at a place where a fork changed the draw. @param {Subject} subject @returns {Words} */
export function describeFork({ run, spot, candidate, fate }) {
  const fork = forkAt(run, spot.round, spot.place);
  if (!candidate || fork === null || fork.draw === null || fate === "drafted") return [];
  const [drawn] = distinguish(fork.draw, oddsOf(candidate, run));
  return [" This run is a fork; the original draw was ", numberWord(drawn), "."];
}

/** @param {Subject} subject @returns {Words} */
function describeDiscarded(subject) {
  const { run, candidate } = subject;
  if (!candidate) return [];
  return [...describeUntested(subject), ...(run.greedy ? [] : [" ", ...bothGave(candidate), "."])];
}

/** @param {Subject} subject @returns {Words} */
function describeRecovered(subject) {
  const { run, round, spot } = subject;
  const failed = judged(round.candidates[failedPlace(round)]);
  if (!round.extra || !failed) return [];
  const [own, struck] = [tokenWord(round.extra.text), tokenWord(failed.text)];
  if (run.greedy && forkAt(run, spot.round, failedPlace(round)))
    return [own, ": the target’s token in this fork, replacing ", struck, ", which was rejected."];
  if (run.greedy)
    return [own, ": the target’s likeliest token, replacing ", struck, ", which was rejected."];
  const described = describeOwnRecovered(subject);
  if (described) return described;
  const held = leftoverShare(round, run);
  const much = held === null ? ["."] : [". Its probability there was ", numberWord(likelihood(held)), "."];
  return ["The recovered token ", own, ` was drawn from ${leftover(run)} after `, struck, " was rejected", ...much];
}

/** @param {Subject} subject @returns {Words} */
function describeBonus({ run, round }) {
  if (!round.extra || !("uniform" in round.extra)) return [];
  const own = tokenWord(round.extra.text);
  const gave = numberWord(likelihood(round.extra.target));
  const adds = [
    shapeOf(round).branched ? "A whole path of drafted tokens was accepted" : allAccepted(round.candidates.length),
    ", so the target adds a bonus token: ",
    own,
  ];
  return run.greedy ? [...adds, ", its likeliest."] : [...adds, ", which it gave ", gave, "."];
}

/** @param {number} count */
function allAccepted(count) {
  if (count === 0) return "Nothing was drafted in this round";
  return count === 1 ? "The one candidate was accepted" : `All ${count} candidates were accepted`;
}

/** @type {Record<Fate, (subject: Subject) => Words>} */
export const DESCRIPTIONS = {
  drafted: describePending,
  accepted: describeTested,
  rejected: describeTested,
  cut: describeTested,
  discarded: describeDiscarded,
  recovered: describeRecovered,
  bonus: describeBonus,
  prompt: () => [],
  unreported: () => [],
};

/** @param {Subject} subject @param {number} drawn @returns {Words} */
export function describeWhatIf(subject, drawn) {
  const { run, round, spot, candidate, fate } = subject;
  if (!candidate) return [];
  if (run.deciding === "together") return describeWhatIfBlockVerification(subject, drawn);
  const accepted = accepts(candidate, run, drawn);
  const word = fateWord(accepted ? "accepted" : "rejected");
  const [shown] = distinguish(drawn, oddsOf(candidate, run));
  if (fate === "discarded")
    return [
      "Had it been tested with a draw of ",
      numberWord(shown),
      ", it would have been ",
      word,
      ".",
    ];
  if (accepted === (fate === "accepted"))
    return ["With a draw of ", numberWord(shown), " it would still have been ", word, "."];
  if (shapeOf(round).branched) return ["With a draw of ", numberWord(shown), " it would have been ", word, "."];
  const last = spot.place === round.candidates.length - 1;
  const next = last
    ? "a bonus token from the target would have followed"
    : "the next candidate would have been tested";
  const then = accepted ? next : `a token from ${leftover(run)} would have replaced it`;
  return ["With a draw of ", numberWord(shown), " it would have been ", word, `, and ${then}.`];
}
