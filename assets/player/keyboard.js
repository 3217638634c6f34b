// The player's keyboard shortcuts, and the list that explains them.

import { DropCard, openCardIn } from "./drop_card.js";
import { make } from "./elements.js";
import { STOPS } from "./stops.js";

/** @import { PlaybackControls, RunTools } from "./playback_controls.js" */

const KEY_HELP = [
  ["Space", "play or pause"],
  ["← →", "one step back or forward"],
  ["[ ]", "one round back or forward (also Shift + ← →)"],
  ["Home End", "go to the start or the end"],
  [", .", "slower or faster"],
  ["arrows", "move from token to token after one is selected"],
  ["Esc", "close the verdict card"],
  ["?", "show this list"],
];

const STOP_KEYS = STOPS.filter((stop) => stop.key);

const RUN_KEY_HELP = [
  [STOP_KEYS.map((stop) => stop.key.toUpperCase()).join(" "), "play until a rejection, a rejection with a low acceptance probability, or a bonus token"],
  ["P", "presenter mode, from anywhere on the page (Esc leaves it)"],
];

/** @param {boolean} ofRun whether a single run is shown */
export function makeKeys(ofRun) {
  const rows = [...(ofRun ? RUN_KEY_HELP : []), ...KEY_HELP].flatMap(([key, what]) => [
    make("dt", "", {}, [key]),
    make("dd", "", {}, [what]),
  ]);
  const opener = make("summary", "", { "aria-label": "Keys" }, ["?"]);
  return new DropCard("keys", opener, make("dl", "", {}, rows));
}

/**
 * What the keys do. Streamlit uses R, C and Esc itself.
 * @param {HTMLElement} root @param {PlaybackControls} controls @returns {Record<string, () => void>}
 */
function keymap(root, controls) {
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
    "?": () => controls.keys.element.toggleAttribute("open"),
    ...(controls.tools ? keysOfRun(root, controls.tools) : {}),
  };
}

/** @param {HTMLElement} root @param {RunTools} tools @returns {Record<string, () => void>} */
function keysOfRun(root, { until, presenter }) {
  const stops = STOP_KEYS.map((stop) => [stop.key, () => until.start(stop)]);
  return { ...Object.fromEntries(stops), p: () => {
    openCardIn(root)?.shut();
    presenter.toggle();
  } };
}

/**
 * What Esc closes: an opened card or menu, then presenter mode, then the verdict card beside a token.
 * @param {HTMLElement} root @param {PlaybackControls} controls
 * @returns {(() => void)|null} null if nothing is open
 */
function escape(root, { store, tools }) {
  const open = openCardIn(root);
  if (open) return () => open.shut();
  if (tools?.until.isOpen) return () => tools.until.shut();
  if (tools?.presenter.on) return () => tools.presenter.toggle();
  return store.beside ? () => store.shut() : null;
}

/**
 * Keys work while the focus is in the player or on no element. P works unless the user is typing.
 * @param {HTMLElement} root @param {PlaybackControls} controls @returns {() => void} stops listening
 */
export function listenToKeys(root, controls) {
  const keys = keymap(root, controls);
  /** @param {KeyboardEvent} event */
  const listen = (event) => {
    if (!root.isConnected) { // removed, but not closed yet
      if (event.key === "Escape") controls.tools?.presenter.present(false);
      return;
    }
    const act = event.key === "Escape" ? escape(root, controls) : keys[nameOf(event)];
    if (!act || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (!belongsToPlayer(root, event)) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  };
  document.addEventListener("keydown", listen, true);
  return () => document.removeEventListener("keydown", listen, true);
}

/** Letters in lower case, so that Caps Lock does not matter. @param {KeyboardEvent} event */
function nameOf({ key, shiftKey }) {
  if (key.length === 1) return key.toLowerCase();
  return shiftKey && key.startsWith("Arrow") ? `Shift+${key}` : key;
}

/** @param {HTMLElement} target */
function isTyping(target) {
  return target.isContentEditable || target.matches("textarea, select, input:not([type=range], [type=checkbox], [type=radio])");
}

const MOVING = ["ArrowLeft", "ArrowRight", "Home", "End", " "];

/**
 * Whether the player may use a key, which the focused element may need itself.
 * @param {HTMLElement} root @param {KeyboardEvent} event
 */
function belongsToPlayer(root, event) {
  const target = /** @type {HTMLElement} */ (event.target);
  if (target === document.body || target === document.documentElement) return true;
  if (nameOf(event) === "p" && !isTyping(target)) return true;
  if (!root.contains(target) || target.closest("select, textarea")) return false;
  if (target.closest("input[type=number]")) return event.key === "Escape";
  if (target.closest("[data-place]")) return event.shiftKey || !MOVING.includes(event.key);
  if (target.closest("input, [role=slider], [role=radio]")) return !MOVING.includes(event.key);
  return !(event.key === " " && target.closest("button, summary, a"));
}
