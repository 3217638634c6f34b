// Draws the menu "Play until", and a notice if no such event is left.

import { DropCard } from "./drop_card.js";
import { make, makeButton, setTextOrHide } from "./elements.js";
import { isKnownOf, nextOutcome, numberAt, STOPS } from "./stops.js";

/** @import { Spot } from "./round_events.js" */
/** @import { RunStore } from "./run_store.js" */
/** @import { Stop, Wish } from "./stops.js" */

export class UntilMenu {
  /** @param {RunStore} store */
  constructor(store) {
    this.store = store;
    /** @type {Map<string, HTMLInputElement>} */
    this.limits = new Map();
    /** The row of each stop. @type {[Stop, HTMLElement][]} */
    this.rows = [];
    /** @type {Spot|null} */
    this.chosen = null;
    this.opener = make("summary", "", { "data-testid": "until" }, ["until …"]);
    this.menu = new DropCard("until-menu", this.opener, this.makeList());
    this.message = make("span");
    this.again = makeButton("until-again", "From the start", () => this.fromTheStart());
    this.notice = make("div", "until-notice", { "data-testid": "until-told" }, [this.message, this.again]);
    this.status = make("div", "", { role: "status" }, [this.notice]);
    this.element = make("div", "until", {}, [this.menu.element, this.status]);
  }

  close() {
    this.menu.close();
  }

  makeList() {
    const head = make("p", "", {}, ["Play until"]);
    return make("div", "until-list", { role: "group", "aria-label": "Play until" }, [head, ...STOPS.map((stop) => this.makeRow(stop))]);
  }

  /** @param {Stop} stop */
  makeRow(stop) {
    const [before, after] = stop.words;
    const button = makeButton("", before, () => this.start(stop), { "data-testid": `until-${stop.name}` });
    const limit = stop.limit ? [this.makeLimit(stop), after] : [];
    const key = stop.key ? [make("kbd", "", { "aria-hidden": "true" }, [stop.key.toUpperCase()])] : [];
    const row = make("div", "until-row", {}, [button, ...limit, ...key]);
    this.rows.push([stop, row]);
    return row;
  }

  /** @param {Stop} stop */
  makeLimit(stop) {
    const { words, first, ...range } = /** @type {NonNullable<Stop["limit"]>} */ (stop.limit);
    const names = { "aria-label": words, required: "", "data-testid": `until-${stop.name}-limit` };
    const input = make("input", "", { type: "number", value: first, ...range, ...names });
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault(); // otherwise the key would press Play, which has the focus then
      this.start(stop);
    });
    this.limits.set(stop.name, input);
    return input;
  }

  /** Put the number of the token that the user selected in the text into the menu's field. */
  offerChosen() {
    const { recording, selected, beside, data } = this.store;
    if (selected === this.chosen || beside !== "text" || !selected || !data.run) return;
    this.chosen = selected;
    const input = this.limits.get("token");
    if (input) input.value = String(numberAt(recording, data.run, selected) ?? input.value);
  }

  /** Play until a stop, with the value of its field. @param {Stop} stop */
  start(stop) {
    const input = this.limits.get(stop.name);
    if (!isKnownOf(stop, this.store.data.run)) return;
    if (input && !input.checkValidity()) return this.complain(input);
    const leaves = this.menu.element.contains(document.activeElement);
    this.menu.shut();
    this.store.playUntil({ stop, limit: Number(input?.value) });
    if (leaves) this.element.parentElement?.querySelector(/** @type {"button"} */ (".play"))?.focus({ preventScroll: true });
  }

  /** @param {HTMLInputElement} input with an invalid value */
  complain(input) {
    this.menu.element.open = true;
    input.reportValidity();
  }

  fromTheStart() {
    const { missed } = this.store;
    if (!missed) return;
    this.store.seek(0);
    this.store.playUntil(missed.wish);
  }

  draw() {
    this.offerChosen();
    for (const [stop, row] of this.rows) row.hidden = !isKnownOf(stop, this.store.data.run);
    const { until, missed, cursor, playing } = this.store;
    const label = until ? until.stop.short(until.limit) : "until …";
    if (this.opener.textContent !== label) this.opener.textContent = label;
    this.menu.element.dataset.on = String(until !== null);
    const wish = missed && missed.cursor === cursor && !playing ? missed.wish : null;
    const isEarlier = wish !== null && this.isEarlier(wish);
    this.notice.hidden = wish === null;
    this.again.hidden = !isEarlier;
    setTextOrHide(this.message, wish && this.missedWords(wish, isEarlier));
  }

  /** Whether the stop may exist earlier in the run. @param {Wish} wish */
  isEarlier(wish) {
    const { recording, data } = this.store;
    return nextOutcome(recording, data.run, 0, wish) !== null;
  }

  /** @param {Wish} wish @param {boolean} isEarlier */
  missedWords({ stop, limit }, isEarlier) {
    const { tokens, rounds } = this.store.recording;
    return isEarlier ? stop.over(limit) : stop.never(limit, tokens[rounds.length]);
  }

  /** Whether the list or the notice is open. */
  get isOpen() {
    return this.menu.isOpen || !this.notice.hidden;
  }

  shut() {
    this.menu.shut();
    this.store.missed = null;
    this.store.changed();
  }
}
