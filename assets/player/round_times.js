// The seconds of a round, and what they were spent on where that is known. It draws nothing itself.

/** @import { Times } from "./payload.d.ts" */

/** @typedef {"draft"|"verify"|"other"|"whole"} Phase */

/** @param {Times} times */
export function secondsOf(times) {
  return "whole" in times ? times.whole : times.draft + times.verify + times.other;
}

/**
 * What the seconds were spent on, in the order of a round.
 * @param {Times} times @returns {{phase: Phase, seconds: number}[]}
 */
export function phasesOf(times) {
  if ("whole" in times) return [{ phase: "whole", seconds: times.whole }];
  const { draft, verify, other } = times;
  return [
    { phase: "draft", seconds: draft },
    { phase: "verify", seconds: verify },
    { phase: "other", seconds: other },
  ];
}
