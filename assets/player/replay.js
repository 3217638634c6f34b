// Entry point of a replay file: draws the heading and the table, and opens the player, from the data
// in the file.

import { make } from "./elements.js";
import { momentIn } from "./moment.js";
import { mountPlayer } from "./mount.js";
import { IN_HASH } from "./presenter.js";
import { visibleText } from "./token_text.js";

/** @import { About, ReplayData, RunPayload } from "./payload.d.ts" */

/** @param {string} kind @param {string[]} cells */
function makeTableRow(kind, cells) {
  const scopes = cells.map((_, place) => (kind === "th" ? "col" : place === 0 ? "row" : ""));
  return make(
    "tr",
    "",
    {},
    cells.map((text, place) =>
      scopes[place] ? make("th", "", { scope: scopes[place] }, [visibleText(text)]) : make("td", "", {}, [visibleText(text)]),
    ),
  );
}

/** @param {string[][]} table with the header row first */
function makeTable([head, ...rows]) {
  return make("div", "replay-table", { tabindex: "0", role: "region", "aria-label": "Figures of the lanes" }, [
    make("table", "", {}, [
      make("thead", "", {}, [makeTableRow("th", head)]),
      make("tbody", "", {}, rows.map((row) => makeTableRow("td", row))),
    ]),
  ]);
}

/** @param {About} about */
function makeHead({ title, verdict, facts }) {
  const parts = [make("h1", "", {}, [visibleText(title)])];
  if (verdict) parts.push(make("p", "replay-verdict", { "data-testid": "replay-verdict" }, [visibleText(verdict)]));
  parts.push(make("p", "replay-facts", {}, facts.map((fact) => make("span", "", {}, [visibleText(fact)]))));
  return make("header", "replay-head", {}, parts);
}

/** Set the moment from the address, else keep the file's. @param {RunPayload} data @returns {RunPayload} */
function atMoment(data) {
  const moment = momentIn(window.location.hash.slice(1)) ?? data.moment;
  return { ...data, moment, link: { kept: false, settings: null, local: false, file: true } };
}

function openReplay() {
  const text = document.getElementById("data")?.textContent ?? "{}";
  const { about, player } = /** @type {ReplayData} */ (JSON.parse(text));
  const stage = make("main", "replay-stage");
  const rows = about.table.length ? [makeTable(about.table)] : [];
  document.title = visibleText(about.title);
  document.body.append(makeHead(about), ...rows, stage);
  const data = "race" in player ? player : atMoment(player);
  const show = () => mountPlayer({ data, parentElement: stage, setStateValue: () => {} }, IN_HASH);
  // The player takes its theme from the background.
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  show();
}

openReplay();
