// Progress in the lesson, stored in this browser between visits.

const KEY = "specviz.learn";

/** @returns {string[]} */
function recalled() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(kept) ? kept.filter((each) => typeof each === "string").slice(0, 100) : [];
  } catch {
    return []; // no or invalid stored data
  }
}

/** @param {{data: {done: string[]}, setStateValue: (name: string, value: unknown) => void}} given */
export default function (given) {
  const before = recalled();
  const all = [...new Set([...before, ...given.data.done])].sort();
  if (all.length > given.data.done.length) given.setStateValue("kept", all);
  if (all.length === before.length) return;
  try {
    localStorage.setItem(KEY, JSON.stringify(all));
  } catch {
    // The lesson works without storage.
  }
}
