// This file draws a card that a button opens over the page. It opens to the side where there is room,
// and closes when the reader presses something else.

import { make } from "./elements.js";

export class DropCard {
  /** @param {string} name @param {HTMLElement} opener a summary @param {HTMLElement} card */
  constructor(name, opener, card) {
    this.opener = opener;
    this.card = card;
    this.element = make("details", `drop ${name}`, {}, [opener, card]);
    this.element.addEventListener("toggle", () => this.place());
    card.classList.add("drop-card");
    /** @param {PointerEvent} press */
    this.heedPress = ({ target }) => {
      if (!(target instanceof Node) || !this.element.contains(target)) this.element.open = false;
    };
    document.addEventListener("pointerdown", this.heedPress, true);
  }

  get isOpen() {
    return this.element.open;
  }

  /** Above its button, or below it where there is more room; in view where neither is enough. */
  place() {
    if (!this.isOpen) return;
    const button = this.opener.getBoundingClientRect();
    const [above, below] = [button.top - 80, window.innerHeight - button.bottom]; // 80: the page's head
    this.element.dataset.side = above < this.card.offsetHeight && below > above ? "below" : "above";
    this.card.scrollIntoView({ block: "nearest" });
  }

  shut() {
    if (this.isOpen && this.element.contains(document.activeElement)) this.opener.focus({ preventScroll: true });
    this.element.open = false;
  }

  close() {
    document.removeEventListener("pointerdown", this.heedPress, true);
  }
}
