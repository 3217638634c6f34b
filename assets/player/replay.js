// Where a replay file begins: it draws what stands around the player, and opens the player, from the
// data in the file.

import { make } from "./elements.js";
import { mountPlayer } from "./mount.js";
import { seen } from "./token_text.js";

/** @import { About, ReplayData } from "./payload.d.ts" */

/** @param {string} kind @param {string[]} cells */
function tableRow(kind, cells) {
  const scopes = cells.map((_, place) => (kind === "th" ? "col" : place === 0 ? "row" : ""));
  return make(
    "tr",
    "",
    {},
    cells.map((text, place) =>
      scopes[place] ? make("th", "", { scope: scopes[place] }, [seen(text)]) : make("td", "", {}, [seen(text)]),
    ),
  );
}

/** @param {string[][]} table its head first */
function makeTable([head, ...rows]) {
  return make("div", "replay-table", { tabindex: "0", role: "region", "aria-label": "Figures of the lanes" }, [
    make("table", "", {}, [
      make("thead", "", {}, [tableRow("th", head)]),
      make("tbody", "", {}, rows.map((row) => tableRow("td", row))),
    ]),
  ]);
}

/** @param {About} about */
function makeHead({ title, verdict, facts }) {
  const parts = [make("h1", "", {}, [seen(title)])];
  if (verdict) parts.push(make("p", "replay-verdict", { "data-testid": "replay-verdict" }, [seen(verdict)]));
  parts.push(make("p", "replay-facts", {}, facts.map((fact) => make("span", "", {}, [seen(fact)]))));
  return make("header", "replay-head", {}, parts);
}

function openReplay() {
  const text = document.getElementById("data")?.textContent ?? "{}";
  const { about, player } = /** @type {ReplayData} */ (JSON.parse(text));
  const stage = make("main", "replay-stage");
  const rows = about.table.length ? [makeTable(about.table)] : [];
  document.title = seen(about.title);
  document.body.append(makeHead(about), ...rows, stage);
  const show = () => mountPlayer({ data: player, parentElement: stage, setStateValue: () => {} });
  // The player looks at the background for its theme.
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  show();
}

openReplay();
