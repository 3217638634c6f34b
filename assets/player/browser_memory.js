// What the browser keeps between two visits of the page: small texts by their keys.

/** @param {string} key @returns {string|null} null too where the browser keeps nothing */
export function recall(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/** @param {string} key @param {string} value */
export function keep(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // A browser that keeps nothing forgets; the page works all the same.
  }
}
