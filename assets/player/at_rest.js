// Delays the player's messages to the page until no script runs: a value that reaches Streamlit after
// a change of page would make its frontend treat the old page as the open one and interrupt the new
// page's script.

const LOOK_EVERY = 50; // milliseconds between two checks

export function isAtRest() {
  const state = document.querySelector("[data-test-script-state]");
  return !state || state.getAttribute("data-test-script-state") === "notRunning";
}

/** @param {() => void} act */
export function onceAtRest(act) {
  if (isAtRest()) act();
  else setTimeout(() => onceAtRest(act), LOOK_EVERY);
}
