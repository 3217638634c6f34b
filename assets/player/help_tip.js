// The question mark beside a figure, and the explanation that it opens.

import { make, setText } from "./elements.js";

let helpsMade = 0;

/** The explanation opens on hover, focus or click; Escape closes it. */
export function makeHelp() {
  const id = `sv-help-${(helpsMade += 1)}`;
  const tip = make("span", "sum-tip", { role: "tooltip", id });
  const button = make("button", "sum-ask", { type: "button", "aria-describedby": id }, ["?"]);
  const element = make("span", "sum-help", {}, [button, tip]);
  const hide = () => (tip.hidden = true);
  const show = () => {
    tip.hidden = false;
    shiftInside(tip, element.closest(".sv"));
  };
  hide();
  element.addEventListener("pointerenter", show);
  element.addEventListener("pointerleave", () => document.activeElement !== button && hide());
  button.addEventListener("focus", show);
  button.addEventListener("click", show);
  button.addEventListener("blur", hide);
  element.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape") hide();
  });
  return {
    element,
    /** @param {string} label @param {string} text */
    update(label, text) {
      element.hidden = !text;
      setText(tip, text || "");
      const name = `About: ${label}`;
      if (button.ariaLabel !== name) button.ariaLabel = name;
    },
  };
}

/**
 * Shift a box sideways until it is inside another.
 * @param {HTMLElement} box @param {Element|null} room
 */
function shiftInside(box, room) {
  box.style.setProperty("--shift", "0px");
  if (!room) return;
  const own = box.getBoundingClientRect();
  const outer = room.getBoundingClientRect();
  const over = Math.max(0, own.right - outer.right + 8);
  const under = Math.max(0, outer.left + 8 - (own.left - over));
  box.style.setProperty("--shift", `${under - over}px`);
}
