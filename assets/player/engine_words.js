// Sentences on what is known about a token in an engine's answer, and what the engine does not
// report.

import { make } from "./elements.js";
import { likelihood } from "./number_words.js";
import { isRound, nameOf } from "./round_shape.js";
import { fateWord, tokenWord } from "./verdict_parts.js";

/** @import { Engine, Round } from "./payload.d.ts" */
/** @import { Subject, Words } from "./verdict_subject.js" */

/** @param {Subject} subject @param {Engine} engine @returns {Words} */
export function describeAnswer(subject, engine) {
  const known = [...describeFate(subject, engine), ...describeProbability(subject), ...describeTime(subject.round)];
  return [...known, " ", make("span", "vd-silent", { "data-testid": "silent" }, [engine.silent])];
}

/** @param {Subject} subject @param {Engine} engine @returns {Words} */
function describeFate(subject, engine) {
  const { round, spot, fate } = subject;
  const candidate = round.candidates[spot.place];
  if (fate === "drafted") return ["This round has not reached this token yet."];
  if (fate === "unreported") return describeUnreported(subject, engine);
  if (!candidate) return describeLast(round, fate);
  if (fate === "accepted" && candidate.text === null && round.unreported)
    return ["This candidate was ", fateWord(fate), `: ${sharesOf(round)}. Its text is part of this round’s piece; the engine does not report where that text begins.`];
  if (fate === "accepted" && candidate.text === null)
    return ["The engine counts this candidate as ", fateWord(fate), ", but the answer ended before it."];
  if (fate === "accepted") return [tokenWord(candidate.text ?? ""), " was drafted and ", fateWord(fate), `: ${sharesOf(round)}.`];
  if (fate === "rejected")
    return ["The candidate here was ", fateWord(fate), `: ${sharesOf(round)}. The engine does not name the rejected token.`];
  return ["This candidate was drafted after the rejected one, so it was ", fateWord(fate), ". The engine does not name its token."];
}

/** @param {Round} round @param {string} fate @returns {Words} */
function describeLast(round, fate) {
  const text = round.extra?.text ?? "";
  if (fate === "recovered") return [tokenWord(text), " replaces the rejected candidate: ", fateWord(fate), "."];
  const count = round.candidates.length;
  const all = count ? `all ${count} candidates were accepted` : "nothing was drafted";
  return [tokenWord(text), ` is the target’s own: ${all} in this round, so this is a `, fateWord(fate), "."];
}

/** @param {Subject} subject @param {Engine} engine @returns {Words} */
function describeUnreported({ round, spot }, { speculates }) {
  const { candidates, unreported = [] } = round;
  const piece = unreported[spot.place - candidates.length];
  if (!piece) return [];
  const { text, tokens } = piece;
  const several = tokens !== null && tokens > 1;
  const size = several ? ` are ${tokens} tokens in one piece.` : tokens === 1 ? " is one token." : " arrived in one piece.";
  if (tokens === 1 && !isRound(round)) return [tokenWord(text), size, " No candidates were drafted for it."];
  return [tokenWord(text), size, ...(speculates === false ? [] : [draftedOf(round, several)])];
}

/** What is known about how a piece was generated. @param {Round} round @param {boolean} several */
function draftedOf(round, several) {
  if (round.candidates.length) return ` The engine does not report where each token begins: ${sharesOf(round)}.`;
  return several ? " The engine does not report which tokens were drafted." : " The engine does not report whether it was drafted.";
}

/** @param {Round} round */
function sharesOf({ candidates }) {
  const accepted = candidates.filter(({ verdict }) => verdict === "accepted").length;
  return `${accepted} of ${candidates.length} candidates of this round were accepted`;
}

/** @param {Subject} subject @returns {Words} */
function describeProbability({ round, spot, fate }) {
  if (fate === "drafted") return [];
  const { candidates, extra, unreported = [] } = round;
  const after = spot.place - candidates.length;
  const token = after < 0 ? candidates[spot.place] : (extra ?? unreported[after]);
  const logprob = token && "logprob" in token ? token.logprob : null;
  if (logprob === null) return [];
  return [" The engine gives this token ", make("b", "vd-number", {}, [likelihood(Math.exp(logprob))]), ` (log-probability ${logprob.toFixed(2).replace("-", "−")}).`];
}

/** @param {Round} round @returns {Words} */
function describeTime({ at, merged }) {
  if (at === undefined) return [];
  return [` This part of the answer arrived ${at.toFixed(3)} s after the request${merged ? ", in one piece with the previous round" : ""}.`];
}

/** @param {Subject} subject */
export function placeInAnswer({ run, round, spot, fate }) {
  const count = round.candidates.length;
  if (run.engine?.unit === "piece") return `piece ${spot.round + 1}`;
  const last = fate === "unreported" ? "as received" : "the last token";
  return `${nameOf(round, spot.round)}, ${spot.place < count ? `candidate ${spot.place + 1} of ${count}` : last}`;
}
