// Entry point of the Streamlit component: Streamlit calls the function that this file exports.

import { mountPlayer } from "./mount.js";

/** @import { Given } from "./mount.js" */

/** @param {Given} given */
export default function (given) {
  return mountPlayer(given);
}
