// Opens the player in an element of the page, and passes it new data and theme changes. The player
// persists between calls.

import { closeRemoved } from "./mounting.js";
import { Player } from "./player.js";
import { IN_QUERY, REPLACED_MS } from "./presenter.js";

/** @import { Payload } from "./payload.d.ts" */
/** @import { Mark } from "./presenter.js" */

/**
 * The arguments that Streamlit passes to a component.
 * @typedef {{data: Payload, parentElement: HTMLElement,
 *   setStateValue: (name: string, value: unknown) => void}} Given
 */

/** @type {WeakMap<HTMLElement, Player>} */
const players = new WeakMap();

/** The player of this page that a new one replaces: Streamlit sometimes draws the whole page again. */
function replacedPlayer() {
  const last = window.specvizLastPlayer;
  if (!last || last.path !== window.location.pathname) return null;
  return performance.now() - (last.closed ?? Infinity) < REPLACED_MS ? last.player : null;
}

/** @param {HTMLElement} parent @param {Mark} mark @returns {Player} a new one, if the element has none */
function makePlayer(parent, mark) {
  const replaced = replacedPlayer();
  const player = new Player(parent, mark, replaced?.presenter);
  players.set(parent, player);
  if (replaced) player.continues = replaced.stateOfRun();
  window.specvizLastPlayer = { player, path: window.location.pathname, closed: null };
  return player;
}

/**
 * Pass new data to the element's player, which the first call creates.
 * @param {Given} given @param {Mark} [mark] where the address stores presenter mode
 * @returns {() => void} the cleanup
 */
export function mountPlayer({ data, parentElement, setStateValue }, mark = IN_QUERY) {
  const player = players.get(parentElement) ?? makePlayer(parentElement, mark);
  const generation = ++player.generation;
  player.send = player.missing.send = setStateValue;
  player.chooseTheme();
  player.receive(data);
  if (window.specvizFirstStage) {
    window.specvizFirstStage.leave((state) => player.continueFrom(state));
  }
  const close = () => {
    players.delete(parentElement);
    player.close();
    if (window.specvizLastPlayer?.player === player) window.specvizLastPlayer.closed = performance.now();
  };
  return () => closeRemoved(parentElement, () => player.generation === generation, close);
}
