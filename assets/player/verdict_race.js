// The race that decides when draft and target share their noise (Gumbel coupling): for each model, a
// token arrives after its random time divided by its probability, and the earliest wins.

import { make, setText } from "./elements.js";
import { showToken } from "./token_text.js";

/** @import { Candidate, Round } from "./payload.d.ts" */
/** @import { Subject } from "./verdict_subject.js" */

/** @typedef {{text: string, time: number, own: boolean}} Arrival */

const MARGIN = "would have come second";

export function makeRace() {
  const draft = makeTrack("draft’s race");
  const target = makeTrack("target’s race");
  const note = make("p", "vd-race-note");
  const element = make("div", "vd-race", { "data-testid": "race", hidden: "" }, [draft.element, target.element, note]);
  return {
    element,
    /** @param {Subject|null} subject */
    update(subject) {
      const candidate = subject?.fate === "drafted" ? null : subject?.candidate;
      element.hidden = candidate?.rival?.noise === undefined;
      if (!subject || !candidate || element.hidden) return;
      const [ours, theirs] = arrivals(candidate, subject.round);
      const longest = Math.max(...[...ours, ...theirs].map(({ time }) => time));
      draft.update(ours, longest);
      target.update(theirs, longest);
      setText(note, noteOf(candidate));
    },
  };
}

/**
 * The arrivals of the candidate and of the target's own token in both races, without unknown times.
 * @param {Candidate} candidate @param {Round} round @returns {[Arrival[], Arrival[]]}
 */
function arrivals({ text, draft, target, noise = 0, rival }, { extra }) {
  const [own, other] = [[draft, target], [extra && "draft" in extra ? (extra.draft ?? 0) : 0, rival?.target ?? 0]];
  const same = !rival || rival.text === text;
  return /** @type {[Arrival[], Arrival[]]} */ ([0, 1].map((model) =>
    [
      { text, time: noise / own[model], own: true },
      ...(same ? [] : [{ text: rival.text, time: (rival.noise ?? 0) / other[model], own: false }]),
    ].filter(({ time }) => Number.isFinite(time)),
  ));
}

/** @param {Candidate} candidate */
function noteOf({ rival }) {
  const margin = rival?.margin;
  if (margin === undefined) return "";
  const much = margin < 10 ? `${(100 * margin).toFixed(margin < 0.1 ? 1 : 0)}\u00a0% later` : "long after";
  return `In the target’s race another token ${MARGIN}, ${much}. The noise does not depend on the draft’s proposal.`;
}

/** @param {string} name */
function makeTrack(name) {
  const rows = [0, 1].map(() => {
    const token = make("span", "vd-text");
    const bar = make("i");
    const value = make("b");
    return { token, bar, value, element: make("li", "", {}, [token, make("span", "vd-bar", {}, [bar]), value]) };
  });
  return {
    element: make("div", "vd-column", {}, [make("h4", "", {}, [name]), make("ol", "", {}, rows.map(({ element }) => element))]),
    /** @param {Arrival[]} found @param {number} longest */
    update(found, longest) {
      const sorted = found.toSorted((one, other) => one.time - other.time);
      rows.forEach(({ token, bar, value, element }, place) => {
        const each = sorted[place];
        element.classList.toggle("vd-empty", !each);
        element.classList.toggle("vd-marked", place === 0 && Boolean(each));
        showToken(token, each ? each.text : null);
        setText(value, each ? timeWords(each.time) : "");
        bar.style.width = each ? `${(100 * each.time) / longest}%` : "0";
        bar.classList.toggle("vd-own", Boolean(each?.own));
      });
    },
  };
}

/** @param {number} time */
function timeWords(time) {
  return time >= 100 ? time.toFixed(0) : time.toPrecision(2);
}
