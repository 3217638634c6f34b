// Both models' distributions at a position: the likeliest tokens of the draft, the target and the
// residual side by side, as bars on one scale.

import { make, makeButton, setText, setTextOrHide } from "./elements.js";
import { likelihood } from "./number_words.js";
import { judged, failedPlace } from "./round_events.js";
import { showToken, spokenText } from "./token_text.js";
import { forkAt, leftoverShare } from "./verdict_rule.js";

/** @import { Store } from "./base_store.js" */
/** @import { Alternative, Insight, Run } from "./payload.d.ts" */
/** @import { Spot } from "./round_events.js" */
/** @import { Subject } from "./verdict_subject.js" */

const LISTED = 10;
const LEFT_OVER = "residual";

/** @typedef {{items: Alternative[], own: Alternative|null, under: string, none?: string}} Listing  none: the text shown if there are no items */

/** @param {Store} store */
export function makeAlternatives(store) {
  const note = make("p", "vd-note");
  const draft = makeColumn(["draft"], "draft");
  const target = makeColumn(["target"], "target", (rank) => {
    const { run } = store.data;
    if (asked && run) store.ask?.("fork", { run: run.id, ...asked, draw: null, rank });
  });
  /** The place whose token a fork would replace. @type {Spot|null} */
  let asked = null;
  const rest = makeColumn([LEFT_OVER], "rest");
  const columns = make("div", "vd-columns", {}, [draft.element, target.element, rest.element]);
  const element = make("div", "vd-alternatives", {}, [note, columns]);
  return {
    element,
    /** @param {Subject|null} subject */
    update(subject) {
      const insight = subject && insightOf(subject);
      setTextOrHide(note, subject && noteOf(subject));
      columns.hidden = !insight;
      if (!subject || !insight) return;
      const pending = subject.fate === "drafted";
      const left = pending ? null : restColumn(subject, insight);
      const tops = [insight.draft_top, ...(pending ? [] : [insight.target_top, left?.items ?? []])];
      const scale = Math.max(...tops.map((top) => top[0]?.[1] ?? 0));
      draft.update(modelColumn(subject, insight, "draft"), scale);
      asked = forkPlace(subject);
      target.update(pending ? null : modelColumn(subject, insight, "target"), scale, asked ? emittedText(subject) : null);
      rest.update(left, scale);
      rest.rename(isGreedy(subject) ? "target at temperature 0" : (THIRD[subject.run.deciding]?.title ?? LEFT_OVER));
      columns.classList.toggle("vd-forks", asked !== null);
    },
  };
}

/**
 * The place where a fork can emit another of the target's tokens, else null. Only greedy runs have
 * such a place: in other runs, a fork changes the draw.
 * @param {Subject} subject @returns {Spot|null}
 */
function forkPlace(subject) {
  const { run, round, spot, fate } = subject;
  if (!run.forkable || !run.greedy || run.lossy || !["accepted", "rejected", "recovered"].includes(fate)) return null;
  return { round: spot.round, place: fate === "recovered" ? failedPlace(round) : spot.place };
}

/** The token that the run emitted at the subject's position. @param {Subject} subject */
function emittedText(subject) {
  return (subject.fate === "accepted" ? subject.candidate : subject.round.extra)?.text ?? null;
}

/**
 * A recovered token shares the position of the candidate that it replaces.
 * @param {Subject} subject
 */
function judgedAt({ round, candidate, fate }) {
  return fate === "recovered" ? judged(round.candidates[failedPlace(round)]) : candidate;
}

/** @param {Subject} subject @returns {Insight|null} */
function insightOf(subject) {
  return judgedAt(subject)?.insight ?? null;
}

/** @param {Subject} subject @returns {string} */
function noteOf(subject) {
  const { run, fate } = subject;
  if (run.engine) return "";
  if (fate === "bonus")
    return "The draft proposed nothing at this position, so there is nothing to compare.";
  if (!judgedAt(subject)) return "";
  if (!insightOf(subject))
    return "Recording was off in this run, so the other tokens are not known.";
  if (!run.greedy) return "";
  return `The first two columns show the models at temperature 1. At temperature 0 only the target’s likeliest token counts; the third column shows it.${forkPlace(subject) ? " Fork continues with another of the target’s tokens." : ""}`;
}

/** @param {Subject} subject @param {Insight} insight @param {"draft"|"target"} model @returns {Listing} */
function modelColumn(subject, insight, model) {
  const text = judgedAt(subject)?.text ?? "";
  return {
    items: insight[`${model}_top`],
    own: [text, insight[model]],
    under: entropyWords(insight[`${model}_entropy`]),
  };
}

/** @param {Subject} subject @param {Insight} insight @returns {Listing} */
function restColumn(subject, insight) {
  const { round, run, fate, landed } = subject;
  if (isGreedy(subject)) return greedyColumn(subject, insight);
  const third = THIRD[run.deciding];
  if (third) return third.of(subject, insight);
  const fell = fate === "rejected" || fate === "recovered";
  const replaced = landed && fell ? round.extra : null;
  const held = replaced ? leftoverShare(round, run) : null;
  /** @type {Alternative|null} */
  const own = replaced && held !== null && !run.greedy ? [replaced.text, held] : null;
  const listed = replaced && insight.residual_top.find(([text]) => text === replaced.text);
  const weight = 1 - (judgedAt(subject)?.expected ?? 1);
  const under = run.greedy ? "" : `sum of target\u00a0−\u00a0draft where positive: ${likelihood(Math.max(0, weight))}, rescaled to 100\u00a0%`;
  return { items: insight.residual_top, own: own ?? listed ?? null, under };
}

/**
 * The third column for verification rules that do not use the residual at a single position.
 * @type {Partial<Record<Run["deciding"], {title: string, of: (subject: Subject, insight: Insight) => Listing}>>}
 */
const THIRD = {
  together: { title: "joint ratio by position", of: jointColumn },
  equal: { title: "the target’s sample", of: targetSampleColumn },
  threshold: { title: "recovered token: drawn from the target", of: (_, insight) => ({ items: insight.target_top, own: null, under: "" }) },
};

/** Block verification: the product of target / draft, capped at 1, after each candidate. @param {Subject} subject @returns {Listing} */
function jointColumn(subject) {
  const own = judgedAt(subject);
  const items = subject.round.candidates.flatMap((each) => {
    const known = judged(each);
    return known?.joint === undefined ? [] : [/** @type {Alternative} */ ([known.text, known.joint])];
  });
  return { items: items.slice(0, LISTED), own: own ? [own.text, own.joint ?? 0] : null, under: "product of target / draft" };
}

/** @param {Subject} subject @returns {Listing} */
function targetSampleColumn(subject) {
  const rival = judgedAt(subject)?.rival;
  /** @type {Alternative[]} */
  const items = rival ? [[rival.text, rival.target]] : [];
  return { items, own: items[0] ?? null, under: rival ? "with its probability" : "", none: "the target’s token here is not part of the text" };
}

/** Whether only the target's likeliest token counts. @param {Subject} subject */
function isGreedy({ run }) {
  return run.greedy && !run.lossy;
}

/** What decides at temperature 0: the target's likeliest token. @param {Subject} subject @param {Insight} insight @returns {Listing} */
function greedyColumn(subject, insight) {
  const { run, round } = subject;
  const fork = forkAt(run, subject.spot.round, subject.fate === "recovered" ? failedPlace(round) : subject.spot.place);
  const [likeliest] = fork ? [emittedText(subject) ?? undefined] : (insight.target_top[0] ?? []);
  /** @type {Alternative[]} */
  const items = likeliest === undefined ? [] : [[likeliest, 1]];
  return { items, own: items[0] ?? null, under: "" };
}

const UNCERTAIN = "Entropy: how uncertain the model is, and how many equally likely tokens would give the same uncertainty.";

/** @param {number} nats */
function entropyWords(nats) {
  const choices = Math.exp(nats);
  return `like ${choices.toFixed(choices < 9.95 ? 1 : 0)} equally likely tokens (${nats.toFixed(2)} nats)`;
}

/** @param {(Node|string)[]} title @param {string} kind @param {(rank: number) => void} [pick] */
function makeColumn(title, kind, pick) {
  const under = make("small", "", kind === "rest" ? {} : { title: UNCERTAIN });
  const rows = Array.from({ length: LISTED + 1 }, (_, rank) => makeAlternative(pick && rank < LISTED ? () => pick(rank) : null));
  const list = make(
    "ol",
    "",
    {},
    rows.map((row) => row.element),
  );
  const none = make("p", "vd-none");
  const name = make("span", "", {}, title);
  const head = make("h4", "", {}, [name, under]);
  return {
    element: make("div", `vd-column vd-of-${kind}`, {}, [head, list, none]),
    /** @param {string} words */
    rename(words) {
      setText(name, words);
    },
    /**
     * @param {Listing|null} column @param {number} scale the probability of a full bar
     * @param {string|null} [said] the run's token there, if a fork can replace it
     */
    update(column, scale, said = null) {
      const items = column?.items ?? [];
      const mark = markedRow(items, column?.own ?? null);
      under.textContent = column?.under ?? "";
      rows.forEach((row, i) => row.update(items[i] ?? null, scale, i === mark, said !== null && items[i]?.[0] !== said));
      if (mark < 0 && column?.own) rows[items.length].update(column.own, scale, true);
      setTextOrHide(
        none,
        column ? (items.length ? "" : (column.none ?? "none: both distributions are equal")) : "not verified yet",
      );
    },
  };
}

/**
 * The row of `own`, or -1. Texts may repeat, so the nearest probability decides.
 * @param {Alternative[]} items @param {Alternative|null} own
 */
function markedRow(items, own) {
  let best = -1;
  items.forEach(([text, prob], i) => {
    if (!own || text !== own[0]) return;
    if (best < 0 || Math.abs(prob - own[1]) < Math.abs(items[best][1] - own[1])) best = i;
  });
  return best;
}

/** @param {(() => void)|null} pick */
function makeAlternative(pick) {
  const token = make("span", "vd-text");
  const bar = make("i");
  const value = make("b");
  const fork = pick && makeButton("vd-pick", "fork", pick);
  const end = make("span", "vd-end", {}, [value, ...(fork ? [fork] : [])]);
  const element = make("li", "", {}, [token, make("span", "vd-bar", {}, [bar]), end]);
  return {
    element,
    /** @param {Alternative|null} item @param {number} scale @param {boolean} marked @param {boolean} [forks] */
    update(item, scale, marked, forks = false) {
      if (fork) {
        fork.hidden = !forks || !item;
        fork.setAttribute("aria-label", `Fork here: go on with ${item ? spokenText(item[0]) : ""}`);
      }
      element.classList.toggle("vd-empty", !item);
      element.classList.toggle("vd-marked", marked && item !== null);
      showToken(token, item ? item[0] : null);
      value.textContent = item ? likelihood(item[1]) : "";
      bar.style.width = item && scale > 0 ? `${(100 * item[1]) / scale}%` : "0";
    },
  };
}
