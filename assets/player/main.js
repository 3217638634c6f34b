// @ts-check
// The layout, the feed and the frame loop. The component function is called again, in place, on
// new data or another theme; the stage stays.

const KEPT = 6; // recordings remembered
const LONGEST_FRAME = 500; // milliseconds; a tab that slept goes on where it was
const WISH_EVERY = 1000; // milliseconds between two wishes for what is missing

/** @type {Map<string, Recording>} */
const recordings = new Map();

/** @type {WeakMap<HTMLElement, Stage>} */
const stages = new WeakMap();

/** @param {string} id */
function recordingOf(id) {
  const recording = recordings.get(id) ?? new Recording(id);
  recordings.delete(id);
  recordings.set(id, recording); // the newest last
  const oldest = recordings.keys().next().value;
  if (recordings.size > KEPT && oldest !== undefined) recordings.delete(oldest);
  return recording;
}

/** Asks Python for rounds that did not come, until they do. */
class Wisher {
  constructor() {
    this.timer = 0;
    this.next = 0;
    this.number = 0;
    /** @type {((name: string, value: any) => void)|null} */
    this.send = null;
  }

  /** @param {Recording} recording @param {number} total how many rounds there are by now */
  heed(recording, total) {
    this.recording = recording;
    this.total = total;
    this.later();
  }

  get missing() {
    return this.recording !== undefined && this.recording.rounds.length < (this.total ?? 0);
  }

  later() {
    if (this.timer || !this.missing) return;
    const wait = Math.max(0, this.next - performance.now());
    this.timer = window.setTimeout(() => this.speak(), wait);
  }

  speak() {
    this.timer = 0;
    if (!this.missing || !this.recording) return;
    const { id, rounds } = this.recording;
    // Numbered by the clock, so that the wish of a page opened anew is a new one.
    this.number = Math.max(this.number + 1, Date.now());
    this.send?.("wish", { run: id, start: rounds.length, number: this.number });
    this.next = performance.now() + WISH_EVERY;
    this.later();
  }

  close() {
    clearTimeout(this.timer);
  }
}

/** Frames while playing, none otherwise. */
class FrameLoop {
  /** @param {Store} store @param {() => void} between what moves between two events */
  constructor(store, between) {
    this.store = store;
    this.between = between;
    this.frame = 0;
    this.before = 0;
  }

  wake() {
    if (this.frame || !this.store.playing) return;
    this.before = performance.now();
    this.frame = requestAnimationFrame((now) => this.turn(now));
  }

  /** @param {number} now */
  turn(now) {
    this.frame = 0;
    this.store.advance(Math.max(0, Math.min(LONGEST_FRAME, now - this.before)));
    this.before = now;
    if (!this.store.playing) return;
    this.between();
    this.frame = requestAnimationFrame((later) => this.turn(later));
  }

  close() {
    cancelAnimationFrame(this.frame);
  }
}

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

class Stage {
  /** @param {HTMLElement} parent */
  constructor(parent) {
    this.parent = parent;
    this.generation = 0;
    /** @type {boolean|null} */
    this.racing = null;
    this.store = new Store();
    this.views = this.makeViews();
    this.loop = new FrameLoop(this.store, () => this.views.lanes.glide());
    this.wisher = new Wisher();
    this.element = make("div", "sv", { "data-theme": "light" }, [this.layout()]);
    parent.append(this.element);
    this.letGo = listenToKeys(this.element, this.views.transport);
    this.listenToMotion();
    this.store.watch(() => this.draw());
  }

  makeViews() {
    const { store } = this;
    return {
      summary: makeSummary(store),
      text: makeText(store),
      rounds: makeRounds(store),
      transport: makeTransport(store),
      announcer: makeAnnouncer(store),
      lanes: makeLanes(store),
      race: makeRaceLanes(store),
      verdict: makeVerdictCard(store),
      charts: makeCharts(store),
      tour: makeTour(store),
    };
  }

  layout() {
    const { text, rounds, transport, tour } = this.views;
    this.player = make("section", "player card", { "data-testid": "player", "aria-label": "Player" }, [
      text.element,
      rounds.element,
      transport.element,
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
    this.wisher.heed(recording, rounds.total);
  }

  /** @param {any} race */
  takeRace(race) {
    if (this.store.race?.id === race.id) return;
    this.store.enter(makeRace(race, recordingOf));
    this.arrange(true);
    const { recording } = this.store;
    this.wisher.heed(recording, recording.rounds.length); // all are here
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
    this.wisher.close();
    if (this.heed) this.calm?.removeEventListener("change", this.heed);
    for (const view of Object.values(this.views)) view.close();
    this.element.remove();
  }
}

/** @param {HTMLElement} parent @returns {Stage} */
function stageOf(parent) {
  const stage = stages.get(parent) ?? new Stage(parent);
  stages.set(parent, stage);
  return stage;
}

/**
 * A cleanup may come late, after the next call has begun: only the newest one may close the
 * stage, and only when its place on the page is gone.
 * @param {{data: any, parentElement: HTMLElement, setStateValue: (name: string, value: any) => void}} given
 */
export default function ({ data, parentElement, setStateValue }) {
  const stage = stageOf(parentElement);
  const generation = ++stage.generation;
  stage.wisher.send = setStateValue;
  stage.dress();
  stage.take(data);
  return () =>
    setTimeout(() => {
      if (stage.generation !== generation || parentElement.isConnected) return;
      stages.delete(parentElement);
      stage.close();
    });
}
