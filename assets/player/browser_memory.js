// This file keeps small texts in the browser from one visit to the next.

/** @param {string} key @returns {string|null} null also where the browser keeps nothing */
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
    // The browser may not keep anything; the page works without.
  }
}
