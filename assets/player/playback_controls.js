// The buttons below the text, the seek bar and the choice of speed.

import { button, make } from "./elements.js";
import { makeKeys } from "./keyboard.js";
import { timeIn, unitFor } from "./number_words.js";
import { RACE_SPEEDS } from "./race.js";
import { SPEEDS } from "./store.js";

/** @import { Store } from "./store.js" */

/** @type {Record<string, string>} */
const SPEED_WORDS = {
  0.25: "¼ × slow motion",
  0.5: "½ ×",
  1: "1 ×",
  2: "2 ×",
  4: "4 ×",
  true: "as it really ran",
  instant: "instant",
  "1/2": "2 × slower",
  "1/5": "5 × slower",
  "1/10": "10 × slower",
  "1/25": "25 × slower",
};

export class PlaybackControls {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.shown = "";
    /** @type {string[]|null} */
    this.offered = null;
    this.play = button("play", "Play", () => this.toggle(), { "data-testid": "play" });
    this.seek = make("input", "seek", {
      type: "range",
      min: "0",
      step: "1",
      "aria-label": "Position in the run",
      "data-testid": "seek",
    });
    this.seek.addEventListener("input", () => this.seekTo(Number(this.seek.value)));
    this.where = make("span", "where");
    this.live = button("live", "Live", () => store.follow(), { "aria-label": "Follow the run" });
    this.speed = this.makeSpeed();
    this.keys = makeKeys();
    this.element = make("div", "transport", { role: "group", "aria-label": "Playback" }, [
      this.makeButtons(),
      this.seek,
      make("div", "how", {}, [this.where, this.live, this.speed, this.keys]),
    ]);
  }

  makeButtons() {
    const { store } = this;
    return make("div", "buttons", {}, [
      button("step", "|‹", () => store.seek(0), { "aria-label": "To the start" }),
      button("step", "‹ token", () => store.stepToken(-1), { "aria-label": "One step back" }),
      this.play,
      button("step", "token ›", () => store.stepToken(1), {
        "aria-label": "One token on",
        "data-testid": "step-token",
      }),
      button("step", "round ››", () => store.stepRound(1), {
        "aria-label": "One round on",
        "data-testid": "step-round",
      }),
    ]);
  }

  makeSpeed() {
    const select = make("select", "speed", { "aria-label": "Speed", "data-testid": "speed" });
    select.addEventListener("change", () => this.store.setSpeed(select.value));
    return select;
  }

  /** A run plays in events, a race in time. */
  get speeds() {
    return this.store.race ? RACE_SPEEDS : SPEEDS;
  }

  drawSpeed() {
    const { speeds } = this;
    if (this.offered !== speeds) {
      const options = speeds.map((speed) => make("option", "", { value: speed }, [SPEED_WORDS[speed]]));
      this.speed.replaceChildren(...options);
      this.offered = speeds;
    }
    if (this.speed.value !== this.store.speed) this.speed.value = this.store.speed;
  }

  /** @param {number} value of the bar: an event, or a second of a race */
  seekTo(value) {
    if (this.store.race) this.store.seekTime(value);
    else this.store.seek(value);
  }

  toggle() {
    const { store } = this;
    if (store.playing || store.live) store.pause();
    else store.play();
  }

  /** @param {1|-1} by */
  shift(by) {
    const { speeds } = this;
    const next = speeds.indexOf(this.store.speed) + by;
    if (next >= 0 && next < speeds.length) this.store.setSpeed(speeds[next]);
  }

  draw() {
    const { store } = this;
    const { recording, cursor, race } = store;
    const total = recording.rounds.length;
    const left = store.underWay && !store.live && total > 0;
    const where = this.place();
    const state = [where, cursor, recording.end, race?.now, this.playWord(), store.speed, left].join();
    if (state === this.shown) return;
    this.shown = state;
    this.where.textContent = where;
    this.play.textContent = this.playWord();
    this.play.disabled = total === 0;
    this.drawSeek(where);
    this.live.hidden = !left;
    this.drawSpeed();
  }

  place() {
    const { recording, cursor, race } = this.store;
    const total = recording.rounds.length;
    const where = total ? `round ${recording.place(cursor).round + 1} of ${total}` : "no rounds yet";
    return race ? `${timeIn(race.now, unitFor(race.total))} · ${where}` : where;
  }

  /** @param {string} where */
  drawSeek(where) {
    const { recording, cursor, race } = this.store;
    const [end, at] = race ? [race.total, race.now] : [recording.end, cursor];
    this.seek.step = race ? "any" : "1";
    this.seek.max = String(end);
    this.seek.value = String(at);
    this.seek.style.setProperty("--done", `${(100 * at) / (end || 1)}%`);
    this.seek.setAttribute("aria-valuetext", where);
  }

  playWord() {
    const { playing, live, over, recording, underWay } = this.store;
    if (playing || live) return "Pause";
    return over && recording.end > 0 && !underWay ? "Replay" : "Play";
  }

  close() {}
}

/** @param {Store} store */
export function makeControls(store) {
  return new PlaybackControls(store);
}
