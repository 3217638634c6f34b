// Keeps a scrolling pane at its end while its content grows.

import { makeButton } from "./elements.js";

/** Keeps a pane at its end until the user scrolls up; then a button leads back. */
export class ScrollFollower {
  /** @param {HTMLElement} pane what scrolls @param {() => void} moved */
  constructor(pane, moved) {
    this.pane = pane;
    this.following = true;
    this.top = 0;
    this.room = 0; // how far the pane could be scrolled when it was last settled
    /** The follower of another pane, whose button may be hidden while this one's is shown. @type {ScrollFollower|null} */
    this.other = null;
    this.back = makeButton("to-newest", "↓ newest", () => this.goBack());
    this.back.hidden = true;
    pane.addEventListener("scroll", () => {
      this.scrolled();
      moved();
    });
  }

  /** How far the pane can be scrolled. */
  measureRoom() {
    return this.pane.scrollHeight - this.pane.clientHeight;
  }

  /** Whether the pane is at its end; true also if there is nothing to scroll, as after seeking back. */
  isAtEnd() {
    return this.measureRoom() - this.pane.scrollTop < 12;
  }

  scrolled() {
    // A changed `room` means another font or size: then the browser scrolled the pane, not the user.
    if (this.following && this.measureRoom() !== this.room) this.settle();
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
    this.room = this.measureRoom();
  }

  /** Go back to the end, also in the other pane if its button is not shown. */
  goBack() {
    const shared = this.other?.back.offsetParent === null; // read before this button is hidden
    this.resume();
    if (shared) this.other?.resume();
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
