// Makes token text safe to show: characters that are invisible, or that reorder their
// neighbours, are shown as their codes. Special tokens have names.

const UNSEEN =
  /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

/** Special tokens of the model families that the engine supports. @type {Map<string, string>} */
const SPECIAL = new Map([
  ["<|endoftext|>", "end of text"],
  ["<|end_of_text|>", "end of text"],
  ["<\/s>", "end of text"],
  ["<eos>", "end of text"],
  ["<|im_end|>", "end of turn"],
  ["<|eot_id|>", "end of turn"],
  ["<end_of_turn>", "end of turn"],
  ["<|begin_of_text|>", "start of text"],
  ["<s>", "start of text"],
  ["<bos>", "start of text"],
  ["<|im_start|>", "start of turn"],
  ["<start_of_turn>", "start of turn"],
  ["<pad>", "padding"],
  ["<unk>", "unknown token"],
]);

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

/** A token as a label: named if it is special. @param {string} text @param {(text: string) => string} [shown] how others are shown */
export function labelText(text, shown = chipText) {
  const name = SPECIAL.get(text);
  return name === undefined ? shown(text) : `⟨${name}⟩`;
}

/** A token in a label that is read aloud. @param {string} text */
export function spokenText(text) {
  return SPECIAL.get(text) ?? visibleText(text);
}

/** Whether a token ends the text or a turn. @param {string} text */
export function isEnd(text) {
  return SPECIAL.get(text)?.startsWith("end") ?? false;
}

/**
 * Show the name of a special token in place of its text, which stays the tooltip and what is copied.
 * @param {HTMLElement} element that contains the text @param {string} text
 */
export function nameSpecial(element, text) {
  const name = SPECIAL.get(text);
  if (name === undefined) {
    if (element.dataset.special) element.removeAttribute("title");
    delete element.dataset.special;
    return;
  }
  element.dataset.special = name;
  element.title = text;
}

/** Show a token as a chip, or nothing. @param {HTMLElement} element @param {string|null} text */
export function showToken(element, text) {
  element.textContent = text === null ? "" : chipText(text);
  nameSpecial(element, text ?? "");
}
