// Makes token text safe to show: characters that are invisible, or that reorder their
// neighbours, are shown as their codes.

const UNSEEN =
  /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

/** @param {string} text */
export function visibleText(text) {
  return text.replace(UNSEEN, (mark) => {
    const code = mark.codePointAt(0)?.toString(16) ?? "";
    return mark.length > 1 ? `\\u{${code}}` : `\\u${code.padStart(4, "0")}`;
  });
}

/** A token as a chip shows it, with visible blanks and line breaks. @param {string} text */
export function chipText(text) {
  return visibleText(text).replace(/ /g, "·").replace(/\n/g, "⏎") || "∅";
}
