// This file opens the player in an element of the page, and feeds it each time that there is new
// data or another theme. The stage stays in place from one call to the next.

import { Stage } from "./stage.js";

/** @import { Payload } from "./payload.d.ts" */

/**
 * What Streamlit gives to a component.
 * @typedef {{data: Payload, parentElement: HTMLElement,
 *   setStateValue: (name: string, value: unknown) => void}} Given
 */

/** @type {WeakMap<HTMLElement, Stage>} */
const stages = new WeakMap();

/** @param {HTMLElement} parent @returns {Stage} */
function stageOf(parent) {
  const stage = stages.get(parent) ?? new Stage(parent);
  stages.set(parent, stage);
  return stage;
}

/**
 * A cleanup may come late, after the next call has begun: only the newest one may close the
 * stage, and only when its place on the page is gone.
 * @param {Given} given @returns {() => void} the cleanup
 */
export function mountPlayer({ data, parentElement, setStateValue }) {
  const stage = stageOf(parentElement);
  const generation = ++stage.generation;
  stage.missing.send = setStateValue;
  stage.chooseTheme();
  stage.receive(data);
  return () => {
    setTimeout(() => {
      if (stage.generation !== generation || parentElement.isConnected) return;
      stages.delete(parentElement);
      stage.close();
    });
  };
}
