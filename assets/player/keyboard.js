// This file says what the player's keys do, and draws the list that explains them.

import { make } from "./elements.js";

/** @import { PlaybackControls } from "./playback_controls.js" */

const KEY_HELP = [
  ["Space", "play or pause"],
  ["← →", "one step back or on"],
  ["[ ]", "one round back or on (also Shift + ← →)"],
  ["Home End", "start or end"],
  [", .", "slower or faster"],
  ["arrows", "from token to token, once a token is chosen"],
  ["Esc", "closes the verdict beside a token"],
  ["?", "this list"],
];

export function makeKeys() {
  const rows = KEY_HELP.flatMap(([key, what]) => [
    make("dt", "", {}, [key]),
    make("dd", "", {}, [what]),
  ]);
  const opener = make("summary", "", { "aria-label": "Keys" }, ["?"]);
  return make("details", "keys", {}, [opener, make("dl", "", {}, rows)]);
}

/**
 * What the keys do. Streamlit uses R, C and Esc itself.
 * @param {PlaybackControls} controls @returns {Record<string, () => void>}
 */
function keymap(controls) {
  const { store } = controls;
  return {
    " ": () => controls.toggle(),
    ArrowLeft: () => store.stepToken(-1),
    ArrowRight: () => store.stepToken(1),
    "Shift+ArrowLeft": () => store.stepRound(-1),
    "Shift+ArrowRight": () => store.stepRound(1),
    "[": () => store.stepRound(-1),
    "]": () => store.stepRound(1),
    Home: () => store.seek(0),
    End: () => store.seekEnd(),
    ",": () => controls.shiftSpeed(-1),
    ".": () => controls.shiftSpeed(1),
    Escape: () => store.shut(),
    "?": () => controls.keys.toggleAttribute("open"),
  };
}

/**
 * Keys work while the focus is in the player or nowhere.
 * @param {HTMLElement} root @param {PlaybackControls} controls @returns {() => void} stops listening
 */
export function listenToKeys(root, controls) {
  const keys = keymap(controls);
  /** @param {KeyboardEvent} event */
  const listen = (event) => {
    const act = keys[event.shiftKey && event.key.startsWith("Arrow") ? `Shift+${event.key}` : event.key];
    if (!act || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && !controls.store.beside) return;
    if (!belongsToPlayer(root, event)) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  };
  document.addEventListener("keydown", listen, true);
  return () => document.removeEventListener("keydown", listen, true);
}

const MOVING = ["ArrowLeft", "ArrowRight", "Home", "End", " "];

/**
 * Whether the player may use a key: what has the focus may need it itself.
 * @param {HTMLElement} root @param {KeyboardEvent} event
 */
function belongsToPlayer(root, event) {
  const target = /** @type {HTMLElement} */ (event.target);
  if (target === document.body || target === document.documentElement) return true;
  if (!root.contains(target) || target.closest("select, textarea")) return false;
  if (target.closest("[data-place]")) return event.shiftKey || !MOVING.includes(event.key);
  if (target.closest("input, [role=slider], [role=radio]")) return !MOVING.includes(event.key);
  return !(event.key === " " && target.closest("button, summary, a"));
}
