// The playback controls: buttons, seek bar, speed.

import { make, makeButton, setTextOrHide } from "./elements.js";
import { makeKeys } from "./keyboard.js";
import { makeLinkBox } from "./link_box.js";
import { placeAmong } from "./round_shape.js";

/** @import { Store } from "./base_store.js" */
/** @import { Presenter } from "./presenter.js" */
/** @import { UntilMenu } from "./until_menu.js" */

/** Tools available only for a single run. @typedef {{until: UntilMenu, presenter: Presenter}} RunTools */

/** @type {Record<string, string>} */
const SPEED_WORDS = {
  0.25: "¼ × slow motion",
  0.5: "½ ×",
  1: "1 ×",
  2: "2 ×",
  readable: "3 rounds per second",
  4: "4 ×",
  true: "real time",
  instant: "instant",
  now: "live",
  "1/2": "2 × slower",
  "1/5": "5 × slower",
  "1/10": "10 × slower",
  "1/25": "25 × slower",
};

/** How far the decoder is ahead of the display. @param {Store} store */
function aheadWords(store) {
  const { behind } = store;
  if (behind === null) return "";
  const rounds = `${behind} ${behind === 1 ? "round" : "rounds"}`;
  if (store.decoded) return `all decoded, ${rounds} ahead`;
  return behind ? `decoder ${rounds} ahead` : "level with the decoder";
}

export class PlaybackControls {
  /** @param {Store} store @param {RunTools|null} tools */
  constructor(store, tools) {
    this.store = store;
    this.tools = tools;
    this.shown = "";
    /** @type {string[]|null} */
    this.offered = null;
    this.play = makeButton("play", "Play", () => this.toggle(), { "data-testid": "play" });
    this.seek = make("input", "seek", {
      type: "range",
      min: "0",
      step: "1",
      "aria-label": "Position in the run",
      "data-testid": "seek",
    });
    this.seek.addEventListener("input", () => store.seekTo(Number(this.seek.value)));
    this.where = make("span", "where");
    this.ahead = make("span", "ahead", { "data-testid": "ahead" });
    this.live = makeButton("live", "now", () => store.choosePace("now"), {
      "aria-label": "live: go to the newest round",
      "data-testid": "now",
    });
    this.speed = this.makeSpeed();
    this.link = makeLinkBox(store);
    this.keys = makeKeys(tools !== null);
    this.element = make("div", "controls", { role: "group", "aria-label": "Playback" }, [
      this.makeButtons(),
      this.seek,
      make("div", "how", {}, [this.where, this.ahead, this.live, this.speed, this.link.drop.element, this.keys.element]),
    ]);
  }

  makeButtons() {
    const { store } = this;
    return make("div", "buttons", {}, [
      makeButton("step", "|‹", () => store.seek(0), { "aria-label": "To the start" }),
      makeButton("step", "‹ token", () => store.stepToken(-1), { "aria-label": "One step back" }),
      this.play,
      ...(this.tools ? [this.tools.until.element] : []),
      makeButton("step", "token ›", () => store.stepToken(1), {
        "aria-label": "One token on",
        "data-testid": "step-token",
      }),
      makeButton("step", "round ››", () => store.stepRound(1), {
        "aria-label": "One round on",
        "data-testid": "step-round",
      }),
    ]);
  }

  makeSpeed() {
    const select = make("select", "speed", { "aria-label": "Speed", "data-testid": "speed" });
    select.addEventListener("change", () => this.store.choosePace(select.value));
    return select;
  }

  drawSpeed() {
    const { speeds } = this.store;
    if (this.offered !== speeds) {
      const options = speeds.map((speed) => make("option", "", { value: speed }, [SPEED_WORDS[speed]]));
      this.speed.replaceChildren(...options);
      this.offered = speeds;
    }
    if (this.speed.value !== this.store.pace) this.speed.value = this.store.pace;
  }

  toggle() {
    const { store } = this;
    if (store.playing || store.live) store.pause();
    else store.play();
  }

  /** @param {1|-1} by */
  shiftSpeed(by) {
    const { speeds } = this.store;
    const next = speeds.indexOf(this.store.pace) + by;
    if (next >= 0 && next < speeds.length) this.store.choosePace(speeds[next]);
  }

  draw() {
    this.link.draw();
    const { store } = this;
    this.tools?.until.draw();
    const { recording, seekBar } = store;
    const total = recording.rounds.length;
    const ahead = aheadWords(store);
    const where = this.placeWords();
    const state = [where, seekBar.at, seekBar.end, store.cursor, this.playWord(), store.pace, store.speeds.length, ahead].join();
    if (state === this.shown) return;
    this.shown = state;
    this.where.textContent = where;
    this.play.textContent = this.playWord();
    this.play.disabled = total === 0;
    this.drawSeek(where);
    setTextOrHide(this.ahead, ahead);
    this.live.hidden = !ahead;
    this.drawSpeed();
  }

  placeWords() {
    const { recording, cursor, time } = this.store;
    const { rounds } = recording;
    const { round } = recording.place(cursor);
    const pieces = this.store.data.run?.engine?.unit === "piece";
    const among = () => (pieces ? `piece ${round + 1} of ${rounds.length}` : placeAmong(rounds, round));
    const where = rounds.length ? among() : "no rounds yet";
    return time ? `${time} · ${where}` : where;
  }

  /** @param {string} where */
  drawSeek(where) {
    const { at, end, step } = this.store.seekBar;
    this.seek.step = step;
    this.seek.max = String(end);
    this.seek.value = String(at);
    this.seek.style.setProperty("--done", `${(100 * at) / (end || 1)}%`);
    this.seek.setAttribute("aria-valuetext", where);
  }

  playWord() {
    const { playing, live, over, recording, whole } = this.store;
    if (playing || live) return "Pause";
    return over && recording.end > 0 && whole ? "Replay" : "Play";
  }

  close() {
    this.tools?.until.close();
    this.link.drop.close();
    this.keys.close();
  }
}

/** @param {Store} store @param {RunTools|null} [tools] */
export function makeControls(store, tools = null) {
  return new PlaybackControls(store, tools);
}
