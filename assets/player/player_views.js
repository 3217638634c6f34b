// Builds the views of one run or of a race on their store.

import { makeAnnouncer } from "./announcer.js";
import { makeCharts } from "./charts.js";
import { make } from "./elements.js";
import { makeForkPane } from "./fork_pane.js";
import { FrameLoop } from "./frame_loop.js";
import { listenToKeys } from "./keyboard.js";
import { makeControls } from "./playback_controls.js";
import { makePresentButton } from "./presenter.js";
import { makeRaceLanes } from "./race_lanes.js";
import { makeRounds } from "./rounds_pane.js";
import { makeRunLanes } from "./run_lanes.js";
import { makeFigures, makeSummary } from "./summary.js";
import { makeText } from "./text_pane.js";
import { makeTour } from "./tour.js";
import { UntilMenu } from "./until_menu.js";
import { makeVerdictCard } from "./verdict_card.js";

/** @import { Store } from "./base_store.js" */
/** @import { Run } from "./payload.d.ts" */
/** @import { PlaybackControls } from "./playback_controls.js" */
/** @import { Presenter } from "./presenter.js" */
/** @import { RaceStore } from "./race_store.js" */
/** @import { RunStore } from "./run_store.js" */

/**
 * A part of the page that shows the store. `draw` is called at most once per frame.
 * @typedef {{element: HTMLElement, draw: () => void, close: () => void}} View
 */

/**
 * All views of a store, in drawing order, and the parts that are addressed directly.
 * @typedef {{all: View[], sections: HTMLElement[], player: HTMLElement,
 *   controls: PlaybackControls, drawBetweenEvents: () => void}} Views
 *   sections: from the top of the page to the bottom
 */

/** @param {RunStore} store @param {Presenter} presenter @returns {Views} */
export function makeRunViews(store, presenter) {
  const { summary, text, rounds, figures, announcer, verdict, charts } = makeSharedViews(store);
  const controls = makeControls(store, { until: new UntilMenu(store), presenter });
  const lanes = makeRunLanes(store);
  const tour = makeTour(store);
  const fork = makeForkPane(store);
  const present = makePresentButton(presenter);
  const player = makePlayer([text, rounds, present, controls, tour]);
  return {
    all: [summary, text, rounds, present, controls, announcer, fork, lanes, figures, verdict, charts, tour],
    sections: [summary.element, player, ...elementsOf([fork, lanes, figures, verdict, charts, announcer])],
    player,
    controls,
    drawBetweenEvents: () => lanes.drawBetweenEvents(),
  };
}

/**
 * The lanes come first; below them is the run of the chosen lane.
 * @param {RaceStore} store @returns {Views}
 */
export function makeRaceViews(store) {
  const { summary, text, rounds, figures, announcer, verdict, charts } = makeSharedViews(store);
  const controls = makeControls(store);
  const lanes = makeRaceLanes(store);
  const player = makePlayer([text, rounds, controls]);
  return {
    all: [summary, text, rounds, controls, announcer, lanes, figures, verdict, charts],
    sections: [lanes.element, player, ...elementsOf([summary, figures, verdict, charts, announcer])],
    player,
    controls,
    drawBetweenEvents: () => {},
  };
}

/** @param {Store} store */
function makeSharedViews(store) {
  const text = makeText(store);
  const rounds = makeRounds(store);
  text.follower.other = rounds.follower;
  return {
    summary: makeSummary(store),
    text,
    rounds,
    figures: makeFigures(store),
    announcer: makeAnnouncer(store),
    verdict: makeVerdictCard(store),
    charts: makeCharts(store),
  };
}

/** @param {View[]} views */
function makePlayer(views) {
  const names = { "data-testid": "player", "aria-label": "Player" };
  return make("section", "player card", names, elementsOf(views));
}

/** @param {View[]} views */
function elementsOf(views) {
  return views.map((view) => view.element);
}

/** Whether another run will be shown soon. @param {Run|undefined} run */
function awaitsAnotherRun(run) {
  return run !== undefined && run.waiting && ["loading", "queued"].includes(run.state);
}

/** The views on the page, drawn when the store changes. */
export class PlayerViews {
  /** @param {Store} store @param {Views} views @param {HTMLElement} root of the player */
  constructor(store, views, root) {
    this.store = store;
    this.views = views;
    this.root = root;
    this.loop = new FrameLoop(store, views.drawBetweenEvents);
    this.letGo = listenToKeys(root, views.controls);
    store.watch(() => this.draw());
  }

  draw() {
    const { store, views } = this;
    const empty = store.recording.rounds.length === 0 && store.recording.prompt.length === 0;
    views.player.dataset.empty = String(empty);
    this.root.dataset.waiting = String(awaitsAnotherRun(store.data.run));
    for (const view of views.all) view.draw();
    this.loop.wake();
  }

  close() {
    this.letGo();
    this.loop.close();
    this.store.close();
    for (const view of this.views.all) view.close();
  }
}
