// This file opens the player in an element of the page, and passes it new data and another theme. The
// player stays in place from one call to the next.

import { Player } from "./player.js";

/** @import { Payload } from "./payload.d.ts" */

/**
 * What Streamlit gives to a component.
 * @typedef {{data: Payload, parentElement: HTMLElement,
 *   setStateValue: (name: string, value: unknown) => void}} Given
 */

/** @type {WeakMap<HTMLElement, Player>} */
const players = new WeakMap();

/** @param {HTMLElement} parent @returns {Player} */
function playerOf(parent) {
  const player = players.get(parent) ?? new Player(parent);
  players.set(parent, player);
  return player;
}

/**
 * A cleanup may come late, after the next call. So only the newest one closes the player, and only
 * when its element is gone from the page.
 * @param {Given} given @returns {() => void} the cleanup
 */
export function mountPlayer({ data, parentElement, setStateValue }) {
  const player = playerOf(parentElement);
  const generation = ++player.generation;
  player.missing.send = setStateValue;
  player.chooseTheme();
  player.receive(data);
  if (window.specvizFirstStage) {
    player.goOn(window.specvizFirstStage.state());
    window.specvizFirstStage.leave();
  }
  return () => {
    setTimeout(() => {
      if (player.generation !== generation || parentElement.isConnected) return;
      players.delete(parentElement);
      player.close();
    });
  };
}
