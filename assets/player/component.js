// Where the Streamlit component begins: Streamlit calls what this file exports.

import { mountPlayer } from "./mount.js";

/** @param {Parameters<typeof mountPlayer>[0]} given */
export default function (given) {
  return mountPlayer(given);
}
