// This file keeps small texts in the browser from one visit of the page to the next.

/** @param {string} key @returns {string|null} null too where the browser keeps nothing */
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
    // A browser that keeps nothing forgets; the page works all the same.
  }
}
