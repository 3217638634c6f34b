// Moves the verdict card next to the token that the user opened, so that the token, its round and the
// card are in view; otherwise the card stays below the lanes.

/** @import { Pane, Store } from "./base_store.js" */
/** @import { Spot } from "./round_events.js" */

/** @typedef {{top: number, bottom: number, middle: number}} Anchor what stays in view: the token and its round; middle: of the token */

const GAP = 10; // pixels between the card and what is above it
const MEANT_FOR = "button, a, input, select, summary, label, canvas, [data-at], .tour";
const EDGE = 8; // pixels left free at the edges of the window
const LEAST_CARD = 280; // pixels: enough for the verdict and the draw; the rest of the card scrolls

/** The part of an element that its pane shows, or null. @param {Element|null} element */
function seenPart(element) {
  const pane = element?.closest(".scroll")?.getBoundingClientRect();
  const [frame] = [...(element?.getClientRects() ?? [])].sort((one, other) => other.width - one.width); // a token may be on two lines
  if (!pane || !frame || frame.bottom <= pane.top + 4 || frame.top >= pane.bottom - 4) return null;
  return { top: Math.max(frame.top, pane.top), bottom: Math.min(frame.bottom, pane.bottom), middle: frame.left + frame.width / 2 };
}

/** The selected token in the pane where it was opened, else in the other pane, with its round. @param {Element} page @param {Pane} pane @returns {Anchor|null} */
function anchorOf(page, pane) {
  const panes = pane === "text" ? [".text-pane", ".rounds"] : [".rounds", ".text-pane"];
  const [token] = panes.flatMap((each) => seenPart(page.querySelector(`${each} .selected`)) ?? []);
  if (!token) return null;
  const round = seenPart(page.querySelector(".round:has(.selected)")) ?? token;
  return { ...token, top: Math.min(token.top, round.top), bottom: Math.max(token.bottom, round.bottom) };
}

/** The element that scrolls the whole page. @param {Element} element @returns {Element} */
function scrollerOf(element) {
  for (let each = element.parentElement; each; each = each.parentElement)
    if (/auto|scroll/.test(getComputedStyle(each).overflowY) && each.scrollHeight > each.clientHeight) return each;
  return document.scrollingElement ?? document.documentElement;
}

/** The visible part of the page, below Streamlit's header. @param {Element} scroller */
function viewOf(scroller) {
  const head = document.querySelector('[data-testid="stHeader"]')?.getBoundingClientRect().bottom ?? 0;
  const { top } = scroller === document.scrollingElement ? { top: 0 } : scroller.getBoundingClientRect();
  return { top: Math.max(top, head) + EDGE, bottom: window.innerHeight - EDGE };
}

export class CardPlace {
  /** @param {HTMLElement} card @param {Store} store */
  constructor(card, store) {
    this.card = card;
    this.store = store;
    /** @type {Spot|null} */
    this.shown = null; // the token that was scrolled into view with its card
    this.again = () => this.draw();
    /** A click outside the card closes it, unless the click is for another control. @param {MouseEvent} press */
    this.handlePress = ({ target }) => {
      if (!store.beside || !(target instanceof Element) || card.contains(target)) return;
      if (!target.closest(MEANT_FOR)) store.shut();
    };
    window.addEventListener("resize", this.again);
    document.addEventListener("scroll", this.again, true); // also when a pane scrolls
    document.addEventListener("click", this.handlePress, true);
  }

  close() {
    window.removeEventListener("resize", this.again);
    document.removeEventListener("scroll", this.again, true);
    document.removeEventListener("click", this.handlePress, true);
  }

  draw() {
    const { card, store } = this;
    const page = card.parentElement;
    if (!page || (!store.beside && !card.classList.contains("vd-beside"))) return;
    const isPresented = card.closest('[data-presenting="true"]') !== null; // presenter mode has its own place for the card
    const anchor = store.beside && !isPresented ? anchorOf(page, store.beside) : null;
    card.classList.toggle("vd-beside", anchor !== null);
    if (anchor) return this.put(page, anchor);
    this.shown = null;
    card.style.removeProperty("--room");
  }

  /**
  * Place the card below the whole player or, if the anchor would leave the window, below the anchor.
  * The card scrolls if the window is too low for it. @param {Element} page @param {Anchor} anchor
   */
  put(page, anchor) {
    const { card, store } = this;
    const scroller = scrollerOf(page);
    const [frame, view] = [page.getBoundingClientRect(), viewOf(scroller)];
    const under = page.querySelector(".player")?.getBoundingClientRect().bottom ?? anchor.bottom;
    const room = (/** @type {number} */ edge) => view.bottom - view.top - (edge + GAP - anchor.top);
    const edge = room(under) >= LEAST_CARD ? under : anchor.bottom;
    card.style.setProperty("--room", `${Math.max(LEAST_CARD, room(edge))}px`);
    card.style.top = `${edge + GAP - frame.top}px`;
    const tip = Math.max(16, Math.min(anchor.middle - frame.left, card.offsetWidth - 16));
    card.style.setProperty("--tip", `${tip}px`);
    if (this.shown === store.selected) return;
    this.shown = store.selected;
    const hidden = edge + GAP + card.offsetHeight - view.bottom;
    if (hidden > 0) scroller.scrollBy({ top: hidden });
    else if (anchor.top < view.top) scroller.scrollBy({ top: anchor.top - view.top });
  }
}
