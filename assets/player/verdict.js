// @ts-check
// The verdict card: one token, the odds it met, what both models thought, and what another
// draw would have done.

/**
 * What a spot has come to at the cursor.
 * @param {Store} store @param {Spot} spot @returns {Case}
 */
function caseAt(store, spot) {
  const { recording, cursor, data } = store;
  const now = recording.place(cursor);
  const round = recording.rounds[spot.round];
  const step = spot.round < now.round ? eventsOf(round) : spot.round === now.round ? now.step : 0;
  const scene = sceneAt(round, step);
  const candidate = round.candidates[spot.place] ?? null;
  const fate = (candidate ? scene.cells[spot.place] : scene.extra) ?? "drafted";
  const passed = step > round.candidates.length + 1;
  return { run: data.run, round, spot, candidate, fate, passed, landed: scene.extra !== null };
}

/** Finds the latest rejection up to a round; what was found is kept, so that asking is cheap. */
function makeRejectionFinder() {
  /** @type {Recording|null} */
  let known = null;
  /** @type {number[]} */
  let latest = [];
  /** @param {Recording} recording @param {number} last @returns {Spot|null} */
  return (recording, last) => {
    if (recording !== known) [known, latest] = [recording, []];
    for (let i = latest.length; i < recording.rounds.length; i++)
      latest.push(rejectedPlace(recording.rounds[i]) >= 0 ? i : (latest[i - 1] ?? -1));
    const round = latest[last] ?? -1;
    return round < 0 ? null : { round, place: rejectedPlace(recording.rounds[round]) };
  };
}

/** @param {Round} round @returns {number} -1 without one */
function rejectedPlace(round) {
  return round.candidates.findIndex((each) => each.verdict === "rejected");
}

/**
 * The spot before or after another, up to the round of the cursor.
 * @param {Store} store @param {Spot} spot @param {1|-1} by @returns {Spot|null}
 */
function nextSpot(store, spot, by) {
  const { rounds } = store.recording;
  const place = spot.place + by;
  if (place >= 0 && place < placesOf(rounds[spot.round])) return { round: spot.round, place };
  const round = spot.round + by;
  if (round < 0 || round > store.recording.place(store.cursor).round) return null;
  return { round, place: by > 0 ? 0 : placesOf(rounds[round]) - 1 };
}

/** @param {Round} round */
function placesOf(round) {
  return round.candidates.length + (round.extra ? 1 : 0);
}

/** @param {Store} store */
function makeVerdictCard(store) {
  const lastRejection = makeRejectionFinder();
  const head = makeVerdictHead(store, () => shownSpot(store, lastRejection));
  const sentence = make("p", "vd-say");
  const coin = makeCoin(store, () => shownSpot(store, lastRejection));
  const odds = makeAlternatives();
  const element = make(
    "section",
    "vd",
    { "data-testid": "verdict-card", "aria-label": "Verdict" },
    [make("div", "vd-inside", {}, [head.element, sentence, coin.element, odds.element])],
  );
  let drawn = "";
  return {
    element,
    draw() {
      const spot = shownSpot(store, lastRejection);
      const subject = spot && caseAt(store, spot);
      const mark = markOf(store, subject);
      if (mark === drawn) return;
      drawn = mark;
      element.classList.toggle("vd-nothing", !subject);
      head.update(subject);
      sentence.replaceChildren(...(subject ? TELLERS[subject.fate](subject) : [NOTHING_YET]));
      coin.update(subject);
      odds.update(subject);
    },
    close() {},
  };
}

const NOTHING_YET = "Why each token stood or fell is told here. Play, or step a token.";

/**
 * All that decides what the card shows, in a string.
 * @param {Store} store @param {Case|null} subject
 */
function markOf(store, subject) {
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
    whatIf,
    selected !== null,
    edge,
  ].join();
}

/**
 * The chosen token; else the latest rejection before the cursor, else the latest token.
 * @param {Store} store @param {(recording: Recording, last: number) => Spot|null} lastRejection
 * @returns {Spot|null}
 */
function shownSpot(store, lastRejection) {
  const { recording, cursor, selected } = store;
  if (selected && selected.round < recording.rounds.length) return selected;
  if (cursor <= 0 || recording.rounds.length === 0) return null;
  const { round, step } = recording.place(cursor);
  const scene = sceneAt(recording.rounds[round], step);
  const struck = scene.cells.indexOf("rejected");
  if (struck >= 0) return { round, place: struck };
  const before = lastRejection(recording, round - 1);
  const place = scene.extra ? scene.cells.length : Math.max(0, scene.cells.length - 1);
  return before ?? { round, place };
}

/** @param {Store} store @param {() => Spot|null} shown */
function makeVerdictHead(store, shown) {
  const where = make("small");
  const back = make("button", "vd-move", { type: "button", "aria-label": "Previous token" }, ["‹"]);
  const on = make("button", "vd-move", { type: "button", "aria-label": "Next token" }, ["›"]);
  const follow = make("button", "vd-follow", { type: "button" }, ["follow the player"]);
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
  return {
    element: make("header", "vd-head", {}, [title, follow, back, on]),
    /** @param {Case|null} subject */
    update(subject) {
      where.textContent = subject ? whereabouts(subject) : "";
      follow.hidden = store.selected === null;
      back.disabled = !subject || !nextSpot(store, subject.spot, -1);
      on.disabled = !subject || !nextSpot(store, subject.spot, 1);
    },
  };
}

/** @param {Case} subject */
function whereabouts({ round, spot, candidate }) {
  const count = round.candidates.length;
  const place = candidate ? `token ${spot.place + 1} of ${count}` : "the extra token";
  return `round ${spot.round + 1}, ${place}`;
}
