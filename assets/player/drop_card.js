// A card that a button opens over the page, on the side with more space. It closes when the user
// clicks elsewhere.

import { make } from "./elements.js";

/** @type {WeakMap<Element, DropCard>} */
const cards = new WeakMap();

/** The open card in an element, if any. @param {Element} root */
export function openCardIn(root) {
  const element = root.querySelector("details.drop[open]");
  return element ? cards.get(element) : undefined;
}

export class DropCard {
  /** @param {string} name @param {HTMLElement} opener a summary @param {HTMLElement} card */
  constructor(name, opener, card) {
    this.opener = opener;
    this.card = card;
    this.element = make("details", `drop ${name}`, {}, [opener, card]);
    this.element.addEventListener("toggle", () => this.place());
    card.classList.add("drop-card");
    cards.set(this.element, this);
    /** @param {PointerEvent} press */
    this.handlePress = ({ target }) => {
      if (!(target instanceof Node) || !this.element.contains(target)) this.element.open = false;
    };
    document.addEventListener("pointerdown", this.handlePress, true);
  }

  get isOpen() {
    return this.element.open;
  }

  /** Place the card above its button, or below if there is more space; scroll it into view. */
  place() {
    if (!this.isOpen) return;
    const button = this.opener.getBoundingClientRect();
    const [above, below] = [button.top - 80, window.innerHeight - button.bottom]; // 80: the page's header
    this.element.dataset.side = above < this.card.offsetHeight && below > above ? "below" : "above";
    this.card.scrollIntoView({ block: "nearest" });
  }

  shut() {
    if (this.isOpen && this.element.contains(document.activeElement)) this.opener.focus({ preventScroll: true });
    this.element.open = false;
  }

  close() {
    document.removeEventListener("pointerdown", this.handlePress, true);
  }
}
