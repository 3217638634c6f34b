// Draws the lanes of a race and the target alone on one clock. The name of a lane is a button that
// selects it.

import { make, setText, setTextOrHide } from "./elements.js";
import {
  LaneFoot,
  laneKey,
  paintPresent,
  paintSpeculative,
  paintTarget,
  penFor,
  windowAround,
  xAt,
} from "./lane_painting.js";
import { timeIn, unitFor } from "./number_words.js";
import { rateAt, TargetAlone, withRounding } from "./race.js";
import { themeOf } from "./theme.js";
import { visibleText } from "./token_text.js";

/** @import { ClockWindow } from "./lane_painting.js" */
/** @import { Contestant, Race } from "./race.js" */
/** @import { RaceStore } from "./race_store.js" */

const RACE_STEP = 1.5; // least pixels per token of the longest lane

/** One lane as a row: the name, the rate so far, the track, and the progress. */
class RaceRow {
  /**
   * @param {Contestant} contestant @param {number} index
   * @param {() => void} [choose] called by a click on the name; absent for the target alone
   */
  constructor(contestant, index, choose) {
    this.contestant = contestant;
    this.canvas = make("canvas", "", { "aria-hidden": "true" });
    this.rate = make("span", "rate");
    this.first = make("span", "first", {}, ["fastest"]);
    this.count = make("b", "count");
    this.time = make("span", "time");
    this.name = choose ? this.makeChoice(choose) : make("span", "racer plain");
    this.name.append(
      make("span", "racer-name", {}, [visibleText(contestant.label)]),
      make("span", "under", {}, [this.rate, this.first]),
    );
    const names = { "data-testid": "race-lane", "data-index": String(index) };
    this.element = make("div", "lane", names, [
      this.name,
      make("div", "track", {}, [this.canvas]),
      make("div", "score", {}, [this.count, this.time]),
    ]);
  }

  /** @param {() => void} choose */
  makeChoice(choose) {
    const element = make("button", "racer", { type: "button", role: "radio", "aria-checked": "false" });
    element.addEventListener("click", choose);
    return element;
  }

  /** @param {boolean} chosen */
  showChoice(chosen) {
    if (this.contestant instanceof TargetAlone) return; // the target alone cannot be chosen
    this.name.setAttribute("aria-checked", String(chosen));
    this.name.tabIndex = chosen ? 0 : -1;
    this.element.dataset.chosen = String(chosen);
  }

  /** @param {Race} race @param {ClockWindow} view */
  showProgress(race, view) {
    const { contestant } = this;
    const tokens = contestant.tokensAt(race.now);
    const rate = rateAt(contestant, race.now);
    const inside = race.hasFinished(contestant);
    setText(this.rate, `${rate.toFixed(rate < 10 ? 1 : 0)} tokens/s`);
    setText(this.count, `${tokens} ${tokens === 1 ? "token" : "tokens"}`);
    setText(this.time, inside ? timeIn(contestant.total, view.unit) : "");
    this.time.dataset.seconds = inside ? String(contestant.total) : "";
    this.first.hidden = !(race.over && race.winner === contestant);
  }

  /** @param {ClockWindow} view @param {boolean} over */
  paint(view, over) {
    const { contestant } = this;
    const pen = penFor(this.canvas, view, view.height);
    if (contestant instanceof TargetAlone) paintTarget(pen, view, contestant.sums);
    else paintSpeculative(pen, view, contestant.clock);
    if (contestant.total) paintGoal(pen, view, contestant.total);
    if (!over) paintPresent(pen, view, view.height);
  }
}

/**
 * Paint the end of a lane.
 * @param {CanvasRenderingContext2D} pen @param {ClockWindow} view @param {number} total
 */
function paintGoal(pen, view, total) {
  const left = Math.min(view.width - 2, xAt(view, total));
  pen.fillStyle = view.ink.ink;
  pen.globalAlpha = total <= withRounding(view.now) ? 1 : 0.35;
  pen.fillRect(left, view.bar.top - 4, 2, view.bar.height + 8);
  pen.globalAlpha = 1;
}

class RaceLanes {
  /** @param {RaceStore} store */
  constructor(store) {
    this.store = store;
    /** @type {Race|null} */
    this.race = null;
    /** @type {RaceRow[]} */
    this.rows = [];
    /** @type {ClockWindow|null} */
    this.view = null;
    this.drawn = "";
    this.in = 0; // number of lanes that had finished at the last announcement
    this.list = this.makeList();
    this.foot = new LaneFoot((share) => this.race && store.seekTo(share * this.race.total));
    this.key = make("div", "key");
    this.result = make("p", "result", { "data-testid": "race-result" });
    this.note = make("p", "race-note");
    this.announcer = make("div", "unseen", { "aria-live": "polite", role: "status", "data-testid": "race-news" });
    this.element = this.layout();
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.foot.track);
  }

  makeList() {
    const names = { role: "radiogroup", "aria-label": "Lane to show" };
    const list = make("div", "rows-of-lanes", names);
    list.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.moveChoice(event));
    list.addEventListener("click", (/** @type {MouseEvent} */ event) => this.seekOnLane(event));
    return list;
  }

  layout() {
    const foot = make("div", "lane foot", {}, [make("span", "racer"), this.foot.track, make("span", "score")]);
    return make("section", "lanes race card", { "data-testid": "race" }, [
      make("h2", "", {}, ["All lanes on one clock"]),
      make("div", "tracks", {}, [this.list, foot]),
      make("div", "foot-line", {}, [this.key, this.result]),
      this.note,
      this.announcer,
    ]);
  }

  draw() {
    const { race } = this.store;
    if (race !== this.race) this.begin(race);
    const width = this.foot.track.clientWidth;
    const state = [race.id, race.now, race.chosen, width, themeOf(this.element)].join();
    if (width === 0 || state === this.drawn) return;
    this.drawn = state;
    this.paint(race, width);
    this.showResult(race);
    this.announce(race);
  }

  /** @param {Race} race */
  begin(race) {
    this.race = race;
    this.in = 0;
    this.rows = race.all.map((contestant, index) => {
      const isRacer = index < race.racers.length;
      return new RaceRow(contestant, index, isRacer ? () => this.store.choose(index) : undefined);
    });
    const undivided = race.racers.map((racer) => racer.clock.parts.some((each) => "whole" in each));
    this.key.replaceChildren(...laneKey({ divided: undivided.includes(false), undivided: undivided.includes(true), alone: race.targets.length > 0 }));
    this.list.replaceChildren(...this.rows.map((row) => row.element));
    const { targets } = race;
    const along = targets.map((each) => `${each.label}: timed along the text of ${each.along}`);
    setTextOrHide(this.note, race.racers.length > 1 && along.length ? `${visibleText(along.join("; "))}.` : "");
  }

  /** @param {Race} race @param {number} width */
  paint(race, width) {
    const { total, now } = race;
    const tokens = Math.max(...race.all.map((each) => each.tokens));
    const view = windowAround({ total, now, tokens, step: RACE_STEP, width, element: this.element });
    this.view = view;
    this.rows.forEach((row, index) => {
      row.showChoice(index === race.chosen);
      row.showProgress(race, view);
      row.paint(view, race.over);
    });
    this.foot.paint(view, total);
  }

  /** @param {Race} race */
  showResult(race) {
    setText(this.result, race.over ? resultOf(race) : "");
    this.result.classList.toggle("unsure", race.open || race.unlike !== "");
  }

  /** Announce the lanes that have finished since the last call. @param {Race} race */
  announce(race) {
    const inside = race.all.filter((each) => race.hasFinished(each));
    const fresh = inside.length > this.in;
    this.in = inside.length;
    if (!fresh) return;
    const last = inside.reduce((late, each) => (each.total > late.total ? each : late));
    const words = `${visibleText(last.label)} finished after ${timeIn(last.total, unitFor(race.total))}.`;
    setText(this.announcer, race.over ? `${words} ${resultOf(race)}` : words);
  }

  /** Arrow keys move from name to name, as in any radio group. @param {KeyboardEvent} event */
  moveChoice(event) {
    const { race } = this;
    const by = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    if (!race || !by || !(/** @type {Element} */ (event.target).closest("[role=radio]"))) return;
    event.preventDefault();
    event.stopPropagation();
    const { length } = race.racers;
    const next = (race.chosen + by + length) % length;
    this.store.choose(next);
    this.rows[next].showChoice(true);
    this.rows[next].name.focus();
  }

  /** @param {MouseEvent} event */
  seekOnLane(event) {
    const { view, store } = this;
    if (!view || !(event.target instanceof HTMLCanvasElement)) return;
    store.seekTo(view.from + (event.offsetX / view.width) * view.span);
  }

  close() {
    this.resized.disconnect();
  }
}

/**
 * A sentence with the result of these recordings.
 * @param {Race} race
 */
function resultOf(race) {
  const { winner, unlike } = race;
  if (unlike) return unlike;
  if (!winner) return "These recordings are too close to call.";
  const how = race.alike ? "" : ", by tokens per second: the lanes differ in length";
  return `In these recordings ${visibleText(winner.label)} is the fastest${how}.`;
}

/** @param {RaceStore} store */
export function makeRaceLanes(store) {
  return new RaceLanes(store);
}
