// What the player says to the page's script waits until no script runs: a value that reaches Streamlit
// after a change of page would make its browser part take the old page for the open one, and break it
// off.

const LOOK_EVERY = 50; // milliseconds between two looks

export function isAtRest() {
  const state = document.querySelector("[data-test-script-state]");
  return !state || state.getAttribute("data-test-script-state") === "notRunning";
}

/** @param {() => void} act */
export function onceAtRest(act) {
  if (isAtRest()) act();
  else setTimeout(() => onceAtRest(act), LOOK_EVERY);
}
