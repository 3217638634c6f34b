// @ts-check
// Two lanes on one clock: the run as measured, and the target alone along the same words.
// A long run slides past under the cursor; a strip below shows where in it the window is.

const LEAST_STEP = 4.5; // pixels for one token of the target alone, at least
const LANE_HEIGHT = 30;
const BAR = { top: 5, height: 15 };

/** A round step of a scale: 1, 2 or 5 times a power of ten. @param {number} least */
function scaleStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * ([1, 2, 5].find((each) => each * power >= least) ?? 10);
}

/** A canvas as sharp as the screen, in CSS pixels. @param {HTMLCanvasElement} canvas @param {number} width @param {number} height */
function brush(canvas, width, height) {
  const sharpness = window.devicePixelRatio || 1;
  const wide = Math.round(width * sharpness);
  const high = Math.round(height * sharpness);
  if (canvas.width !== wide) canvas.width = wide;
  if (canvas.height !== high) canvas.height = high;
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  pen.setTransform(sharpness, 0, 0, sharpness, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

/**
 * The stretch of the clock that is in view.
 * @typedef {{from: number, span: number, width: number, now: number, unit: "s"|"ms",
 *   ink: Record<string, string>}} View
 */

/** @param {View} view @param {number} seconds */
function across(view, seconds) {
  return ((seconds - view.from) / view.span) * view.width;
}

/**
 * One stretch of time: full where the clock has been, faint where it is still to come.
 * @param {CanvasRenderingContext2D} pen @param {View} view
 * @param {number} from @param {number} to @param {string} colour
 */
function bar(pen, view, from, to, colour) {
  const left = across(view, from);
  const right = across(view, to);
  const now = Math.max(left, Math.min(right, across(view, view.now)));
  const gap = right - left > 3 ? 0.75 : 0;
  pen.fillStyle = colour;
  pen.fillRect(left, BAR.top, Math.max(0, now - left - (now === right ? gap : 0)), BAR.height);
  if (now === right) return;
  pen.globalAlpha = 0.24;
  pen.fillRect(now, BAR.top, Math.max(0, right - now - gap), BAR.height);
  pen.globalAlpha = 1;
}

/** A token lands. @param {CanvasRenderingContext2D} pen @param {View} view @param {number} at @param {number} height */
function tick(pen, view, at, height) {
  if (at > view.now * (1 + 1e-9)) return;
  pen.globalAlpha = 0.85;
  pen.fillStyle = view.ink.ink;
  const middle = BAR.top + BAR.height / 2;
  pen.fillRect(across(view, at) - 0.75, middle - height / 2, 1.5, height);
  pen.globalAlpha = 1;
}

/** The line that both lanes share. @param {CanvasRenderingContext2D} pen @param {View} view @param {number} height */
function playhead(pen, view, height) {
  pen.fillStyle = view.ink.accent;
  pen.fillRect(Math.min(view.width - 2, Math.max(0, across(view, view.now) - 1)), 0, 2, height);
}

/** @param {CanvasRenderingContext2D} pen @param {View} view @param {LaneClock} clock */
function paintSpeculative(pen, view, clock) {
  const { recording, parts, seconds } = clock;
  const first = Math.max(0, countUpTo(seconds, view.from) - 1);
  for (let index = first; index < parts.length; index++) {
    const { draft, verify } = parts[index];
    const start = seconds[index];
    const end = seconds[index + 1];
    if (start > view.from + view.span) return;
    bar(pen, view, start, start + draft, view.ink.draft);
    bar(pen, view, start + draft, start + draft + verify, view.ink.verify);
    bar(pen, view, start + draft + verify, end, view.ink.other);
    tick(pen, view, end, 24);
    label(pen, view, start, end, recording.tokens[index + 1] - recording.tokens[index]);
  }
  finish(pen, view, clock.total);
}

/** How many tokens a round brought, where there is room. @param {CanvasRenderingContext2D} pen @param {View} view @param {number} from @param {number} to @param {number} tokens */
function label(pen, view, from, to, tokens) {
  if (across(view, to) - across(view, from) < 26 || to > view.now) return;
  pen.fillStyle = view.ink.soft;
  pen.fillText(`+${tokens}`, across(view, to) - 3, LANE_HEIGHT - 0.5);
}

/** @param {CanvasRenderingContext2D} pen @param {View} view @param {number[]} sums */
function paintTarget(pen, view, sums) {
  const first = Math.max(0, countUpTo(sums, view.from) - 1);
  for (let index = first; index < sums.length - 1; index++) {
    if (sums[index] > view.from + view.span) return;
    bar(pen, view, sums[index], sums[index + 1], view.ink.verify);
    tick(pen, view, sums[index + 1], 18);
  }
  finish(pen, view, sums[sums.length - 1]);
}

/** The time at a lane's end, once it is reached. @param {CanvasRenderingContext2D} pen @param {View} view @param {number} total */
function finish(pen, view, total) {
  const left = across(view, total) + 8;
  if (total === 0 || total > view.now * (1 + 1e-9) || left > view.width - 48) return;
  const time = timeIn(total, view.unit);
  const words = left < 8 ? `done at ${time}` : time;
  pen.fillStyle = view.ink.ink;
  pen.textAlign = "left";
  pen.fillText(words, Math.max(0, left), BAR.top + 11);
  pen.textAlign = "right";
}

/** @param {CanvasRenderingContext2D} pen @param {View} view */
function paintScale(pen, view) {
  if (view.now === 0 && view.span <= 1e-3) return;
  const step = scaleStep((view.span * 76) / view.width);
  pen.fillStyle = view.ink.soft;
  const factor = view.unit === "s" ? 1 : 1000;
  for (let at = Math.ceil(view.from / step) * step; at <= view.from + view.span; at += step) {
    const left = across(view, at);
    pen.fillRect(left, 0, 1, 4);
    const words = `${Number((at * factor).toFixed(3))} ${view.unit}`;
    pen.textAlign = left < 8 ? "left" : left > view.width - 24 ? "right" : "center";
    pen.fillText(words, left, 15);
  }
}

class Lane {
  /** @param {string} name */
  constructor(name) {
    this.canvas = make("canvas", "", { "aria-hidden": "true" });
    this.count = make("b", "count");
    this.note = make("span", "note");
    this.element = make("div", "lane", {}, [
      make("span", "name", {}, [name]),
      make("div", "track", {}, [this.canvas, this.note]),
      this.count,
    ]);
  }

  /** @param {number} tokens */
  tell(tokens) {
    const words = `${tokens} ${tokens === 1 ? "token" : "tokens"}`;
    if (this.count.textContent !== words) this.count.textContent = words;
  }
}

class Lanes {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.fast = new Lane("speculative");
    this.plain = new Lane("target alone");
    this.scale = make("canvas", "", { "aria-hidden": "true" });
    this.strip = make("canvas", "strip", { "aria-hidden": "true" });
    this.result = make("p", "result");
    this.picture = make("div", "tracks", { role: "img", "aria-label": "" }, [
      this.fast.element,
      this.plain.element,
      make("div", "lane foot", {}, [
        make("span", "name"),
        make("div", "track", {}, [this.scale, this.strip]),
        make("span", "count"),
      ]),
    ]);
    this.element = make("section", "lanes card", { "data-testid": "lanes" }, [
      make("h2", "", {}, ["The same words on one clock"]),
      this.picture,
      make("div", "foot-line", {}, [makeLaneKey(), this.result]),
    ]);
    this.listen();
    this.clock = new LaneClock(store.recording, null);
    /** @type {number[]|null} */
    this.alone = null;
    this.noisy = false;
    this.sums = [0];
    this.drawn = "";
    this.spoken = "";
  }

  listen() {
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.fast.canvas.parentElement);
    for (const canvas of [this.fast.canvas, this.plain.canvas])
      canvas.addEventListener("click", (/** @type {MouseEvent} */ event) => this.jump(event));
    this.strip.addEventListener("click", (/** @type {MouseEvent} */ event) => this.leap(event));
  }

  close() {
    this.resized?.disconnect();
  }

  draw() {
    const { recording, cursor, underWay } = this.store;
    const width = this.fast.canvas.parentElement.clientWidth;
    this.learn();
    const state = [recording.id, recording.end, this.clock.total, this.sums.length, cursor, width];
    state.push(theme(this.element), this.noisy, underWay, this.missing());
    if (width === 0 || state.join() === this.drawn) return;
    this.drawn = state.join();
    this.paint(this.look(width));
    this.say();
  }

  learn() {
    const { recording, data } = this.store;
    const lanes = recording.id === data.run?.id ? data.lanes : null;
    const timed = lanes?.speculative?.length === recording.rounds.length ? lanes.speculative : null;
    if (!this.clock.fits(recording, timed)) this.clock = new LaneClock(recording, timed);
    const alone = lanes?.target ?? null;
    this.noisy = Boolean(lanes?.noisy);
    if (alone === this.alone) return;
    this.alone = alone;
    this.sums = sumsOf(alone ?? []);
  }

  get total() {
    return Math.max(this.clock.total, this.sums[this.sums.length - 1]);
  }

  /** The clock now; between two events it moves on, so that the race runs smoothly. */
  now() {
    const { cursor, part, still, recording } = this.store;
    const at = this.clock.at(cursor);
    if (still || part === 0 || cursor >= recording.end) return at;
    return at + part * (this.clock.at(cursor + 1) - at);
  }

  /** Between two events, while playing slowly enough for it to show. */
  glide() {
    const { still, speed } = this.store;
    if (this.view && !still && Number(speed) <= 1) this.paint(this.look(this.view.width));
  }

  /** @param {number} width @returns {View} */
  look(width) {
    const { recording } = this.store;
    const tokens = recording.tokens[recording.tokens.length - 1] || 1;
    const span = Math.min(this.total, (this.total * width) / (LEAST_STEP * tokens)) || 1e-3;
    const now = this.now();
    const from = Math.max(0, Math.min(now - 0.62 * span, this.total - span));
    return { from, span, width, now, unit: unitFor(this.total), ink: laneInk(this.element) };
  }

  /** @param {View} view */
  paint(view) {
    this.view = view;
    const fast = this.pen(this.fast.canvas, view, LANE_HEIGHT);
    paintSpeculative(fast, view, this.clock);
    playhead(fast, view, LANE_HEIGHT);
    const plain = this.pen(this.plain.canvas, view, LANE_HEIGHT);
    paintTarget(plain, view, this.sums);
    if (this.alone) playhead(plain, view, LANE_HEIGHT - 4);
    paintScale(this.pen(this.scale, view, 18), view);
    this.paintStrip(view);
    this.count(view);
  }

  /** @param {HTMLCanvasElement} canvas @param {View} view @param {number} height */
  pen(canvas, view, height) {
    const pen = brush(canvas, view.width, height);
    pen.font = view.ink.font;
    pen.textAlign = "right";
    return pen;
  }

  /** @param {View} view */
  paintStrip(view) {
    const part = view.span / (this.total || 1);
    this.strip.hidden = part > 0.999 || this.total === 0;
    if (this.strip.hidden) return;
    const pen = brush(this.strip, view.width, 6);
    pen.fillStyle = view.ink.line;
    pen.fillRect(0, 1, view.width, 4);
    pen.fillStyle = view.ink.soft;
    const left = (view.from / this.total) * view.width;
    pen.fillRect(left, 1, Math.max(3, part * view.width), 4);
    pen.fillStyle = view.ink.accent;
    pen.fillRect((view.now / this.total) * view.width - 1, 0, 2, 6);
  }

  /** @param {View} view */
  count(view) {
    const { recording, cursor } = this.store;
    const { round, step } = recording.place(cursor);
    const whole = recording.rounds[round];
    const over = whole && step >= eventsOf(whole) ? 1 : 0;
    this.fast.tell(recording.tokens[round + over] ?? 0);
    this.plain.count.hidden = !this.alone;
    if (this.alone) this.plain.tell(countUpTo(this.sums, view.now * (1 + 1e-9)) - 1);
    const note = this.missing();
    if (this.plain.note.textContent !== note) this.plain.note.textContent = note;
  }

  /** What stands in place of the target alone. */
  missing() {
    const { recording, data } = this.store;
    if (this.alone || !recording.rounds.length) return "";
    const own = recording.id === data.run?.id;
    if (own && UNDER_WAY.includes(data.run.state)) return "measured after the run";
    const broken = own && ["stopped", "failed"].includes(data.run.state);
    return broken ? "not measured: the run did not end by itself" : "not measured";
  }

  /** The outcome, once the cursor is at the end. */
  say() {
    const { recording, cursor, underWay } = this.store;
    const over = cursor >= recording.end && recording.end > 0 && !underWay && this.alone;
    const words = over ? this.outcome() : "";
    if (this.result.textContent !== words) this.result.textContent = words;
    this.result.classList.toggle("unsure", this.noisy);
    const spoken = `Two lanes on one clock. ${words || "Speculative decoding above, the target alone below."}`;
    if (spoken !== this.spoken) this.picture.setAttribute("aria-label", spoken);
    this.spoken = spoken;
  }

  /** Both times in one unit; a winner only where the machine was quiet. */
  outcome() {
    const fast = this.clock.total;
    const plain = this.sums[this.sums.length - 1];
    const unit = unitFor(this.total);
    const both = `speculative ${timeIn(fast, unit)}, target alone ${timeIn(plain, unit)}`;
    if (this.noisy) return `${both} (noisy machine)`;
    const apart = timeIn(Math.abs(plain - fast), unit);
    return `${both}: ${plain > fast ? `${apart} sooner` : `${apart} later: the race is lost`}`;
  }

  /** @param {MouseEvent} event */
  jump(event) {
    const { view, store } = this;
    if (!view) return;
    store.seek(this.clock.cursorAt(view.from + (event.offsetX / view.width) * view.span));
  }

  /** @param {MouseEvent} event */
  leap(event) {
    const part = event.offsetX / this.strip.clientWidth;
    this.store.seek(this.clock.cursorAt(part * this.total));
  }
}

/** @param {Element} element */
function theme(element) {
  return element.closest(".sv")?.getAttribute("data-theme") ?? "";
}

/** The colours of now. @param {Element} element @returns {Record<string, string>} */
function laneInk(element) {
  const style = getComputedStyle(element);
  /** @param {string} name */
  const read = (name) => style.getPropertyValue(name).trim();
  return {
    draft: read("--seg-d"),
    verify: read("--seg-v"),
    other: read("--seg-o"),
    ink: read("--ink"),
    soft: read("--soft"),
    line: read("--line"),
    accent: read("--accent"),
    font: `${0.6875 * rootSize()}px ${style.fontFamily}`,
  };
}

function makeLaneKey() {
  return make("div", "key", {}, [
    keyEntry("d", "draft"),
    keyEntry("v", "target"),
    keyEntry("o", "other"),
    keyEntry("t", "tokens land"),
  ]);
}

/** @param {Store} store */
function makeLanes(store) {
  return new Lanes(store);
}
