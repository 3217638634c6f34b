// The fork of a run: the changed draw or token, and both texts side by side from there on.

import { make, setText } from "./elements.js";
import { distinguish } from "./number_words.js";
import { emittedBy, judged } from "./round_events.js";
import { nameSpecial, visibleText } from "./token_text.js";
import { tokenWord } from "./verdict_parts.js";
import { oddsOf } from "./verdict_rule.js";

/** @import { Store } from "./base_store.js" */
/** @import { Fork, ForkedText, Run } from "./payload.d.ts" */
/** @import { Recording } from "./recording.js" */

const LEAD = 14; // tokens before the fork that are shown again

/** The tokens of a run. @param {Recording} recording */
function tokensOf(recording) {
  return recording.rounds.flatMap((round) => emittedBy(round).map((token) => token.text));
}

/** The tokens as running text. @param {string[]} texts */
function runningText(texts) {
  return texts.map((text) => {
    const word = make("span", "", {}, [visibleText(text)]);
    nameSpecial(word, text);
    return word;
  });
}

/** @param {Fork} fork @param {Recording} recording @param {Run} run @returns {(Node|string)[]} */
function describeFork(fork, recording, run) {
  const round = recording.rounds[fork.round];
  const candidate = judged(round?.candidates[fork.place]);
  if (!candidate) return ["The run has not reached its fork yet."];
  if (fork.draw === null) {
    const said = candidate.verdict === "accepted" ? candidate.text : (round.extra?.text ?? "");
    const likeliest = fork.likeliest === null ? ["its likeliest token"] : ["its likeliest token, ", tokenWord(fork.likeliest)];
    return ["Here the target emits ", tokenWord(said), " instead of ", ...likeliest, "."];
  }
  const odds = oddsOf(candidate, run);
  const [tried] = distinguish(candidate.uniform, odds);
  const [drawn] = distinguish(fork.draw, odds);
  const before = candidate.verdict === "accepted" ? "rejected" : "accepted";
  return [
    `The draw on `,
    tokenWord(candidate.text),
    ` was ${drawn}, and the token was ${before}. Here the draw is ${tried}, so the token is ${candidate.verdict}. Every other draw is the same.`,
  ];
}

class ForkPane {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.title = make("h3");
    this.summary = make("p", "fork-summary");
    this.where = make("p", "fork-where", { "data-testid": "fork-where" });
    this.other = makeSide("Original run");
    this.own = makeSide("Fork");
    this.sides = make("div", "fork-sides", {}, [this.other.element, this.own.element]);
    this.element = make("section", "fork-pane card", { "data-testid": "fork", "aria-label": "The fork" }, [
      this.title,
      this.summary,
      this.sides,
      this.where,
    ]);
    this.drawn = "";
    this.last = store.recording.id;
  }

  draw() {
    const { data, recording } = this.store;
    const fork = data.run?.forks.at(-1);
    this.element.hidden = !fork;
    if (!fork || !data.run) return;
    const { forked = null } = data;
    const mark = [recording.id, recording.rounds.length, forked?.total].join();
    if (mark === this.drawn) return;
    this.drawn = mark;
    setText(this.title, `Forked at round ${fork.round + 1}, token ${fork.place + 1}`);
    this.summary.replaceChildren(...describeFork(fork, recording, data.run));
    this.sides.hidden = forked === null;
    if (forked) this.compare(forked, tokensOf(recording), data.link?.file === true);
    else setText(this.where, "The original run is no longer available, so the texts cannot be compared.");
    if (this.last !== recording.id) this.element.scrollIntoView({ block: "nearest" });
    this.last = recording.id;
  }

  /** @param {ForkedText} forked @param {string[]} own @param {boolean} isFile */
  compare(forked, own, isFile) {
    const { before, texts } = forked;
    let same = 0;
    while (same < texts.length && before + same < own.length && texts[same] === own[before + same]) same++;
    const parting = before + same;
    const lead = own.slice(Math.max(0, parting - LEAD), parting);
    const cut = parting > LEAD;
    this.other.show(lead, texts.slice(same), cut, forked.total > before + texts.length);
    this.own.show(lead, own.slice(parting, before + Math.max(texts.length, 400)), cut, false);
    this.other.link(isFile ? null : forked.id);
    setText(
      this.where,
      parting ? `The first ${parting} ${parting === 1 ? "token is" : "tokens are"} the same; the texts differ from token ${parting + 1} on.` : "The texts differ from the first token on.",
    );
  }

  close() {}
}

/** @param {string} title */
function makeSide(title) {
  const link = make("a", "fork-link", { target: "_self", hidden: "" }, ["open it"]);
  const words = make("p", "fork-words");
  return {
    element: make("div", "fork-side", {}, [make("h4", "", {}, [title, " ", link]), words]),
    /** @param {string[]} lead @param {string[]} rest @param {boolean} cut @param {boolean} goesOn */
    show(lead, rest, cut, goesOn) {
      const [first = "", ...later] = rest;
      words.replaceChildren(
        make("span", "fork-same", {}, [cut ? "… " : "", ...runningText(lead)]),
        make("mark", "", { "data-testid": "parting" }, runningText([first])),
        ...runningText(later),
        goesOn ? " …" : "",
      );
    },
    /** @param {string|null} run */
    link(run) {
      link.hidden = run === null;
      if (run !== null) link.href = `?run=${encodeURIComponent(run)}`;
    },
  };
}

/** @param {Store} store */
export function makeForkPane(store) {
  return new ForkPane(store);
}
