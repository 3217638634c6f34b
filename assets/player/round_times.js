// The seconds of a round, by phase if known. This file draws nothing.

/** @import { Times } from "./payload.d.ts" */

/** @typedef {"draft"|"verify"|"other"|"whole"} Phase */

/** @param {Times} times */
export function secondsOf(times) {
  return "whole" in times ? times.whole : times.draft + times.verify + times.other;
}

/**
 * The seconds by phase, in the order of a round.
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
