// The verdict card explains one token: its acceptance probability, both models' distributions, and
// what another draw would have done.

import { makeAcceptanceBar } from "./acceptance_bar.js";
import { makeAlternatives } from "./alternatives.js";
import { CardPlace } from "./card_place.js";
import { make } from "./elements.js";
import { describeAnswer, placeInAnswer } from "./engine_words.js";
import { describeHead } from "./head_words.js";
import { nameOf, placeInRound, shapeOf } from "./round_shape.js";
import { makeRejectionFinder, nextSpot, shownSpot, subjectAt } from "./verdict_subject.js";
import { makeRace } from "./verdict_race.js";
import { describeFork, DESCRIPTIONS } from "./verdict_words.js";

/** @import { Store } from "./base_store.js" */
/** @import { Spot } from "./round_events.js" */
/** @import { Subject } from "./verdict_subject.js" */

/** @param {Store} store */
export function makeVerdictCard(store) {
  const lastRejection = makeRejectionFinder();
  const head = makeVerdictHead(store, () => shownSpot(store, lastRejection));
  const sentence = make("p", "vd-say");
  const bar = makeAcceptanceBar(store, () => shownSpot(store, lastRejection));
  const race = makeRace();
  const odds = makeAlternatives(store);
  const element = make(
    "section",
    "vd",
    { "data-testid": "verdict-card", "aria-label": "Verdict" },
    [make("div", "vd-inside", {}, [head.element, sentence, make("div", "vd-decided", {}, [bar.element, race.element]), odds.element])],
  );
  const place = new CardPlace(element, store);
  let drawn = "";
  return {
    element,
    draw() {
      const spot = shownSpot(store, lastRejection);
      const subject = spot && subjectAt(store, spot);
      const mark = stateShown(store, subject);
      if (mark !== drawn) {
        drawn = mark;
        element.classList.toggle("vd-nothing", !subject);
        element.classList.toggle("vd-server", Boolean(subject?.run.engine));
        head.update(subject);
        sentence.replaceChildren(...(subject ? wordsOf(subject) : [NOTHING_YET]));
        bar.update(subject);
        race.update(subject);
        odds.update(subject);
      }
      place.draw();
    },
    close: () => place.close(),
  };
}

const NOTHING_YET = "This card explains why a token was accepted or rejected. Press Play, or step by a token.";

/** @param {Subject} subject */
function wordsOf(subject) {
  return subject.run.engine ? describeAnswer(subject, subject.run.engine) : [...DESCRIPTIONS[subject.fate](subject), ...describeFork(subject), ...describeHead(subject)];
}

/**
 * A string that changes whenever the card must be redrawn.
 * @param {Store} store @param {Subject|null} subject
 */
function stateShown(store, subject) {
  if (!subject) return `nothing ${store.recording.id}`;
  const { spot, fate, passed, landed } = subject;
  const { recording, whatIf, selected, cursor } = store;
  const edge = recording.place(cursor).round === spot.round;
  return [
    recording.id,
    spot.round,
    spot.place,
    fate,
    passed,
    landed,
    subject.run.forkable,
    whatIf,
    selected !== null,
    store.beside !== null,
    edge,
  ].join();
}

/** @param {Store} store @param {() => Spot|null} shown */
function makeVerdictHead(store, shown) {
  const where = make("small");
  const back = make("button", "vd-move", { type: "button", "aria-label": "Previous token" }, ["‹"]);
  const on = make("button", "vd-move", { type: "button", "aria-label": "Next token" }, ["›"]);
  const follow = make("button", "vd-follow", { type: "button" }, ["follow the player"]);
  const shut = make("button", "vd-move vd-shut", { type: "button", "aria-label": "Close" }, ["×"]);
  const title = make("h3", "", {}, ["Verdict ", where]);
  /** @param {1|-1} by */
  const move = (by) => {
    const spot = shown();
    const next = spot && nextSpot(store, spot, by);
    if (next) store.select(next);
  };
  back.addEventListener("click", () => move(-1));
  on.addEventListener("click", () => move(1));
  follow.addEventListener("click", () => store.select(null));
  shut.addEventListener("click", () => store.shut());
  return {
    element: make("header", "vd-head", {}, [title, follow, back, on, shut]),
    /** @param {Subject|null} subject */
    update(subject) {
      where.replaceChildren(...(subject ? placeWords(subject) : []));
      follow.hidden = store.selected === null || store.beside !== null;
      shut.hidden = store.beside === null;
      back.disabled = !subject || !nextSpot(store, subject.spot, -1);
      on.disabled = !subject || !nextSpot(store, subject.spot, 1);
    },
  };
}

/** @param {Subject} subject */
function placeWords(subject) {
  const { run, round, spot, candidate } = subject;
  if (run.engine) return [placeInAnswer(subject)];
  const count = round.candidates.length;
  const place = candidate ? placeInRound(round, spot.place) : "the extra token";
  const ends = round.cut === "length" || round.cut === "context";
  const words = `${nameOf(round, spot.round)}, ${place}`;
  if (!ends || shapeOf(round).branched || count >= (run.gamma ?? 0)) return [words];
  return [words, make("span", "vd-short", {}, [`; only ${count} drafted: the text reaches its length limit`])];
}
