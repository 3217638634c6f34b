// @ts-check
// The text pane: the prompt, then every token as it lands, marked by where it came from.
// Tokens are only ever appended or taken off the end.

const BLOCK = 160; // tokens, at least, in one block of text

// A blank before such a token may go where a line ends; all other blanks are kept.
const SIMPLE = /^ ?\S+$/;

/** @typedef {{text: string, fate: Fate, round: number, place: number}} Landed */

/** @param {Round} round @param {number} step @returns {number} tokens that have landed by then */
function landedBy(round, step) {
  const drafted = round.candidates.length;
  const accepted = round.candidates.filter((each) => each.verdict === "accepted").length;
  const fallen = Math.min(accepted, Math.max(0, step - drafted - 1));
  return fallen + (round.extra && step >= eventsOf(round) ? 1 : 0);
}

/** Where the line ends on which a token does; a line end belongs to the line that it ends. @param {HTMLElement} token */
function lineBottom(token) {
  const pieces = token.getClientRects();
  const ends = token.textContent?.endsWith("\n") || token.classList.contains("end");
  return (pieces[ends ? 0 : pieces.length - 1] ?? token.getBoundingClientRect()).bottom;
}

/**
 * The tokens that make the last line of a block, so that the next block can begin with them.
 * @param {HTMLElement[]} tokens @returns {HTMLElement[]}
 */
function lastLine(tokens) {
  const last = tokens[tokens.length - 1];
  const bottom = lineBottom(last);
  let first = tokens.length;
  while (first > 1 && lineBottom(tokens[first - 1]) > bottom - 2) first -= 1;
  return first > tokens.length / 2 ? tokens.slice(first) : []; // not laid out: no lines to see
}

/**
 * Tokens in blocks that end where a line ends. To append then costs the layout of one block,
 * not of the whole text, and nobody sees the seams.
 */
class Column {
  /** @param {HTMLElement} element @param {HTMLElement} caret */
  constructor(element, caret) {
    this.element = element;
    this.caret = caret;
    /** @type {{element: HTMLElement, start: number}[]} */
    this.blocks = [];
    this.count = 0;
    this.gapped = false; // the last token ends with a blank
    this.open([]);
  }

  get last() {
    return this.blocks[this.blocks.length - 1];
  }

  /** @param {HTMLElement[]} tokens what the new block begins with */
  open(tokens) {
    const element = make("div", "block", {}, [...tokens, this.caret]);
    this.element.append(element);
    this.blocks.push({ element, start: this.count - tokens.length });
  }

  /** @param {string} text @param {Fate} fate @param {boolean} ends it stands for the end of a text */
  push(text, fate, ends) {
    if (this.count - this.last.start >= BLOCK) this.open(lastLine(this.tokens));
    const name = this.gapped || !SIMPLE.test(text) ? "word spaced" : "word";
    const token = make("span", name, { "data-testid": "token", "data-state": fate });
    token.textContent = seen(text);
    this.gapped = /\s$/.test(text);
    if (ends) markEnd(token);
    token.dataset.at = String(this.count);
    this.last.element.insertBefore(token, this.caret);
    this.count += 1;
  }

  /** Those of the last block. @returns {HTMLElement[]} */
  get tokens() {
    return /** @type {HTMLElement[]} */ ([...this.last.element.children].slice(0, -1));
  }

  /** @param {number} count */
  cut(count) {
    if (count >= this.count) return;
    while (this.last.start > count) this.blocks.pop()?.element.remove();
    const { element, start } = this.last;
    const kept = /** @type {HTMLElement[]} */ ([...element.children]).slice(0, count - start);
    element.replaceChildren(...kept, this.caret);
    this.count = count;
    this.gapped = /\s$/.test(kept[kept.length - 1]?.textContent ?? "");
  }

  /** @param {number} index @returns {HTMLElement|undefined} */
  at(index) {
    let order = this.blocks.length - 1;
    while (order > 0 && this.blocks[order].start > index) order -= 1;
    const { element, start } = this.blocks[order];
    const token = element.children[index - start];
    return token === this.caret ? undefined : /** @type {HTMLElement|undefined} */ (token);
  }
}

/** Drawn as a quiet mark with a line end after it; what it says stays as it is. @param {HTMLElement} token */
function markEnd(token) {
  token.classList.add("end");
  token.title = seen(token.textContent ?? "");
}

/** A candidate leaves its row for the text. @param {Element} from @param {Element} to */
function fly(from, to) {
  const stage = from.closest(".player");
  if (!stage) return;
  const frame = stage.getBoundingClientRect();
  const start = from.getBoundingClientRect();
  const end = to.getBoundingClientRect();
  const ghost = make("span", "flight", { "aria-hidden": "true" }, [from.textContent ?? ""]);
  ghost.style.left = `${start.left - frame.left}px`;
  ghost.style.top = `${start.top - frame.top}px`;
  stage.append(ghost);
  const along = `translate(${end.left - start.left}px, ${end.top - start.top}px)`;
  const flight = ghost.animate(
    [
      { opacity: 0.9, transform: "none" },
      { opacity: 0.7, offset: 0.75 },
      { opacity: 0, transform: along },
    ],
    { duration: 360, easing: "cubic-bezier(.4,0,.2,1)" },
  );
  flight.finished.finally(() => ghost.remove());
}

class TextPane {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.caret = make("span", "caret", { "aria-hidden": "true" });
    this.words = make("div", "words");
    this.pane = make("div", "scroll", { tabindex: "0", role: "region", "aria-label": "Text" }, [
      this.words,
    ]);
    this.follower = new Follower(this.pane, () => {});
    this.element = make("section", "text-pane", { "data-testid": "text-pane" }, [
      make("h2", "", {}, ["Text"]),
      this.pane,
      this.follower.back,
      makeLegend(),
    ]);
    this.words.addEventListener("click", (/** @type {MouseEvent} */ event) => this.pick(event));
    this.column = new Column(this.words, this.caret);
    /** @type {Recording|null} */
    this.recording = null;
    /** @type {Landed[]} */
    this.landed = [];
    this.known = 0; // rounds whose tokens are in `landed`
    /** @type {HTMLElement|undefined} */
    this.ringed = undefined;
    this.width = 0;
    this.resized = new ResizeObserver(() => this.resize());
    this.resized.observe(this.pane);
  }

  draw() {
    const { recording } = this.store;
    if (recording !== this.recording) this.begin(recording);
    this.learn();
    this.prompt();
    this.follow();
    this.ring();
  }

  close() {
    this.resized.disconnect();
  }

  /** Lines end elsewhere now, and blocks with them. */
  resize() {
    const { clientWidth } = this.pane;
    const cut = this.width !== 0 && clientWidth !== this.width;
    this.width = clientWidth;
    if (!cut) return;
    this.column.cut(0);
    this.draw(); // at once: the frame under way would be painted without a word
  }

  /** @param {Recording} recording */
  begin(recording) {
    this.recording = recording;
    this.column.cut(0);
    this.landed = [];
    this.known = 0;
    this.follower.resume();
  }

  prompt() {
    const { prompt } = this.store.recording;
    for (const text of prompt.slice(this.column.count)) this.push(text, "prompt");
  }

  /** @param {string} text @param {Fate} fate */
  push(text, fate) {
    const ends = this.store.data.end_texts ?? [];
    this.column.push(text, fate, ends.includes(text));
  }

  learn() {
    const { rounds } = this.store.recording;
    for (; this.known < rounds.length; this.known++)
      for (const token of emittedBy(rounds[this.known]))
        this.landed.push({ ...token, round: this.known });
  }

  /** Tokens of the run that the cursor has reached. */
  reached() {
    const { recording, cursor } = this.store;
    if (recording.rounds.length === 0) return 0;
    const { round, step } = recording.place(cursor);
    return recording.tokens[round] + landedBy(recording.rounds[round], step);
  }

  follow() {
    const { column, store } = this;
    const before = column.count;
    const prompt = store.recording.prompt.length;
    const wanted = prompt + this.reached();
    if (wanted === before) return;
    column.cut(wanted);
    while (column.count < wanted) {
      const { text, fate } = this.landed[column.count - prompt];
      this.push(text, fate);
    }
    if (wanted < before) this.follower.following = true;
    this.follower.settle();
    if (store.lively && wanted === before + 1) this.greet(wanted - 1);
  }

  /** The newest token arrives with a movement. @param {number} index */
  greet(index) {
    const token = this.column.at(index);
    const { round, place } = this.landed[index - this.store.recording.prompt.length];
    token?.animate([{ opacity: 0 }, { opacity: 1 }], { duration: 240 });
    const stage = this.element.closest(".player");
    const chip = stage?.querySelector(`[data-index="${round}"] [data-place="${place}"]`);
    if (chip && token) fly(chip, token);
  }

  /** @param {MouseEvent} event */
  pick(event) {
    const at = /** @type {HTMLElement} */ (event.target).dataset.at;
    const token = this.landed[Number(at) - this.store.recording.prompt.length];
    if (at !== undefined && token) this.store.select({ round: token.round, place: token.place });
  }

  ring() {
    const index = this.indexOf(this.store.selected);
    const token = index === null ? undefined : this.column.at(index);
    if (token === this.ringed) return;
    this.ringed?.classList.remove("selected");
    token?.classList.add("selected");
    this.ringed = token;
  }

  /** Where a spot's token stands in the text, if it landed. @param {Spot|null} spot */
  indexOf(spot) {
    const { recording } = this.store;
    const round = spot && recording.rounds[spot.round];
    if (!spot || !round) return null;
    const order = emittedBy(round).findIndex((each) => each.place === spot.place);
    return order < 0 ? null : recording.prompt.length + recording.tokens[spot.round] + order;
  }
}

const FATES = ["drafted", "accepted", "rejected", "discarded", "recovered", "bonus"];

function makeLegend() {
  const samples = FATES.map((fate) => make("span", "chip", { "data-state": fate }, [fate]));
  return make("div", "legend", { "aria-label": "Key to the marks", role: "group" }, samples);
}

/** @param {Store} store */
function makeText(store) {
  return new TextPane(store);
}
