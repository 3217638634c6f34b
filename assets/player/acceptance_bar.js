// The acceptance probability as a bar, with a mark at the random draw that decided the verdict. The
// mark can be dragged to see what another draw would have done.

import { make, makeButton, setText, setTextOrHide } from "./elements.js";
import { distinguish } from "./number_words.js";
import { accepts, forkBarrier, hasOdds, LAST_DRAW, oddsOf } from "./verdict_rule.js";
import { describeWhatIf } from "./verdict_words.js";

/** @import { Store } from "./base_store.js" */
/** @import { Candidate, Run } from "./payload.d.ts" */
/** @import { Fate, Spot } from "./round_events.js" */
/** @import { Subject } from "./verdict_subject.js" */

const FINE_STEP = 0.01;
const COARSE_STEP = 0.1;

/** @param {Store} store @param {() => Spot|null} shown */
export function makeAcceptanceBar(store, shown) {
  const accept = make("span", "vd-accept", {}, ["accept"]);
  const reject = make("span", "vd-reject", {}, ["reject"]);
  const edge = make("span", "vd-edge");
  const ghost = make("i", "vd-ghost", { "aria-hidden": "true" });
  const label = make("span", "vd-draw");
  const handle = make("div", "vd-handle", SLIDER, [make("i"), label]);
  const track = make("div", "vd-track", {}, [accept, reject, edge, ghost, handle]);
  const hint = make("p", "vd-if");
  const back = make("button", "vd-back", { type: "button" }, ["back to the real draw"]);
  const fork = makeButton("vd-fork", "Fork here", () => askFork(), { "data-testid": "fork-here", title: FORK_TITLE });
  const barrier = make("p", "vd-barrier", { "data-testid": "no-fork" });
  const element = make("div", "vd-acceptance", {}, [track, make("div", "vd-hint", {}, [hint, fork, back, barrier])]);
  let drawn = 0;
  /** Try another draw. It is stored at once, so that a second key in the same frame continues from it. @param {number} uniform */
  const suppose = (uniform) => {
    if (!store.selected) store.select(shown());
    drawn = Math.max(0, Math.min(LAST_DRAW, uniform));
    store.suppose(drawn);
  };
  const askFork = () => {
    const spot = store.selected;
    const run = store.data.run?.id;
    if (spot) store.ask?.("fork", { run, round: spot.round, place: spot.place, draw: drawn, rank: null });
  };
  dragAlong(track, handle, suppose);
  steerByKeys(handle, () => drawn, suppose);
  back.addEventListener("click", () => {
    store.suppose(null);
    handle.focus();
  });
  return {
    element,
    /** @param {Subject|null} subject */
    update(subject) {
      const candidate = subject?.fate === "drafted" ? null : subject?.candidate;
      element.hidden = !subject || !candidate || !hasOdds(subject.run);
      if (!subject || !candidate || element.hidden) return;
      const { whatIf } = store;
      const odds = oddsOf(candidate, subject.run);
      drawn = whatIf ?? candidate.uniform;
      const word = accepts(candidate, subject.run, drawn) ? "accepted" : "rejected";
      const [shownDraw, shownOdds] = distinguish(drawn, odds);
      element.style.setProperty("--odds", String(odds));
      element.style.setProperty("--draw", String(drawn));
      element.style.setProperty("--real", String(candidate.uniform));
      element.classList.toggle("vd-tried", whatIf !== null);
      placeSideWords(accept, reject, odds, drawn);
      setText(accept, subject.run.deciding === "together" ? "keep" : "accept");
      setText(reject, subject.run.deciding === "together" ? "cut" : "reject");
      edge.textContent = edgeWords(odds, shownOdds, subject.run);
      label.textContent = drawLabel(subject.fate, whatIf, shownDraw);
      handle.setAttribute("aria-valuenow", String(drawn));
      handle.setAttribute("aria-valuetext", `${shownDraw}: ${word}`);
      hint.replaceChildren(...(whatIf === null ? [hintOf(subject)] : describeWhatIf(subject, whatIf)));
      back.hidden = whatIf === null;
      const isTurned = whatIf !== null && turns(subject, candidate, whatIf);
      fork.hidden = !isTurned || !subject.run.forkable;
      setTextOrHide(barrier, isTurned ? forkBarrier(store.data) : "");
    },
  };
}

const FORK_TITLE = "Starts a new run that continues from this verdict. All other draws stay the same.";

/** Whether a draw gives the other verdict. @param {Subject} subject @param {Candidate} candidate @param {number} uniform */
function turns({ run, fate }, candidate, uniform) {
  if (fate === "discarded" || (run.greedy && !run.lossy)) return false;
  return accepts(candidate, run, uniform) !== (candidate.verdict === "accepted");
}

const SLIDER = {
  role: "slider",
  tabindex: "0",
  "aria-label": "The draw",
  "aria-valuemin": "0",
  "aria-valuemax": "1",
};

/**
 * Place each label at the end of its side of the bar, away from the draw.
 * @param {HTMLElement} accept @param {HTMLElement} reject @param {number} odds
 * @param {number} drawn
 */
function placeSideWords(accept, reject, odds, drawn) {
  accept.classList.toggle("vd-narrow", odds < 0.25);
  reject.classList.toggle("vd-narrow", odds > 0.75);
  accept.classList.toggle("vd-turned", drawn < odds / 2);
  reject.classList.toggle("vd-turned", drawn > (1 + odds) / 2);
}

/** @param {number} odds @param {string} shown @param {Run} run */
function edgeWords(odds, shown, { deciding }) {
  if (deciding === "together") return `probability of keeping ${shown}`;
  if (odds === 1) return "always accepted";
  return odds === 0 ? "always rejected" : `acceptance probability ${shown}`;
}

/** @param {Fate} fate @param {number|null} whatIf @param {string} shown */
function drawLabel(fate, whatIf, shown) {
  if (whatIf !== null) return `what if ${shown}`;
  return fate === "discarded" ? `not used: ${shown}` : `draw ${shown}`;
}

/** @param {Subject} subject */
function hintOf({ run, fate }) {
  if (run.greedy && !run.lossy)
    return "At temperature 0 no draw can change a verdict. Drag the draw and see.";
  if (fate === "discarded") return "What if this token had been tested? Drag the draw.";
  return "What if the draw had been different? Drag the draw.";
}

/**
 * A press anywhere on the track moves the mark there; it then follows the pointer until released.
 * @param {HTMLElement} track @param {HTMLElement} handle @param {(uniform: number) => void} suppose
 */
function dragAlong(track, handle, suppose) {
  /** @param {PointerEvent} event */
  const follow = (event) => {
    const box = track.getBoundingClientRect();
    suppose((event.clientX - box.left) / box.width);
  };
  track.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    event.preventDefault();
    track.setPointerCapture(event.pointerId);
    handle.focus({ preventScroll: true });
    follow(event);
  });
  track.addEventListener("pointermove", (event) => {
    if (track.hasPointerCapture(event.pointerId)) follow(event);
  });
}

/**
 * @param {HTMLElement} handle @param {() => number} drawn @param {(uniform: number) => void} suppose
 */
function steerByKeys(handle, drawn, suppose) {
  /** @type {Record<string, (now: number) => number>} */
  const moves = {
    ArrowRight: (now) => now + FINE_STEP,
    ArrowUp: (now) => now + FINE_STEP,
    ArrowLeft: (now) => now - FINE_STEP,
    ArrowDown: (now) => now - FINE_STEP,
    PageUp: (now) => now + COARSE_STEP,
    PageDown: (now) => now - COARSE_STEP,
    Home: () => 0,
    End: () => LAST_DRAW,
  };
  handle.addEventListener("keydown", (event) => {
    const move = moves[event.key];
    if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    suppose(move(drawn()));
  });
}
