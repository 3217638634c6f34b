// Keeps a scrolling pane at its end while its content grows.

import { makeButton } from "./elements.js";

/** Keeps a pane at its end until the user scrolls up; then a button leads back. */
export class ScrollFollower {
  /** @param {HTMLElement} pane what scrolls @param {() => void} moved */
  constructor(pane, moved) {
    this.pane = pane;
    this.following = true;
    this.top = 0;
    this.back = makeButton("to-newest", "↓ newest", () => this.resume());
    this.back.hidden = true;
    pane.addEventListener("scroll", () => {
      this.scrolled();
      moved();
    });
  }

  /** Whether the pane is at its end; true also if there is nothing to scroll, as after seeking back. */
  isAtEnd() {
    const { scrollTop, scrollHeight, clientHeight } = this.pane;
    return scrollHeight - clientHeight - scrollTop < 12;
  }

  scrolled() {
    const { scrollTop } = this.pane;
    if (this.isAtEnd()) this.following = true;
    else if (scrollTop < this.top - 1) this.following = false;
    this.top = scrollTop;
    this.back.hidden = this.following;
    this.pane.dataset.scrolled = String(scrollTop > 2);
  }

  /** Call after the pane's content has changed. */
  settle() {
    if (!this.following && !this.isAtEnd()) return;
    this.following = this.back.hidden = true;
    this.pane.scrollTop = this.pane.scrollHeight;
    this.top = this.pane.scrollTop;
  }

  resume() {
    this.following = true;
    this.back.hidden = true;
    this.settle();
  }

  /** Scroll a range of pixels into view. @param {number} top @param {number} height */
  reveal(top, height) {
    const { scrollTop, clientHeight } = this.pane;
    if (top >= scrollTop && top + height <= scrollTop + clientHeight) return;
    this.following = false;
    this.pane.scrollTop = top < scrollTop ? top - 8 : top + height - clientHeight + 8;
  }
}
