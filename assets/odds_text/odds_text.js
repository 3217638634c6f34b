// A text as a heat map: each token's background shows its acceptance probability, with the
// rounds of a run as an overlay. Token text is set only through textContent.

import { make } from "../player/elements.js";
import { redrawnFrom } from "../player/redrawn.js";
import { labelText, visibleText } from "../player/token_text.js";

/**
 * The data from Python. ``odds`` of a token is null if not known; ``ends`` maps the index of each
 * token that ended a round of the run to the token's kind.
 * @typedef {{
 *   id: string, prompt: string, texts: string[], odds: (number|null)[],
 *   ends: Record<string, string>, label: string,
 * }} OddsText
 */

const STEPS = 5; // background shades, from certainly rejected to certainly accepted

/** @param {number|null} odds */
function shade(odds) {
  return odds === null ? "unknown" : `s${Math.min(STEPS - 1, Math.floor(odds * STEPS))}`;
}

/** @param {number|null} odds */
function words(odds) {
  return `acceptance probability ${odds === null ? "unknown" : odds.toFixed(2)}`;
}

/** @param {OddsText} data */
function drawn(data) {
  const prompt = make("span", "prompt", {});
  prompt.textContent = visibleText(data.prompt);
  const tokens = data.texts.map((text, place) => {
    const end = data.ends[String(place)];
    const token = make("span", `token ${shade(data.odds[place])}${end ? ` end ${end}` : ""}`, {
      title: `${words(data.odds[place])}${end ? `, ${end}: a round ended here` : ""}`,
    });
    token.textContent = labelText(text, visibleText);
    return token;
  });
  const body = make("p", "words", { "aria-label": data.label }, [prompt, ...tokens]);
  return make("div", "odds-text", { "data-testid": "odds-text", role: "group" }, [key(Object.keys(data.ends).length > 0), body]);
}

/** @param {boolean} hasRounds */
function key(hasRounds) {
  const ends = ["0", "", "", "", "1"];
  const cells = ends.map((label, place) => {
    const cell = make("span", `cell s${place}`, {});
    cell.textContent = label;
    return cell;
  });
  const low = make("span", "end-label", {});
  low.textContent = "acceptance probability";
  const marks = (hasRounds ? ["recovered", "bonus"] : []).map((kind) => {
    const mark = make("span", `mark end ${kind}`, {});
    mark.textContent = kind;
    return mark;
  });
  return make("div", "key", { "aria-hidden": "true" }, [low, ...cells, ...marks]);
}

const draw = redrawnFrom(drawn);

/** @param {{data: OddsText, parentElement: HTMLElement}} given */
export default function (given) {
  return draw(given);
}
