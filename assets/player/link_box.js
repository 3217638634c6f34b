// A button that copies a link to the shown moment, and explains who can open it.

import { onceAtRest } from "./at_rest.js";
import { DropCard } from "./drop_card.js";
import { make, makeButton, setTextOrHide } from "./elements.js";
import { momentOf, queryOf } from "./moment.js";
import { IN_HASH, IN_QUERY } from "./presenter.js";
import { RunStore } from "./run_store.js";

/** @import { Store } from "./base_store.js" */
/** @import { RunLink } from "./payload.d.ts" */
/** @import { Moment } from "./moment.js" */

const REPLAY_BUTTON = ".st-key-download_replay button";
const LOOK_EVERY = 200; // milliseconds
const LONGEST_WAIT = 5000; // until the page has received the moment

/** The links that open the moment: to the saved run, and to the settings that reproduce it. @param {RunLink} link @param {string} run @param {Moment} moment */
function addressesOf(link, run, moment) {
  const here = new URL(window.location.href);
  here.hash = "";
  const isPresented = document.documentElement.hasAttribute("data-presenting");
  const place = isPresented ? `${queryOf(moment)}&${(link.file ? IN_HASH : IN_QUERY).word}` : queryOf(moment);
  if (link.file) return [`${here.href.replace(/#$/, "")}#${place}`];
  /** @param {string} query */
  const at = (query) => {
    here.search = `?${query}&${place}`;
    return here.href;
  };
  return [...(link.kept ? [at(`run=${run}`)] : []), ...(link.settings ? [at(link.settings)] : [])];
}

/** @param {RunLink} link @param {string} place */
function sayWhatOpens(link, place) {
  if (link.file) return `The link opens this file at ${place}.`;
  if (link.kept) return `The link opens this run, which is saved here, at ${place}.`;
  if (link.settings) return `${AGAIN} It opens at ${place}.`;
  return "";
}

/** The moment that the link opens, in words. @param {Moment} moment */
function placeIn({ round, token = "" }) {
  const [of, place] = token.split(".");
  if (!place) return `round ${round}`;
  return of === round ? `round ${round}, token ${place}` : `round ${round}, with the verdict on round ${of}, token ${place}`;
}

const AGAIN = "This link sets the prompt and the settings. The button “Run” then repeats the run. The same device gives the same rounds. On another device the last digits of the probabilities may differ, and therefore some tokens.";

/** @param {RunLink} link */
function sayWhoCannot(link) {
  if (link.file) return "";
  if (!link.kept && !link.settings) return "A link can open this run once it has finished. Until then, there is no link: the controls do not support this run’s settings, so a link cannot set them.";
  return link.local
    ? "Only this machine can reach the server, so others cannot open the link. Send the replay instead: one file, which opens at this moment in any browser."
    : "";
}

/** Copy if the browser allows it; otherwise select the text for the user to copy. @param {HTMLInputElement} field */
function copy(field) {
  field.select();
  navigator.clipboard?.writeText(field.value).catch(() => {});
}

class LinkBox {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    /** The number of the last request for a moment. @type {number|null} */
    this.asked = null;
    this.field = makeField("Link");
    this.what = make("p", "link-what");
    this.who = make("p", "link-who");
    this.again = makeField("Link by settings");
    this.other = make("div", "link-other", {}, [make("p", "", {}, [AGAIN]), this.again]);
    this.replay = makeButton("link-replay", "Download the replay", () => this.download(), { hidden: "" });
    this.opener = make("summary", "", { "data-testid": "copy-link" }, ["Copy link"]);
    const rows = [this.what, this.field, this.who, this.replay, this.other];
    const card = make("div", "link-card", { "data-testid": "link-card" }, rows);
    this.drop = new DropCard("link-box", this.opener, card);
    this.drop.element.addEventListener("toggle", () => this.fill());
    this.drop.element.hidden = true;
  }

  draw() {
    this.drop.element.hidden = !this.store.data.link || this.store.recording.rounds.length === 0;
  }

  fill() {
    const { store } = this;
    const { link, run } = store.data;
    if (!this.drop.isOpen || !link || !run || !(store instanceof RunStore)) return;
    const moment = momentOf(store);
    const [first = "", second = ""] = addressesOf(link, run.id, moment);
    this.field.hidden = !first;
    this.field.value = first;
    setTextOrHide(this.what, first && `Copied. ${sayWhatOpens(link, placeIn(moment))}`);
    setTextOrHide(this.who, sayWhoCannot(link));
    this.other.hidden = !second;
    this.again.value = second;
    this.replay.hidden = !link.local;
    if (!this.replay.hidden) this.asked = store.ask?.("moment", { run: run.id, at: moment }) ?? null;
    if (first) copy(this.field);
    this.drop.place(); // the card's height is known now
  }

  /**
  * Click the page's own download button, once the run has finished and the page has received this
  * moment. While the page redraws, the button may be missing for a while.
   * @param {number} [until]
   */
  download(until = Date.now() + LONGEST_WAIT) {
    onceAtRest(() => {
      if (!this.drop.isOpen) return;
      const button = document.querySelector(REPLAY_BUTTON);
      const isLate = Date.now() > until;
      const isHeard = this.store.data.link?.heard === this.asked || isLate;
      if (button instanceof HTMLButtonElement && !button.disabled && isHeard) button.click();
      else if (button || !isLate) setTimeout(() => this.download(until), LOOK_EVERY);
    });
  }
}

/** @param {string} label */
function makeField(label) {
  const field = make("input", "link-field", { type: "text", readonly: "", "aria-label": label });
  field.addEventListener("click", () => copy(field));
  return field;
}

/** @param {Store} store */
export function makeLinkBox(store) {
  return new LinkBox(store);
}
