// Small texts stored in the browser between visits.

/** @param {string} key @returns {string|null} null also if the browser does not allow storage */
export function recall(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/** @param {string} key @param {string} value */
export function remember(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // The browser may not allow storage; the page works without it.
  }
}
