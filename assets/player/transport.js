// @ts-check
// Buttons, the seek bar, speed, the keyboard, and the announcer.

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

const KEY_HELP = [
  ["Space", "play or pause"],
  ["← →", "one step back or on"],
  ["[ ]", "one round back or on (also Shift + ← →)"],
  ["Home End", "start or end"],
  [", .", "slower or faster"],
  ["arrows", "from token to token, once one is chosen"],
  ["?", "this list"],
];

class Transport {
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

function makeKeys() {
  const rows = KEY_HELP.flatMap(([key, what]) => [
    make("dt", "", {}, [key]),
    make("dd", "", {}, [what]),
  ]);
  const opener = make("summary", "", { "aria-label": "Keys" }, ["?"]);
  return make("details", "keys", {}, [opener, make("dl", "", {}, rows)]);
}

/** What a key does; nothing for keys that are not ours (Streamlit has R, C and Esc). @param {Transport} transport @returns {Record<string, () => void>} */
function keymap(transport) {
  const { store } = transport;
  return {
    " ": () => transport.toggle(),
    ArrowLeft: () => store.stepToken(-1),
    ArrowRight: () => store.stepToken(1),
    "Shift+ArrowLeft": () => store.stepRound(-1),
    "Shift+ArrowRight": () => store.stepRound(1),
    "[": () => store.stepRound(-1),
    "]": () => store.stepRound(1),
    Home: () => store.seek(0),
    End: () => store.seekEnd(),
    ",": () => transport.shift(-1),
    ".": () => transport.shift(1),
    "?": () => transport.keys.toggleAttribute("open"),
  };
}

/**
 * Keys work when the player has the focus or nothing has it.
 * @param {HTMLElement} root @param {Transport} transport @returns {() => void} to let go
 */
function listenToKeys(root, transport) {
  const keys = keymap(transport);
  /** @param {KeyboardEvent} event */
  const listen = (event) => {
    const act = keys[event.shiftKey && event.key.startsWith("Arrow") ? `Shift+${event.key}` : event.key];
    if (!act || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (!ours(root, event)) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  };
  document.addEventListener("keydown", listen, true);
  return () => document.removeEventListener("keydown", listen, true);
}

const MOVING = ["ArrowLeft", "ArrowRight", "Home", "End", " "];

/** Whether a key is the player's: what has the focus may need it for itself. @param {HTMLElement} root @param {KeyboardEvent} event */
function ours(root, event) {
  const target = /** @type {HTMLElement} */ (event.target);
  if (target === document.body || target === document.documentElement) return true;
  if (!root.contains(target) || target.closest("select, textarea")) return false;
  if (target.closest("[data-place]")) return event.shiftKey || !MOVING.includes(event.key);
  if (target.closest("input, [role=slider], [role=radio]")) return !MOVING.includes(event.key);
  return !(event.key === " " && target.closest("button, summary, a"));
}

/** @param {Round} round @param {number} index @returns {string} a finished round in words */
function roundWords(round, index) {
  const accepted = round.candidates.filter((each) => each.verdict === "accepted").length;
  const rejected = round.candidates.find((each) => each.verdict === "rejected");
  const words = [`Round ${index + 1}: ${accepted} of ${round.candidates.length} accepted`];
  if (rejected) words.push(`‘${seen(rejected.text)}’ rejected`);
  if (round.extra) words.push(`${round.extra.kind} ‘${seen(round.extra.text)}’`);
  return `${words.join(", ")}.`;
}

/** Says finished rounds aloud, no more often than once a second. */
class Announcer {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.element = make("div", "unseen", { "aria-live": "polite", role: "status" });
    /** @type {Recording|null} */
    this.recording = null;
    this.said = 0; // rounds spoken of
    this.quiet = 0; // not before this moment
    this.later = 0;
  }

  draw() {
    const { store } = this;
    const over = this.finished();
    const racing = store.race !== null && store.playing; // the race has its own announcer
    if (store.recording !== this.recording || over < this.said || racing) {
      this.recording = store.recording;
      this.said = over;
    }
    if (over > this.said && !this.later) this.soon();
  }

  /** Rounds that the cursor has left behind. */
  finished() {
    const { recording, cursor } = this.store;
    if (cursor <= 0 || !recording.rounds.length) return 0;
    const { round, step } = recording.place(cursor);
    return round + (step >= eventsOf(recording.rounds[round]) ? 1 : 0);
  }

  soon() {
    const wait = Math.max(0, this.quiet - performance.now());
    this.later = window.setTimeout(() => this.speak(), wait);
  }

  speak() {
    const over = this.finished();
    const { recording } = this.store;
    this.later = 0;
    this.quiet = performance.now() + 1000;
    if (over <= this.said) return;
    const tokens = recording.tokens[over] - recording.tokens[this.said];
    this.element.textContent =
      over === this.said + 1
        ? roundWords(recording.rounds[over - 1], over - 1)
        : `Rounds ${this.said + 1} to ${over}: ${tokens} tokens.`;
    this.said = over;
  }

  close() {
    clearTimeout(this.later);
  }
}

/** @param {Store} store */
function makeTransport(store) {
  return new Transport(store);
}

/** @param {Store} store */
function makeAnnouncer(store) {
  return new Announcer(store);
}
