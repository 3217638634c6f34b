// Moves the verdict card beside the token that the user opened, so that both are in view; otherwise
// the card is in its place below the lanes.

/** @import { Pane, Store } from "./base_store.js" */
/** @import { Spot } from "./round_events.js" */

const GAP = 10; // pixels between the token and the card
const MEANT_FOR = "button, a, input, select, summary, label, canvas, [data-at]";
const EDGE = 8; // pixels left free at the edges of the window

/** The selected token in the pane where it was opened, else in the other pane. @param {Element} page @param {Pane} pane */
function tokenOf(page, pane) {
  const panes = pane === "text" ? [".text-pane", ".rounds"] : [".rounds", ".text-pane"];
  for (const each of panes) {
    const token = page.querySelector(`${each} .selected`);
    const scroll = token?.closest(".scroll")?.getBoundingClientRect();
    const at = [...(token?.getClientRects() ?? [])].sort((one, other) => other.width - one.width)[0]; // a token may be on two lines
    if (at && scroll && at.bottom > scroll.top + 4 && at.top < scroll.bottom - 4) return at;
  }
  return null;
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
    const token = store.beside && !isPresented ? tokenOf(page, store.beside) : null;
    card.classList.toggle("vd-beside", token !== null);
    if (!token) this.shown = null;
    else this.put(page, token);
  }

  /** Place the card below the token, or above it if there is no space or it would cover the controls. @param {Element} page @param {DOMRect} token */
  put(page, token) {
    const { card, store } = this;
    const scroller = scrollerOf(page);
    const [frame, view] = [page.getBoundingClientRect(), viewOf(scroller)];
    const needed = card.offsetHeight + GAP;
    const controls = page.querySelector(".controls")?.getBoundingClientRect();
    const covers = controls !== undefined && token.bottom + needed > controls.top && token.bottom <= controls.top;
    const isAbove = (covers || view.bottom - token.bottom < needed) && token.top - view.top >= needed;
    card.dataset.side = isAbove ? "above" : "below";
    card.style.top = `${(isAbove ? token.top - needed : token.bottom + GAP) - frame.top}px`;
    const most = frame.width - card.offsetWidth;
    const start = Math.max(0, Math.min(token.left - frame.left - 60, most));
    card.style.left = `${start}px`;
    const tip = token.left - frame.left + token.width / 2 - start;
    card.style.setProperty("--tip", `${Math.max(16, Math.min(tip, card.offsetWidth - 16))}px`);
    if (this.shown === store.selected) return;
    this.shown = store.selected;
    const hidden = token.bottom + needed - view.bottom; // the token stays in view at any height
    if (!isAbove && hidden > 0) scroller.scrollBy({ top: Math.min(hidden, token.top - view.top) });
    if (token.top < view.top) scroller.scrollBy({ top: token.top - view.top });
  }
}
