// Draws what a round costs against what it replaces: drafting and verification in one bar, the steps
// of the target alone that give as many tokens in the other. Both have one scale.

import { make, setText } from "./elements.js";

/** @import { Run, RoundCost } from "./payload.d.ts" */

const UNKNOWN = "Neither the speedup nor the step costs are known.";
const NARROW = 0.11; // of the scale: a narrower part has no text

/**
 * A part of a bar, as long as its steps.
 * @param {string} kind @param {number} steps @param {number} scale @param {string} [word]
 */
function makePart(kind, steps, scale, word) {
  const texts = word && steps / scale > NARROW ? [make("i", "", {}, [`${word} `]), steps.toFixed(2)] : [];
  const part = make("span", `cost-part ${kind}`, {}, texts);
  part.style.width = `${(100 * steps) / scale}%`;
  return part;
}

/** One bar: its name, its parts and its length as a number. @param {string} name */
function makeBar(name) {
  const track = make("span", "cost-track");
  const sum = make("b", "cost-sum");
  const element = make("div", "cost-bar", {}, [make("span", "cost-name", {}, [name]), track, sum]);
  return {
    element,
    /** @param {HTMLElement[]} parts @param {string} text */
    update(parts, text) {
      track.replaceChildren(...parts);
      setText(sum, text);
    },
  };
}

/** The steps of the target alone, one part for each. @param {number} tokens @param {number} scale */
function stepsOf(tokens, scale) {
  return Array.from({ length: Math.ceil(tokens) }, (_, index) =>
    makePart("step", Math.min(1, tokens - index), scale),
  );
}

export function makeCostBars() {
  const round = makeBar("one round");
  const alone = makeBar("target alone");
  const element = make("div", "cost-bars", { role: "img", "data-testid": "cost_bars" }, [round.element, alone.element]);
  const caption = make("p", "cost-caption");
  return {
    element,
    caption,
    /** @param {RoundCost|null} cost @param {Run|undefined} run */
    update(cost, run) {
      const engine = Boolean(run?.engine); // an engine reports no step costs
      element.hidden = caption.hidden = engine;
      element.dataset.gamma = cost ? String(cost.gamma) : "";
      element.dataset.size = cost?.size ?? "";
      element.dataset.predicted = String(cost?.predicted ?? false);
      element.setAttribute("aria-label", cost ? wordsOf(cost) : UNKNOWN);
      setText(caption, cost?.caption ?? UNKNOWN);
      if (cost) drawBars(cost);
      else [round, alone].forEach((bar) => bar.update([], "–"));
    },
  };

  /** @param {RoundCost} cost */
  function drawBars({ drafting, verification, other, tokens }) {
    const phases = /** @type {[string, number][]} */ ([["draft", drafting], ["verify", verification], ["other", other]]);
    const steps = phases.reduce((sum, [, part]) => sum + Number(part.toFixed(2)), 0); // rounded as shown, so that the reader's sum agrees
    const scale = Math.max(steps, tokens);
    const parts = phases.filter(([, part]) => part > 0).map(([word, part]) => makePart(word, part, scale, word));
    round.update(parts, `${steps.toFixed(2)} steps`);
    alone.update(stepsOf(tokens, scale), `${tokens.toFixed(2)} steps`);
  }
}

/** @param {RoundCost} cost */
function wordsOf({ drafting, verification, tokens, caption }) {
  const parts = `drafting takes ${drafting.toFixed(2)} and verification ${verification.toFixed(2)} target steps`;
  return `In one round, ${parts}. The target alone takes ${tokens.toFixed(2)} steps for the same tokens. ${caption}`;
}
