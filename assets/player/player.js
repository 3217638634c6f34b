// The player in its element of the page: receives the data from Python and chooses the theme.

import { onceAtRest } from "./at_rest.js";
import { make } from "./elements.js";
import { MissingRounds } from "./missing_rounds.js";
import { goTo, queryOf } from "./moment.js";
import { makeRaceViews, makeRunViews, PlayerViews } from "./player_views.js";
import { Presenter } from "./presenter.js";
import { makeRace } from "./race.js";
import { RaceStore } from "./race_store.js";
import { recordingOf } from "./recording.js";
import { RunStore } from "./run_store.js";
import { themeFor } from "./theme.js";

/** @import { Pane, Store } from "./base_store.js" */
/** @import { Payload, RunPayload, SentRace } from "./payload.d.ts" */
/** @import { Mark } from "./presenter.js" */
/** @import { Race } from "./race.js" */
/** @import { Recording } from "./recording.js" */
/** @import { Spot } from "./round_events.js" */
/** @import { Wish } from "./stops.js" */
/** @import { Views } from "./player_views.js" */

/** @typedef {{run: string, cursor: number, playing: boolean, live: boolean, speed: string,
 *   selected: Spot|null, beside: Pane|null, resumes: {playing: boolean, live: boolean},
 *   whatIf: number|null, until: Wish|null, tourCard: number|null}} StateOfRun */

const ASKS_FOR_A_RUN = ".st-key-run button, .st-key-time_again button";
const RECORDED = "recorded"; // the id of the run that is part of specviz
const LONGEST_HOLD = 3000; // milliseconds

export class Player {
  /**
   * @param {HTMLElement} parent @param {Mark} mark where the address stores presenter mode
   * @param {Presenter} [replaced] of the player that this one replaces
   */
  constructor(parent, mark, replaced) {
    this.parent = parent;
    this.generation = 0;
    /** @type {PlayerViews|null} */
    this.current = null;
    this.missing = new MissingRounds();
    this.opened = ""; // the moment that was opened last
    /** The state of the replaced player, until this one shows the same run. @type {StateOfRun|null} */
    this.continues = null;
    /** @type {((name: string, value: unknown) => void)|null} */
    this.send = null;
    this.page = make("div", "page");
    this.element = make("div", "sv", { "data-theme": "light" }, [this.page]);
    this.presenter = new Presenter(this.element, mark, replaced);
    parent.append(this.element);
    this.calm = window.matchMedia("(prefers-reduced-motion: reduce)");
    this.handleMotion = () => {
      if (this.current) this.current.store.still = this.calm.matches;
    };
    this.calm.addEventListener("change", this.handleMotion);
    /** @param {MouseEvent} press */
    this.handleRunClick = ({ target }) => {
      if (target instanceof Element && target.closest(ASKS_FOR_A_RUN)) this.current?.store.hold(LONGEST_HOLD);
    };
    document.addEventListener("click", this.handleRunClick, true);
  }

  /** @param {Payload} data from Python */
  receive(data) {
    if ("race" in data) this.receiveRace(data.race);
    else this.receiveRun(data);
    this.presenter.keepAddress();
  }

  /** @param {RunPayload} data */
  receiveRun(data) {
    const store = this.runStore();
    const { run, rounds, prompt } = data;
    const recording = recordingOf(run.id, rounds);
    if (prompt.length) recording.prompt = prompt;
    recording.append(rounds.from, rounds.items);
    store.data = data;
    store.hold(0);
    if (recording === store.recording) store.grown();
    else if (recording.id === store.recording.id && recording.rounds.length) this.showAgain(store, recording);
    else this.showRecording(store, recording, run.state);
    this.openMoment(store, data);
    this.missing.expect(recording, rounds.total);
    this.goOn(this.continues);
    if (store.recording.rounds.length) this.continues = null;
  }

  /**
  * Open the moment that a link or a file names, once. The recorded run has no moments.
   * @param {RunStore} store @param {RunPayload} data
   */
  openMoment(store, { moment, run }) {
    if (!moment || run.id === RECORDED || store.recording.id !== run.id) return;
    const key = queryOf(moment);
    if (key !== this.opened && goTo(store, moment)) this.opened = key;
  }

  /** Send an event to the page and return its number. @param {string} name @param {object} value */
  ask(name, value) {
    const number = Date.now();
    onceAtRest(() => this.send?.(name, { ...value, number }));
    return number;
  }

  /** @param {SentRace} sent */
  receiveRace(sent) {
    const known = this.current?.store;
    if (known instanceof RaceStore && known.race.id === sent.id) return;
    const race = makeRace(sent, recordingOf);
    const store = this.raceStore(race);
    store.enter(race);
    this.missing.expect(store.recording, store.recording.rounds.length); // a race is sent whole
  }

  /** The store of one run, with its views on the page. */
  runStore() {
    const known = this.current?.store;
    if (known instanceof RunStore) return known;
    const store = new RunStore();
    this.change(store, makeRunViews(store, this.presenter));
    return store;
  }

  /** The store of a race, with its views on the page. @param {Race} race */
  raceStore(race) {
    const known = this.current?.store;
    if (known instanceof RaceStore) return known;
    const store = new RaceStore(race);
    this.change(store, makeRaceViews(store));
    return store;
  }

  /** @param {Store} store @param {Views} views */
  change(store, views) {
    this.current?.close();
    store.ask = (name, value) => this.ask(name, value);
    this.current = new PlayerViews(store, views, this.element);
    this.page.replaceChildren(...views.sections);
    this.presenter.show(store instanceof RunStore ? store : null);
    this.handleMotion();
  }

  /**
   * Switch to another run once it has a round. A stop that the user requested since the run began
   * is kept.
   * @param {RunStore} store @param {Recording} recording @param {string} state
   */
  showRecording(store, recording, state) {
    if (recording.rounds.length === 0) return store.changed();
    const wish = store.untilRun === recording.id ? store.until : null;
    if (store.underWay) store.enter(recording);
    else {
      store.show(recording, { live: false, playing: state === "recorded" });
      if (state !== "recorded") store.seek(recording.end);
    }
    if (wish) store.playUntil(wish);
  }

  /**
  * Continue with a newer edition of an answer, about which the engine has reported more.
   * @param {RunStore} store @param {Recording} recording
   */
  showAgain(store, recording) {
    const { playing, over, cursor } = store;
    const { round } = store.recording.place(cursor);
    const tokens = store.recording.tokens[Math.min(round, store.recording.rounds.length)];
    const same = recording.tokens.findLastIndex((count) => count <= tokens);
    store.show(recording, { live: false, playing });
    store.cursor = over ? recording.end : recording.starts[Math.max(0, same)];
    store.changed();
  }

  /** The state of the shown run, for a player that continues it. @returns {StateOfRun|null} */
  stateOfRun() {
    const store = this.current?.store;
    if (!(store instanceof RunStore)) return null;
    const { recording, cursor, playing, live, speed, selected, beside, resumes, whatIf, until, tourCard } = store;
    return { run: recording.id, cursor, playing, live, speed, selected, beside, resumes, whatIf, until, tourCard };
  }

  /** Continue where another player was as soon as this one has rounds. @param {StateOfRun|null} state */
  continueFrom(state) {
    if (this.current?.store.recording.rounds.length) this.goOn(state);
    else this.continues = state;
  }

  /** Continue where another player was, if it had the same run. @param {StateOfRun|null} state */
  goOn(state) {
    const store = this.current?.store;
    if (!state || !(store instanceof RunStore) || store.recording.id !== state.run) return;
    store.seek(state.cursor);
    store.setSpeed(state.speed);
    store.tourCard = state.tourCard;
    if (state.selected && state.beside) store.open(state.selected, state.beside);
    else store.select(state.selected);
    store.resumes = state.resumes;
    store.suppose(state.whatIf);
    if (state.until) store.playUntil(state.until);
    else if (state.live) store.follow();
    else if (state.playing && !(store.over && store.whole)) store.play();
  }

  chooseTheme() {
    const theme = themeFor(this.parent);
    if (this.element.dataset.theme === theme) return;
    this.element.dataset.theme = theme;
    this.current?.store.changed();
  }

  close() {
    this.current?.close();
    this.presenter.close();
    this.missing.close();
    document.removeEventListener("click", this.handleRunClick, true);
    this.calm.removeEventListener("change", this.handleMotion);
    this.element.remove();
  }
}
