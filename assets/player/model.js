// @ts-check
// What the player knows: recordings of runs, and one store with the cursor.
// No DOM in this file. Time is counted in events: a candidate appears, the target checks,
// a verdict falls, the discarded fade, the extra token lands.

/**
 * @typedef {"accepted"|"rejected"|"discarded"} Verdict
 * @typedef {"prompt"|"drafted"|"accepted"|"rejected"|"discarded"|"recovered"|"bonus"} Fate
 * @typedef {[text: string, prob: number]} Alternative
 * @typedef {{draft: number, target: number, draft_entropy: number, target_entropy: number,
 *   draft_top: Alternative[], target_top: Alternative[], residual_top: Alternative[]}} Insight
 * @typedef {{text: string, verdict: Verdict, draft: number, target: number, uniform: number,
 *   expected: number, insight: Insight|null}} Candidate
 * @typedef {{text: string, kind: "recovered"|"bonus", target: number, draft: number|null,
 *   uniform: number}} Extra
 * @typedef {{candidates: Candidate[], extra: Extra|null, cut: string|null,
 *   times: {draft: number, verify: number, other: number}}} Round
 * @typedef {{cells: Fate[], extra: Fate|null, checking: boolean, complete: boolean}} Scene
 * @typedef {{round: number, place: number}} Spot  place: candidate's index, or their number: the extra
 */

const UNDER_WAY = ["loading", "queued", "running"];

const SPEEDS = ["0.25", "0.5", "1", "2", "4", "true", "instant"];

/** Milliseconds of each kind of event at speed 1. */
const PACE = { draft: 170, check: 120, pass: 420, verdict: 190, discard: 160, land: 300, rest: 260 };

/** @param {Round} round */
function testedOf(round) {
  return round.candidates.filter((each) => each.verdict !== "discarded").length;
}

/** @param {Round} round @returns {number} how many events the round takes */
function eventsOf(round) {
  const drafted = round.candidates.length;
  const tested = testedOf(round);
  return drafted + 1 + tested + (tested < drafted ? 1 : 0) + (round.extra ? 1 : 0);
}

/**
 * What event number `step` (from 1) of a round is.
 * @param {Round} round @param {number} step
 * @returns {"draft"|"check"|"verdict"|"discard"|"land"}
 */
function eventKind(round, step) {
  const drafted = round.candidates.length;
  const tested = testedOf(round);
  if (step <= drafted) return "draft";
  if (step === drafted + 1) return "check";
  if (step <= drafted + 1 + tested) return "verdict";
  if (tested < drafted && step === drafted + 2 + tested) return "discard";
  return "land";
}

/**
 * What is on the stage after `step` events of a round.
 * @param {Round} round @param {number} step @returns {Scene}
 */
function sceneAt(round, step) {
  const drafted = round.candidates.length;
  const tested = testedOf(round);
  const judged = Math.min(tested, Math.max(0, step - drafted - 1));
  const faded = tested === drafted || step >= drafted + 2 + tested;
  const complete = step >= eventsOf(round);
  const cells = round.candidates.slice(0, step).map((each, place) => {
    if (place < judged) return /** @type {Fate} */ (each.verdict);
    return faded && judged === tested && each.verdict === "discarded" ? "discarded" : "drafted";
  });
  return {
    cells,
    extra: complete && round.extra ? round.extra.kind : null,
    checking: step === drafted + 1,
    complete,
  };
}

/** The tokens that a round adds to the text. @param {Round} round @returns {{text: string, fate: Fate, place: number}[]} */
function emittedBy(round) {
  /** @type {{text: string, fate: Fate, place: number}[]} */
  const tokens = [];
  round.candidates.forEach((each, place) => {
    if (each.verdict === "accepted") tokens.push({ text: each.text, fate: "accepted", place });
  });
  if (round.extra)
    tokens.push({ text: round.extra.text, fate: round.extra.kind, place: round.candidates.length });
  return tokens;
}

/** One run, growing by whole rounds. Prefix sums make any cursor cheap to place. */
class Recording {
  /** @param {string} id */
  constructor(id) {
    this.id = id;
    /** @type {string[]} */
    this.prompt = [];
    /** @type {Round[]} */
    this.rounds = [];
    /** Events before each round; the last entry is their total. */
    this.starts = [0];
    /** Emitted tokens before each round; the last entry is their total. */
    this.tokens = [0];
    /** Seconds before each round, record excluded; the last entry is their total. */
    this.seconds = [0];
  }

  get end() {
    return this.starts[this.starts.length - 1];
  }

  /**
   * Rounds number `from` and on. What is already here is left alone, and nothing is taken
   * after a gap, so that sending some rounds twice does no harm.
   * @param {number} from @param {Round[]} items @returns {number} how many were new
   */
  append(from, items) {
    if (from > this.rounds.length) return 0;
    const fresh = items.slice(this.rounds.length - from);
    for (const round of fresh) {
      const last = this.rounds.length;
      this.rounds.push(round);
      this.starts.push(this.starts[last] + eventsOf(round));
      this.tokens.push(this.tokens[last] + emittedBy(round).length);
      const { draft, verify, other } = round.times;
      this.seconds.push(this.seconds[last] + draft + verify + other);
    }
    return fresh.length;
  }

  /**
   * Where a cursor stands: the round under way and the events of it that are over. A cursor
   * at the end of a round belongs to that round, not to the next.
   * @param {number} cursor @returns {{round: number, step: number}}
   */
  place(cursor) {
    if (cursor <= 0 || this.rounds.length === 0) return { round: 0, step: 0 };
    let low = 0;
    let high = this.rounds.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.starts[middle] < cursor) low = middle;
      else high = middle - 1;
    }
    return { round: low, step: cursor - this.starts[low] };
  }

  /**
   * Milliseconds from the event before `cursor + 1` to it, at a speed.
   * @param {number} cursor @param {string} speed
   */
  wait(cursor, speed) {
    const next = this.place(cursor + 1);
    const round = this.rounds[next.round];
    const passed = next.step === round.candidates.length + 2; // what ends the target's pass
    const kind = passed ? "pass" : eventKind(round, next.step);
    if (speed === "true") return 1000 * trueWait(round, kind);
    const rest = next.step === 1 && next.round > 0 ? PACE.rest : 0;
    return (PACE[kind] + rest) / Number(speed);
  }
}

/**
 * Seconds an event really took: candidates share the draft phase, the pass ends with the first
 * verdict, and the others fall together in what is left.
 * @param {Round} round @param {string} kind
 */
function trueWait(round, kind) {
  const { draft, verify, other } = round.times;
  if (kind === "draft") return draft / round.candidates.length;
  if (kind === "check") return round.candidates.length ? 0 : draft;
  const later = eventsOf(round) - round.candidates.length - 2;
  if (kind === "pass") return verify + (later ? 0 : other);
  return other / later;
}

/**
 * The state of the player and who wants to know when it changes. Views read it, and change
 * it only through these methods; each change leads to one `changed` call of every view at
 * the next frame.
 */
class Store {
  constructor() {
    this.recording = new Recording("");
    /** Everything of the payload besides the rounds. @type {any} */
    this.data = {};
    this.cursor = 0;
    this.playing = false;
    this.speed = "1";
    /** Kept at the newest event while a run is under way. */
    this.live = false;
    /** @type {Spot|null} */
    this.selected = null;
    /** A draw that a person tries instead of the real one. @type {number|null} */
    this.whatIf = null;
    /** @type {Set<() => void>} */
    this.watchers = new Set();
    /** Whole rounds and no movement, for a person who asked for less of it. */
    this.still = false;
    /** Playing stops here, once. @type {number|null} */
    this.halt = null;
    /** The step since the last frame may be shown as a movement. */
    this.lively = false;
    this.drawn = 0; // the cursor at the last frame
    this.frame = 0;
    this.rested = 0; // no drawing before this moment while playing fast
    this.due = 0; // milliseconds still to wait before the next event
    this.wait = 0; // of so many
  }

  /** How much of the time to the next event is over, from 0 to 1. */
  get part() {
    return this.playing && this.due > 0 ? 1 - this.due / this.wait : 0;
  }

  /** Whether more rounds may come; a run that is done awaits only its forecast. */
  get underWay() {
    return Boolean(this.data.growing) && UNDER_WAY.includes(this.data.run?.state);
  }

  /** @param {() => void} watcher @returns {() => void} to stop watching */
  watch(watcher) {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  }

  changed() {
    if (!this.frame) this.frame = requestAnimationFrame((now) => this.tell(now));
  }

  /** Drawing has at most a third of the time where it is dear. @param {number} now */
  tell(now) {
    this.frame = 0;
    if (this.hasty && now < this.rested) return this.changed();
    this.lively = this.cursor - this.drawn === 1 && !this.still && !this.hasty;
    this.drawn = this.cursor;
    for (const watcher of this.watchers) watcher();
    const took = performance.now() - now;
    this.rested = took > 8 ? now + 3 * Math.min(took, 60) : 0;
  }

  /** Playing too fast for movements to be seen. */
  get hasty() {
    return this.playing && !(Number(this.speed) <= 2);
  }

  /** Another run takes the stage. @param {Recording} recording @param {{live: boolean, playing: boolean}} how */
  show(recording, how) {
    this.recording = recording;
    // What plays by itself shows its first candidate at once.
    this.cursor = how.live ? recording.end : Number(how.playing);
    this.live = how.live;
    this.playing = how.playing;
    this.selected = null;
    this.whatIf = null;
    this.halt = null;
    this.due = 0;
    this.changed();
  }

  /** Rounds have arrived, or the run has ended; what a lost message held may come after that. */
  grown() {
    if (this.live) this.cursor = this.recording.end;
    const whole = this.recording.rounds.length >= this.data.rounds.total;
    if (!this.underWay && whole) this.live = false;
    this.changed();
  }

  play() {
    if (this.cursor >= this.recording.end && !this.live) this.cursor = 0;
    this.live = false;
    this.playing = true;
    this.changed();
  }

  pause() {
    this.live = false;
    this.playing = false;
    this.changed();
  }

  /** Back to the newest event of a run under way. */
  follow() {
    this.live = true;
    this.playing = false;
    this.cursor = this.recording.end;
    this.changed();
  }

  /** @param {number} cursor */
  seek(cursor) {
    this.live = false;
    this.playing = false;
    this.cursor = Math.max(0, Math.min(this.recording.end, Math.round(cursor)));
    this.due = 0;
    this.changed();
  }

  /** @param {1|-1} by */
  stepToken(by) {
    this.seek(this.cursor + by);
  }

  /** To the end of a round. @param {1|-1} by */
  stepRound(by) {
    const { round, step } = this.recording.place(this.cursor);
    const { starts } = this.recording;
    if (by > 0) {
      const over = step >= starts[round + 1] - starts[round];
      this.seek(starts[Math.min(round + (over ? 2 : 1), starts.length - 1)]);
    } else this.seek(starts[round]);
  }

  /** @param {string} speed */
  setSpeed(speed) {
    this.speed = speed;
    this.due = 0;
    this.changed();
  }

  /** @param {Spot|null} spot */
  select(spot) {
    this.selected = spot;
    this.whatIf = null;
    this.changed();
  }

  /** @param {number|null} uniform */
  suppose(uniform) {
    this.whatIf = uniform;
    this.changed();
  }

  /** The next cursor to stand at and the milliseconds until then. */
  ahead() {
    const { recording, cursor, speed } = this;
    if (!this.still) return { stop: cursor + 1, wait: recording.wait(cursor, speed) };
    const end = recording.starts[recording.place(cursor + 1).round + 1];
    const stop = this.halt !== null && this.halt > cursor ? Math.min(this.halt, end) : end;
    let wait = 0;
    for (let event = cursor; event < stop; event++) wait += recording.wait(event, speed);
    return { stop, wait };
  }

  /**
   * Let time pass. Under load events are taken several at once: steps are dropped, never rounds.
   * @param {number} elapsed milliseconds
   */
  advance(elapsed) {
    if (!this.playing) return;
    const before = this.cursor;
    if (this.speed === "instant") this.cursor = this.halt ?? this.recording.end;
    else this.pass(elapsed);
    if (this.halt !== null && this.cursor >= this.halt) {
      this.halt = null;
      this.playing = false;
    }
    if (this.cursor >= this.recording.end && !this.underWay) this.playing = false;
    if (this.cursor !== before || !this.playing) this.changed();
  }

  /** @param {number} left milliseconds to use up */
  pass(left) {
    while (left > 0 && this.cursor < Math.min(this.recording.end, this.halt ?? Infinity)) {
      const { stop, wait } = this.ahead();
      if (this.due <= 0) this.due = this.wait = wait;
      if (left < this.due) {
        this.due -= left;
        return;
      }
      left -= this.due;
      this.due = 0;
      this.cursor = stop;
    }
  }
}
