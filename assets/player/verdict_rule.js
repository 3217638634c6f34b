// The rule by which a run accepts or rejects its candidates.

import { UNDER_WAY } from "./base_store.js";
import { judged, failedPlace } from "./round_events.js";

/** @import { Candidate, Round, Run, RunPayload } from "./payload.d.ts" */

export const LAST_DRAW = 1 - 2 ** -24; // the largest possible draw

/** The amount the rule adds to the target's probability. @param {Run} run */
export function allowance(run) {
  return run.lossy ? run.epsilon : 0;
}

/** The fork at a place, or null. @param {Run} run @param {number} round @param {number} place */
export function forkAt(run, round, place) {
  return run.forks.find((fork) => fork.round === round && fork.place === place) ?? null;
}

/** Why a run cannot be forked, and what to do; empty if it can. @param {Partial<RunPayload>} data */
export function forkBarrier({ run, link }) {
  if (!run || run.forkable) return "";
  if (link?.file) return "A replay file cannot fork. Run the prompt in specviz to fork it.";
  if (run.recorded_only) return "This run is recorded, so it cannot be forked here.";
  if (run.state === "recorded") return "The models of this run are not loaded, so it cannot be forked yet. Press Run, then drag a draw of your own run.";
  if (run.state === "failed") return "The run failed and cannot be forked. Press Run to repeat it.";
  if (UNDER_WAY.includes(run.state)) return "The button “Fork here” appears when the run is decoded.";
  return "A run can be forked on the page Watch.";
}

/** Whether a draw is compared with an acceptance probability, of a candidate or a position. @param {Run} run */
export function hasOdds({ deciding }) {
  return deciding === "odds" || deciding === "together";
}

/**
 * Whether the rule accepts a candidate with a draw, in double precision.
 * @param {Candidate} candidate @param {Run} run @param {number} uniform
 */
export function accepts(candidate, run, uniform) {
  if (candidate.coin !== undefined) return uniform < candidate.coin;
  return uniform * candidate.draft < candidate.target + allowance(run);
}

/** @param {Candidate} candidate @param {Run} run */
export function oddsOf(candidate, run) {
  if (candidate.coin !== undefined) return candidate.coin;
  return Math.min(1, (candidate.target + allowance(run)) / candidate.draft);
}

/**
 * The probability of the recovered token in the distribution that it was drawn from; null if it is
 * not known. In the residual: (target − draft)₊ / (1 − Σ min(draft, target)).
 * @param {Round} round @param {Run} run @returns {number|null}
 */
export function leftoverShare(round, run) {
  const failed = judged(round.candidates[failedPlace(round)]);
  const { extra } = round;
  if (!failed || !extra || !("uniform" in extra) || run.deciding !== "odds") return null;
  if (run.residual === "target") return extra.target;
  if (run.residual === "draft") return extra.draft;
  const listed = failed.insight?.residual_top.find(([text]) => text === extra.text);
  if (listed && !run.greedy) return listed[1];
  if (failed.parent !== undefined) return null; // in a tree, the residual also depends on rejected siblings
  const rest = Math.max(0, extra.target - (extra.draft ?? 0));
  return rest > 0 && failed.expected < 1 ? Math.min(1, rest / (1 - failed.expected)) : null;
}
