// Where the Streamlit component begins: Streamlit calls what this file exports.

import { mountPlayer } from "./mount.js";

/** @import { Given } from "./mount.js" */

/** @param {Given} given */
export default function (given) {
  return mountPlayer(given);
}
