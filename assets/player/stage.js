// The player on its place in the page: its views and their layout, and what becomes of data that
// Python sends.

import { makeAnnouncer } from "./announcer.js";
import { makeCharts } from "./charts.js";
import { make } from "./elements.js";
import { FrameLoop } from "./frame_loop.js";
import { listenToKeys } from "./keyboard.js";
import { MissingRounds } from "./missing_rounds.js";
import { makeControls } from "./playback_controls.js";
import { makeRace } from "./race.js";
import { makeRaceLanes } from "./race_lanes.js";
import { recordingOf } from "./recordings.js";
import { makeRounds } from "./rounds_pane.js";
import { makeRunLanes } from "./run_lanes.js";
import { Store } from "./store.js";
import { makeSummary } from "./summary.js";
import { makeText } from "./text_pane.js";
import { makeTour } from "./tour.js";
import { makeVerdictCard } from "./verdict_card.js";

/** @import { Recording } from "./recording.js" */

/** @param {string} colour @param {Element} probe @returns {number} from 0, black, to 1, white */
function luminance(colour, probe) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const pen = canvas.getContext("2d");
  if (!pen) return 1;
  pen.fillStyle = colour || getComputedStyle(probe).backgroundColor;
  pen.fillRect(0, 0, 1, 1);
  const [red, green, blue] = pen.getImageData(0, 0, 1, 1).data;
  return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255;
}

/** Whether another run is to take the stage. @param {any} run */
function awaited(run) {
  return Boolean(run?.waiting) && ["loading", "queued"].includes(run.state);
}

export class Stage {
  /** @param {HTMLElement} parent */
  constructor(parent) {
    this.parent = parent;
    this.generation = 0;
    /** @type {boolean|null} */
    this.racing = null;
    this.store = new Store();
    this.views = this.makeViews();
    this.loop = new FrameLoop(this.store, () => this.views.lanes.glide());
    this.missing = new MissingRounds();
    this.element = make("div", "sv", { "data-theme": "light" }, [this.layout()]);
    parent.append(this.element);
    this.letGo = listenToKeys(this.element, this.views.controls);
    this.listenToMotion();
    this.store.watch(() => this.draw());
  }

  makeViews() {
    const { store } = this;
    return {
      summary: makeSummary(store),
      text: makeText(store),
      rounds: makeRounds(store),
      controls: makeControls(store),
      announcer: makeAnnouncer(store),
      lanes: makeRunLanes(store),
      race: makeRaceLanes(store),
      verdict: makeVerdictCard(store),
      charts: makeCharts(store),
      tour: makeTour(store),
    };
  }

  layout() {
    const { text, rounds, controls, tour } = this.views;
    this.player = make("section", "player card", { "data-testid": "player", "aria-label": "Player" }, [
      text.element,
      rounds.element,
      controls.element,
      tour.element,
    ]);
    this.page = make("div", "page");
    this.arrange(false);
    return this.page;
  }

  /** A race comes first; what the chosen lane has to say follows. @param {boolean} racing */
  arrange(racing) {
    if (this.racing === racing) return;
    this.racing = racing;
    this.page.dataset.racing = String(racing);
    const { summary, announcer, lanes, race, verdict, charts } = this.views;
    const player = { element: this.player };
    const first = racing ? [race, player, summary] : [summary, player, race];
    this.page.append(...[...first, lanes, verdict, charts, announcer].map((part) => part.element));
  }

  listenToMotion() {
    this.calm = window.matchMedia("(prefers-reduced-motion: reduce)");
    this.heed = () => {
      this.store.still = Boolean(this.calm?.matches);
    };
    this.heed();
    this.calm.addEventListener("change", this.heed);
  }

  draw() {
    const { store } = this;
    const empty = store.recording.rounds.length === 0 && store.recording.prompt.length === 0;
    this.player.dataset.empty = String(empty);
    this.element.dataset.waiting = String(awaited(store.data.run));
    for (const view of Object.values(this.views)) view.draw();
    this.loop.wake();
  }

  /** @param {any} data what Python sent */
  take(data) {
    if (data.race) return this.takeRace(data.race);
    this.store.enter(null);
    this.arrange(false);
    const { run, rounds, prompt } = data;
    const recording = recordingOf(run.id);
    if (prompt.length) recording.prompt = prompt;
    recording.append(rounds.from, rounds.items);
    this.store.data = data;
    if (recording === this.store.recording) this.store.grown();
    else this.admit(recording, run.state);
    this.missing.heed(recording, rounds.total);
  }

  /** @param {any} race */
  takeRace(race) {
    if (this.store.race?.id === race.id) return;
    this.store.enter(makeRace(race, recordingOf));
    this.arrange(true);
    const { recording } = this.store;
    this.missing.heed(recording, recording.rounds.length); // all are here
  }

  /** Another run: it takes the stage when there is something to see. @param {Recording} recording @param {string} state */
  admit(recording, state) {
    const { store } = this;
    if (recording.rounds.length === 0 && state !== "running") return store.changed();
    if (store.underWay) return store.show(recording, { live: true, playing: false });
    store.show(recording, { live: false, playing: state === "recorded" });
    if (state !== "recorded") store.seek(recording.end);
  }

  dress() {
    const background = getComputedStyle(this.parent).getPropertyValue("--st-background-color");
    const theme = luminance(background.trim(), document.body) < 0.4 ? "dark" : "light";
    if (this.element.dataset.theme === theme) return;
    this.element.dataset.theme = theme;
    this.store.changed();
  }

  close() {
    this.letGo();
    this.loop.close();
    this.missing.close();
    if (this.heed) this.calm?.removeEventListener("change", this.heed);
    for (const view of Object.values(this.views)) view.close();
    this.element.remove();
  }
}
