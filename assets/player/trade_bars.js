// Draws what a round costs against what it replaces: drafting and verification in one bar, the steps
// of the target alone that give as many tokens in the other. Both have one scale.

import { make, setText } from "./elements.js";

/** @import { Run, Trade } from "./payload.d.ts" */

const UNKNOWN = "Neither the speedup nor the step costs are known.";
const NARROW = 0.11; // of the scale: a narrower part has no text

/**
 * A part of a bar, as long as its steps.
 * @param {string} kind @param {number} steps @param {number} scale @param {string} [word]
 */
function makePart(kind, steps, scale, word) {
  const texts = word && steps / scale > NARROW ? [make("i", "", {}, [`${word} `]), steps.toFixed(2)] : [];
  const part = make("span", `trade-part ${kind}`, {}, texts);
  part.style.width = `${(100 * steps) / scale}%`;
  return part;
}

/** One bar: its name, its parts and its length as a number. @param {string} name */
function makeBar(name) {
  const track = make("span", "trade-track");
  const sum = make("b", "trade-sum");
  const element = make("div", "trade-bar", {}, [make("span", "trade-name", {}, [name]), track, sum]);
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

export function makeTrade() {
  const round = makeBar("one round");
  const alone = makeBar("target alone");
  const element = make("div", "trade", { role: "img", "data-testid": "trade" }, [round.element, alone.element]);
  const caption = make("p", "trade-caption");
  return {
    element,
    caption,
    /** @param {Trade|null} trade @param {Run|undefined} run */
    update(trade, run) {
      const engine = Boolean(run?.engine); // an engine reports no step costs
      element.hidden = caption.hidden = engine;
      element.dataset.gamma = trade ? String(trade.gamma) : "";
      element.dataset.predicted = String(trade?.predicted ?? false);
      element.setAttribute("aria-label", trade ? wordsOf(trade) : UNKNOWN);
      setText(caption, trade?.caption ?? UNKNOWN);
      if (trade) drawTrade(trade);
      else [round, alone].forEach((bar) => bar.update([], "–"));
    },
  };

  /** @param {Trade} trade */
  function drawTrade({ drafting, verification, other, tokens }) {
    const phases = /** @type {[string, number][]} */ ([["draft", drafting], ["verify", verification], ["other", other]]);
    const cost = phases.reduce((sum, [, steps]) => sum + Number(steps.toFixed(2)), 0); // as the reader adds them
    const scale = Math.max(cost, tokens);
    const parts = phases.filter(([, steps]) => steps > 0).map(([word, steps]) => makePart(word, steps, scale, word));
    round.update(parts, `${cost.toFixed(2)} steps`);
    alone.update(stepsOf(tokens, scale), `${tokens.toFixed(2)} steps`);
  }
}

/** @param {Trade} trade */
function wordsOf({ drafting, verification, tokens, caption }) {
  const parts = `drafting takes ${drafting.toFixed(2)} and verification ${verification.toFixed(2)} target steps`;
  return `In one round, ${parts}. The target alone takes ${tokens.toFixed(2)} steps for the same tokens. ${caption}`;
}
